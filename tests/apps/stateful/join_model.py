"""A model of the join of two streams: batches, crashes and replays around the real router, worker, tables and plans.

The plans are drawn: keys get places, leave them and come home at random, by the controller's own rules. Drivers die and
lose their reports, tasks run twice, and a task on an executor that is cut off goes on at any later time.
"""

import random
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from unittest import mock

import pyarrow as pa

from tests.apps.driver.plans.imitation import Memory
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.batch_planner import BatchPlanner
from unskew.apps.metrics.task_reports import TaskReports
from unskew.apps.router import join_router
from unskew.apps.router.join_router import make_join_router
from unskew.apps.router.router import Routing
from unskew.apps.worker.joining import worker
from unskew.apps.worker.joining.config import JoinConfig
from unskew.apps.worker.joining.outer_merger import merge_copies
from unskew.apps.worker.stateful import operator_output
from unskew.apps.worker.stateful.config import OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.operator_output import FRAGMENTS, RESULTS
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.errors import EnvironmentFault
from unskew.grouping.split_join.controller import SplitJoinLoop
from unskew.grouping.split_join.plan import LEFT

ID = pa.schema([("c0", pa.int64())])
LATENESS, SECOND = 6, 1_000_000


class Drawn(SplitJoinLoop):
    """Draws where keys go. Everything else is the controller's."""

    rng = random.Random(0)
    quiet = False
    grown = left = 0

    def plan(self, table, reports, number):
        rng, keys = self.rng, self._gather(table, reports, 0.0)
        targets = {}
        for key, each in keys.items():
            now = [place for place, weight in zip(each.places, each.weights, strict=True) if weight]
            some = rng.sample(range(self.workers), rng.randint(1, self.workers))
            targets[key] = dict.fromkeys(
                [self._find_home(key)] if self.quiet else some if rng.random() < 0.4 else now, 1.0
            )
            if each.split is None and [*targets[key]] != each.places:
                each.split = rng.randrange(2)
        split = {key: each for key, each in keys.items() if each.split is not None}
        if not split:
            return None
        new = self._write(split, targets, table, reports, number)
        Drawn.grown += len(new.grow)
        Drawn.left += len(new.leave_keys)
        return new


@dataclass
class Planned:
    """A batch that is planned: its rows (side, key, seconds, id), by source, and what its first attempt gave."""

    clock: WorkerBatch
    rows: list[list[tuple[int, str, int, int]]]
    results: Counter | None = None


