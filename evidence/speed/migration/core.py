"""What a batch costs in which states of keys move, beside one in which none do: the workers themselves, no Spark.

    python -m evidence.speed.migration --core [--keys N] [--workers W] [--tuples T] [--shares 0.01 0.1 0.5]

N keys of ``Statistics``, evenly on W workers; T tuples a batch, of keys at random. The table has the CPU
time of all workers together, and the bytes that they write. It compares the median batch, the batch at whose end the
states of a share of the keys are released, and the next one, which takes them in. Its last row has the states that move
when there is one worker more.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.metrics.task_reports import Report, Reports, WorkerReport
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker.stateful import worker
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.migration import find_owners, make_router
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.grouping.feedback import Plan
from unskew.grouping.feedback_loop import PlanState
from unskew.grouping.keys import hash_keys
from unskew.operators import Statistics

ORDINARY, CHUNK = 5, 200_000


class Engine(Reports):
    """Workers with dictionaries for states, batch by batch; ``reports`` has each one's report of the last batch."""

    def __init__(self, folder: str, workers: int, keys: int) -> None:
        self.routing = Routing("MIXED", workers, folder, plans=PlanStateLog(folder).at)
        self.config = KeyedOperatorConfig(
            Statistics("value"), pa.string(), workers, False, ttl_ms=1 << 40, routing=self.routing, reports=self
        )
        self.stores = [MemoryStore() for _ in range(workers + 1)]
        self.names = pa.array([f"key {i}" for i in range(keys)])
        self.number = 0
        self.reports: dict[int, WorkerReport] = {}

    def send(self, batch: int, number: int, report: Report) -> None:
        """Take a worker's report."""
        assert isinstance(report, WorkerReport)
        self.reports[number] = report

    def batch(self, chosen: np.ndarray) -> float:
        """Run a batch of these keys; the CPU seconds of its workers."""
        plans = self.routing.plan_state(self.number)
        keys = self.names.take(pa.array(chosen)).dictionary_encode()
        tuples = pa.record_batch([keys, pa.array(chosen.astype(np.float64))], ["key", "value"])
        routed = make_router(self.routing, plans.active, plans.workers).route(keys)
        packets: list[list[bytes]] = [[] for _ in self.stores]
        for to, packet in zip(*cut_packets(tuples, routed, plans.workers).columns, strict=True):
            packets[to.as_py()].append(packet.as_py())
        started = time.process_time()
        for number, store in enumerate(self.stores):
            batch = WorkerBatch(self.number, 1_000 + self.number, 1_000 + self.number)
            for _ in worker.run_batch(self.config, store, number, packets[number], batch, OperatorProgress.read(store)):
                pass
        self.number += 1
        return time.process_time() - started

    def plan(self, state: PlanState) -> None:
        """Set the plans of the next batch."""
        PlanStateLog(self.routing.checkpoint or "").write(self.number, state)


def measure(workers: int, keys: int, tuples: int, share: float | None) -> tuple[float, float, float, int, int]:
    """Measure a migration of a share of the keys; without a share, that to one worker more.

    Returns tuple: CPU seconds of the median batch, of that which releases, and of that which takes in; states moved,
    and bytes.
    """
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(folder, workers, keys)
        for start in range(0, keys, CHUNK):
            engine.batch(np.arange(start, min(start + CHUNK, keys)))
        ordinary = [engine.batch(random.integers(0, keys, tuples)) for _ in range(ORDINARY)]
        if share is None:
            plan, after = Plan(1, 0, engine.routing.router(workers + 1).identity, {}), workers + 1
        else:
            hashes = np.sort(hash_keys(engine.names)[: round(share * keys)])
            to = (find_owners(engine.routing.router(), hashes) + 1) % workers
            values = {"table_keys": hashes, "table_workers": to.astype(np.int32)}
            plan, after = Plan(1, 0, engine.routing.router().identity, values), workers
        engine.plan(PlanState(workers, pending=plan, pending_workers=after))
        out = engine.batch(random.integers(0, keys, tuples))
        migrations = [report.migration for report in engine.reports.values()]
        moved, size = sum(each.keys for each in migrations), sum(each.bytes for each in migrations)
        engine.plan(PlanState(after, active=plan))
        taken = engine.batch(random.integers(0, keys, tuples))
    return statistics.median(ordinary), out, taken, moved, size


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--tuples", type=int, default=200_000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.01, 0.1, 0.5])
    given = parser.parse_args(arguments)
    table = Table("what moves", box=MARKDOWN)
    for name in ("states", "MB", "median batch, CPU s", "releases, × median", "takes in, × median"):
        table.add_column(name, justify="right")
    measure(2, 1_000, 1_000, 0.5)  # compiles
    for share in (*given.shares, None):
        median, out, taken, moved, size = measure(given.workers, given.keys, given.tuples, share)
        name = "one worker more" if share is None else f"{share:.0%} of the keys"
        numbers = [f"{moved:,}", f"{size / 1e6:.1f}", f"{median:.2f}", f"{out / median:.2f}", f"{taken / median:.2f}"]
        table.add_row(name, *numbers)
    Console(width=120).print(table)
