"""What a batch costs in which the states of keys move, beside one in which none do: the engine itself, no Spark.

    python -m benchmarks.migration --core [--keys N] [--workers W] [--tuples T] [--shares 0.01 0.1 0.5]

N keys of ``Running``, evenly on W workers; T tuples a batch, of keys at random. CPU time of all workers together: in
the median batch, in the batch at whose end a share of the keys is handed out, in the next one, that takes them in; and
what is written. Last, all that moves when there is one worker more, as where a query is stopped for it.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from unskew.apps.feedback.plans import Plans
from unskew.apps.feedback.standing import Standing
from unskew.apps.keyed import worker
from unskew.apps.keyed.moving import owners, router_by
from unskew.apps.keyed.program import Beat, Program
from unskew.apps.keyed.store import MemoryStore
from unskew.apps.topology.packets import cut
from unskew.apps.topology.reports import Reports
from unskew.apps.topology.router import Routing
from unskew.grouping.feedback import Plan
from unskew.grouping.keys import hash_keys
from unskew.works import Running

ORDINARY, CHUNK = 5, 200_000


class Engine(Reports):
    """Workers over dictionaries, batch by batch; ``told`` has what each of them reported of the last one."""

    def __init__(self, folder: str, workers: int, keys: int) -> None:
        self.routing = Routing("MIXED", workers, folder, rescaled=True)
        self.program = Program(
            Running("value"), pa.string(), workers, False, ttl_ms=1 << 40, routing=self.routing, reports=self
        )
        self.stores = [MemoryStore() for _ in range(workers + 1)]
        self.names = pa.array([f"key {i}" for i in range(keys)])
        self.number = 0
        self.told: dict[int, dict] = {}

    def send(self, batch: int, stage: str, partition: int, report: dict[str, Any]) -> None:
        """Take a worker's report."""
        self.told[partition] = report

    def batch(self, chosen: np.ndarray) -> float:
        """Run a batch of these keys; CPU seconds of its workers."""
        standing = self.routing.standing(self.number)
        keys = self.names.take(pa.array(chosen)).dictionary_encode()
        tuples = pa.record_batch([keys, pa.array(chosen.astype(np.float64))], ["key", "value"])
        routed = router_by(self.routing, standing.active, standing.workers).route(keys)
        packets: list[list[bytes]] = [[] for _ in self.stores]
        for to, packet in zip(*cut(tuples, routed, standing.workers).columns, strict=True):
            packets[to.as_py()].append(packet.as_py())
        started = time.process_time()
        for number, store in enumerate(self.stores):
            beat = Beat(self.number, 1_000 + self.number, 1_000 + self.number)
            for _ in worker.work(self.program, store, number, packets[number], beat):
                pass
        self.number += 1
        return time.process_time() - started

    def plan(self, standing: Standing) -> None:
        """Let the next batch have it."""
        Plans(self.routing.checkpoint or "").write(self.number, standing)


def measure(workers: int, keys: int, tuples: int, share: float | None) -> tuple[float, float, float, int, int]:
    """Median, handing out and taking in (CPU s); states and bytes. Without a share: with one worker more."""
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
            to = (owners(engine.routing.router(), hashes) + 1) % workers
            values = {"table_keys": hashes, "table_workers": to.astype(np.int32)}
            plan, after = Plan(1, 0, engine.routing.router().identity, values), workers
        engine.plan(Standing(workers, pending=plan, pending_workers=after))
        out = engine.batch(random.integers(0, keys, tuples))
        moved, size = (sum(said[name] for said in engine.told.values()) for name in ("moved_keys", "moved_bytes"))
        engine.plan(Standing(after, active=plan))
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
    for name in ("states", "MB", "median batch, CPU s", "hands out, × median", "takes in, × median"):
        table.add_column(name, justify="right")
    measure(2, 1_000, 1_000, 0.5)  # compiles
    for share in (*given.shares, None):
        median, out, taken, moved, size = measure(given.workers, given.keys, given.tuples, share)
        name = "one worker more" if share is None else f"{share:.0%} of the keys"
        numbers = [f"{moved:,}", f"{size / 1e6:.1f}", f"{median:.2f}", f"{out / median:.2f}", f"{taken / median:.2f}"]
        table.add_row(name, *numbers)
    Console(width=120).print(table)
