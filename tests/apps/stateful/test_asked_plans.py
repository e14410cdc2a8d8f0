"""A query of one's own by a grouping with feedback, without Spark: drivers die within batches and between them.

Its routers ask a real driver's thread, and its workers are the real ones, with their states in memory.
"""

import random
from collections import Counter
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.driver.plans.imitation import Memory
from tests.apps.stateful.driver import Tally, packets_of
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.batch_planner import BatchPlanner
from unskew.apps.driver.plans.plan_service import ListenAddress, PlanService
from unskew.apps.library.stateful_query import forget_transfers
from unskew.apps.metrics.task_reports import TaskReports
from unskew.apps.router.router import Routing, SourceRouter
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.apps.worker.stateful import operator_output
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.migration import StateTransfers
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.apps.worker.stateful.worker import run_batch
from unskew.errors import EnvironmentFault
from unskew.grouping.feedback_loop import FeedbackLoop
from unskew.loopback import LOOPBACK

WORKERS, SOURCES, BATCHES, ROWS = 4, 2, 20, 200
#: A plan in every batch in which workers' measured times differ: in most.
ALWAYS = {
    "MIXED": {"theta_max": 0.0, "window": 1},
    "LLFD": {"theta_max": 0.0, "window": 1},
    "CONSISTENT_HASH": {"threshold": 0.0, "rounds": 99, "method": "halving", "tokens": 64},
}


class Driver:
    """What a process has, and loses."""

    def __init__(self, grouping, checkpoint):
        reports = Memory()
        routing = Routing(grouping, WORKERS, checkpoint, ALWAYS[grouping], streaming=True, reports=reports)
        loop = FeedbackLoop(routing.router, WORKERS, moving=True, keyed=True)
        self.server = PlanService(ListenAddress(LOOPBACK))
        call = BatchPlanner(loop, checkpoint, reports, forget_transfers(routing.workers, StateTransfers(checkpoint)))
        self.routing = replace(routing, plans=call.join(self.server))
        self.config = KeyedOperatorConfig(
            Tally(), pa.string(), WORKERS, split=False, ttl_ms=3_600_000, reports=reports,
            routing=self.routing, monitors=WorkerMonitors(self.routing),
        )  # fmt: skip

    def attempt(self, batch, parts, before, called=(*range(WORKERS),)):
        """Run a batch; the workers' stores after it, and the number of each key as it is published."""
        packets = [[] for _ in range(WORKERS)]
        for source, keys in enumerate(parts):
            router = SourceRouter(self.routing, source, batch)
            rows = pa.record_batch({"key": keys, "value": [1] * len(keys)})
            for own, more in zip(packets, packets_of(rows, router.route(keys, None), WORKERS), strict=True):
                own.extend(more)
            router.close()
        after, published = [], {}
        for worker, store in enumerate(before):
            if worker not in called:
                after.append(store)
                continue
            own = MemoryStore()
            own.blobs = dict(store.blobs)
            clock = WorkerBatch(batch, 1000 + batch, 1000 + batch)
            for parcel in run_batch(self.config, own, worker, packets[worker], clock, OperatorProgress.read(own)):
                if parcel.kind == operator_output.RESULTS:
                    for row in operator_output.read_rows(parcel.blob).to_pylist():
                        _, key, _, n, _ = row.values()
                        assert key not in published, "a key has one state"
                        published[key] = n
            after.append(own)
        return after, published


def drawn_parts(rng):
    """A batch's keys, of each source: a hot key has three tenths."""
    drawn = [(rng.random(ROWS) < 0.3, rng.integers(1, 40, ROWS)) for _ in range(SOURCES)]
    return [pa.array([f"u{0 if hot else k}" for hot, k in zip(*of, strict=True)]) for of in drawn]


def play(grouping, folder, seed, *, before=0.0, after=0.0, called=None):
    """Drivers die with these chances before a batch is committed, and after that with the batch's reports.

    ``called``: after each batch comes one of which no source has a part, so that nobody asks for its plan; the workers
    that it calls.
    """
    rng, chance, number = np.random.default_rng(seed), random.Random(seed), count()
    truth, stores = Counter(), [MemoryStore() for _ in range(WORKERS)]
    driver = Driver(grouping, folder)
    try:
        for _ in range(BATCHES):
            batch, parts = next(number), drawn_parts(rng)
            if chance.random() < before:
                driver.attempt(batch, parts, stores)
                driver.server.close()
                driver = Driver(grouping, folder)
            stores, published = driver.attempt(batch, parts, stores)
            keys = [key for part in parts for key in part.to_pylist()]
            truth.update(keys)
            assert published == {key: truth[key] for key in set(keys)}
            if chance.random() < after:
                driver.server.close()
                driver = Driver(grouping, folder)
            if called:
                stores, _ = driver.attempt(next(number), [], stores, called(chance))
    finally:
        driver.server.close()
    assert PlanStateLog(folder).newest().active.number > 2, "a query in which no keys move would prove nothing"


@pytest.mark.parametrize("grouping", ALWAYS)
def test_batches_without_rows_hide_no_reports(grouping, tmp_path):
    """As when a watermark moves."""
    play(grouping, str(tmp_path), 0, called=lambda _: range(WORKERS))


@pytest.mark.parametrize("grouping", ALWAYS)
@pytest.mark.parametrize("dies", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(2))
def test_batches_that_call_some_workers_hold_no_plan_up(grouping, dies, seed, tmp_path):
    """As when timers are due."""
    some = range(1, WORKERS)
    play(
        grouping,
        str(tmp_path),
        seed,
        after=dies,
        called=lambda chance: chance.sample(range(WORKERS), chance.choice(some)),
    )


@pytest.mark.parametrize("grouping", ALWAYS)
@pytest.mark.parametrize("seed", range(2))
def test_counts_are_exact_whatever_dies(grouping, seed, tmp_path):
    play(grouping, str(tmp_path), seed, before=0.4, after=0.3)


def test_files_that_cannot_be_removed_harm_nothing(tmp_path, monkeypatch):
    """Their removal is mere tidying."""

    def broken(*_):
        raise EnvironmentFault("the store is away")

    monkeypatch.setattr(StateTransfers, "forget", broken)
    forget_transfers(WORKERS, StateTransfers(str(tmp_path)))(TaskReports())