class JoinModel:
    """One query over two streams, its drivers and their checkpoint."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.workers, self.before, self.after = rng.choice([2, 3, 5]), rng.choice([0, 3, 10]), rng.choice([0, 2, 10])
        self.dense, self.hot = rng.choice([6, 25]), rng.choice([0, 0.6])
        self.outer = [(False, False), (True, False), (False, True), (True, True)][seed % 4]
        if seed % 16 == 13:
            self.workers = 1
        self.first, self.jump = (0, 1_700_000_000)[seed // 4 % 2], 100 if seed % 3 else 0
        self.folder = tempfile.mkdtemp(prefix="join-model-")
        self.stores = [MemoryStore() for _ in range(self.workers)]
        self.number, self.run, self.ids = 0, 0, 0
        self.now, self.watermark, self.newest = self.first + 10, 0, [0, 0]
        self.kept: list[tuple[int, str, int, int]] = []  # the rows that weren't late
        self.pairs: Counter = Counter()
        self.zombies = []
        self.drivers = []
        self.start_driver()

    def start_driver(self):
        """Another driver: the reports of the one before are lost."""
        self.loop = Drawn(self.workers)
        self.loop.rng = self.rng
        self.reports = Memory()
        self.planner = BatchPlanner(self.loop, self.folder, self.reports)
        self.drivers.append((self.reports, self.planner))
        routing = Routing("KEY", self.workers, self.folder, plans=PlanStateLog(self.folder).at)
        self.config = JoinConfig(
            pa.string(), (ID, ID), (["id"], ["id"]), self.before * SECOND, self.after * SECOND, routing,
            outer=self.outer,
        )  # fmt: skip

    def resume_driver(self):
        """A process that has had the query before has it again: its reports may be old."""
        self.reports, self.planner = self.rng.choice(self.drivers)
        self.run += 1

    def draw_batch(self) -> Planned:
        """The next batch of both streams, which may have no rows at all."""
        rng = self.rng
        self.now += rng.randint(2, 5) + (self.jump if self.number % 9 == 8 else 0)
        sources = []
        for side in (0, 1):
            rows = []
            for _ in range(rng.randint(0, self.dense) if rng.random() < 0.9 else 0):
                key = "k0" if rng.random() < self.hot else f"k{rng.randrange(4)}"
                if self.outer[side] and rng.random() < 0.1:
                    key = None
                rows.append((side, key, max(self.first, self.now - rng.randint(0, 14)), self.ids))
                self.ids += 1
            sources.append(rows)
        return self._plan(sources)

    def _plan(self, sources):
        clock = WorkerBatch(self.number, 1000 * self.now, 1000 * self.watermark, empty=not any(sources))
        self.kept += [row for rows in sources for row in rows if row[2] >= self.watermark]
        return Planned(clock, sources)

    def attempt(self, batch: Planned) -> tuple[list[MemoryStore], TaskReports, Counter]:
        """All tasks of a batch, some of them twice. Nothing is committed."""
        asks = [self._route(batch, side) for side in (0, 1)]
        stores, parcels, reports = [], [], Memory()
        # A source's task runs again after some workers have fetched what it sent first.
        again = [self._route(batch, side) for side in (0, 1)]
        order = self.rng.sample(range(self.workers), self.workers)
        for number in order:
            packets = [packet for sent in self.rng.choice([asks, again]) for packet in sent[number]]
            for _ in range(self.rng.choice([1, 1, 2])):
                store, sent = self._task(number, packets, batch.clock, reports)
            stores.append((number, store))
            parcels += sent
        lost, given = order[0], [packet for sent in asks for packet in sent[order[0]]]
        before = dict(self.stores[lost].blobs)
        self.zombies.append(lambda: self._task(lost, given, batch.clock, Memory(), before))
        ordered = [store for _, store in sorted(stores, key=lambda each: each[0])]
        return ordered, reports.of[batch.clock.number], self._collect(parcels, batch.clock)

    def _collect(self, parcels, batch):
        """The results of workers and mergers."""
        results = Counter()
        for merger in range(self.workers):
            fragments = [p for p in parcels if p.kind == FRAGMENTS and p.merger == merger]
            parcels += merge_copies(self.config, fragments, merger, batch)
        for parcel in parcels:
            for row in operator_output.read_rows(parcel.blob).to_pylist() if parcel.kind == RESULTS else []:
                results[row["c1"], row["c2"]] += 1
        return results

    def _route(self, batch, side):
        """What a side's source sends to each worker: its task asks the driver for the plan if it has rows."""
        number, rows = batch.clock.number, batch.rows[side]
        sent = [[] for _ in range(self.workers)]
        if not rows:
            return sent
        self.planner.begin(number, str(self.run))
        cut = self.rng.randint(1, len(rows))
        given = []
        for some in (rows[:cut], rows[cut:]):
            if some:
                times = pa.array([1_000_000 * at for _, _, at, _ in some], pa.timestamp("us", "UTC"))
                columns = [pa.array([row[1] for row in some], pa.string()), times, pa.array([own for *_, own in some])]
                given.append(pa.record_batch(columns, ["key", "time", "r0"]))
        with mock.patch.multiple(join_router, get_batch_number=lambda: number, get_partition=lambda: side):
            packets = [*make_join_router(self.config.routing, side, outer=self.outer[side])(iter(given))]
        for cuts in packets:
            for to, packet in zip(*cuts.columns, strict=True):
                sent[to.as_py()].append((side, packet.as_py()))
        return sent

    def _task(self, number, packets, clock, reports, blobs=None):
        store = MemoryStore()
        store.blobs = dict(self.stores[number].blobs if blobs is None else blobs)
        config = replace(self.config, routing=replace(self.config.routing, reports=reports))
        progress = OperatorProgress.read(store)
        return store, list(worker.run_join_batch(config, store, number, packets, clock, progress))

    def complete(self, batch: Planned) -> None:
        """Attempts until one is committed; drivers die after some of them."""
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            self._check(batch, self.attempt(batch)[2])
            if self.rng.random() < 0.5:
                self.start_driver()
        self.stores, reports, results = self.attempt(batch)
        self._check(batch, results)
        self.pairs += results
        self.reports.of[batch.clock.number] = reports
        if self.rng.random() < 0.2:
            self.start_driver()  # after the commit: the batch's reports are lost
        elif self.rng.random() < 0.2:
            self.resume_driver()
        if self.rng.random() < 0.2:
            self._let_a_task_go_on()
        for row in (row for rows in batch.rows for row in rows):
            self.newest[row[0]] = max(self.newest[row[0]], row[2])
        self.watermark = max(self.watermark, min(self.newest) - LATENESS)
        self.number += 1

    def _check(self, batch, results):
        assert batch.results in (None, results), "another attempt gives other pairs"
        batch.results = results

    def _let_a_task_go_on(self):
        with suppress(EnvironmentFault):  # its batch may be so old that its plans are gone
            self.rng.choice(self.zombies)()

    def play(self, batches: int) -> None:
        """Run batches, then let all rows leave, and compare the pairs with those of all rows that weren't late."""
        try:
            for _ in range(batches):
                self.complete(self.draw_batch())
            self.loop.quiet = True
            for _ in range(4):  # what is under way arrives
                self.complete(self._plan([[], []]))
            self.watermark = self.now + 10**6
            self.complete(self._plan([[], []]))
            assert self.pairs == self.find_pairs()
        finally:
            shutil.rmtree(self.folder)

    def find_pairs(self) -> Counter:
        """The truth: all pairs of rows that weren't late."""
        left = [row for row in self.kept if row[0] == LEFT]
        right = [row for row in self.kept if row[0] != LEFT]
        pairs = [
            (ours, theirs)
            for _, key, at, ours in left
            for _, other, moment, theirs in right
            if key is not None and key == other and at - self.before <= moment <= at + self.after
        ]
        ours, theirs = ({pair[side] for pair in pairs} for side in (0, 1))
        alone = [(own, None) for *_, own in left if self.outer[0] and own not in ours]
        alone += [(None, own) for *_, own in right if self.outer[1] and own not in theirs]
        return Counter([*pairs, *alone])


def play_many(seed: int, runs: int) -> int:
    """Play runs of these seeds. How many pairs there were in all."""
    pairs = 0
    for number in range(runs):
        model = JoinModel(1000 * seed + number)
        model.play(model.rng.choice([6, 12, 25]))
        pairs += sum(model.pairs.values())
    return pairs
