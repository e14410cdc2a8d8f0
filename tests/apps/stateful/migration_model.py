"""A model of migration: Spark's batches, crashes and replays around the real worker, table, files, plans and loop."""

import itertools
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.apps.driver.plans.imitation import Memory
from tests.apps.stateful.driver import Tally, packets_of
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.batch_planner import BatchPlanner
from unskew.apps.driver.plans.feedback_loop import end_batch, record_workers
from unskew.apps.metrics.task_reports import TaskReports
from unskew.apps.router.router import Routing
from unskew.apps.worker.stateful import operator_output, worker
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.migration import StateTransfers, find_owners, make_router
from unskew.apps.worker.stateful.operator_output import RESULTS
from unskew.apps.worker.stateful.store import KEY, MemoryStore
from unskew.apps.worker.stateful.table import StateTable
from unskew.errors import EnvironmentFault
from unskew.grouping import create
from unskew.grouping.feedback import Controller
from unskew.grouping.feedback_loop import FeedbackLoop
from unskew.grouping.keys import encode_keys, hash_keys

KEYS = 12
NAMES = pa.array([f"k{key}" for key in range(KEYS)])


class Forced(Controller):
    """Another plan in every batch, and at every attempt of it: as if it came of measured times."""

    rng = random.Random(0)

    def __init__(self, router):
        super().__init__(router.identity)
        self._router = router

    def _plan(self, reports, queues, sources):
        workers = self._router.workers
        if self._router.name == "CONSISTENT_HASH":
            return {"tokens": np.array([self.rng.choice([1, 2, 4]) for _ in range(workers)])}
        share = self.rng.choice([0.1, 0.7])  # of the keys: fewer than a worker has, and more
        named = np.sort(hash_keys(NAMES)[[self.rng.random() < share for _ in range(KEYS)]])
        return {"table_keys": named, "table_workers": np.array([self.rng.randrange(workers) for _ in named], np.int32)}


def router_of(grouping):
    def new(workers):
        router = create(grouping, workers)
        if router.migrates_keys:
            router.controller = lambda: Forced(router)
        return router

    return new


WINDOW, SLIDE, TTL = 40, 20, 60

#: The window (0 where states outlive windows) and the key of a state.
StateKey = tuple[int, str]


class OneProcess:
    """A ``Tally`` in one process with one dictionary.

    By event time states live for a window, which may slide, by batch time for a TTL.
    """

    def __init__(self, event: bool, slides: bool = False) -> None:
        self.event, self.slides = event, slides
        self.open: dict[StateKey, list[int]] = {}
        self.last: dict[StateKey, int] = {}
        self.closed = 0  # the watermark of the batch before
        self.settled: dict[StateKey, tuple[int, int]] = {}  # the states of this batch's keys
        self.finished: Counter = Counter()  # of all states that have left

    def batch(self, clock, tuples):
        """Take in a batch's (key, value, ms)."""
        if not self.event:
            self._leave(lambda state: self.last[state] + TTL <= clock.batch_ms)
        touched = set()
        for key, value, ms in tuples:
            for window in self._windows(ms):
                self.open.setdefault((window, key), []).append(value)
                self.last[window, key] = ms
                touched.add((window, key))
        self.settled = {state: (len(self.open[state]), sum(self.open[state])) for state in touched}
        if self.event:
            self._leave(lambda state: state[0] + WINDOW <= clock.watermark_ms)
            self.closed = clock.watermark_ms

    def _windows(self, ms):
        if not self.event:
            return [0]
        slide = SLIDE if self.slides else WINDOW
        latest = ms // slide * slide
        return [start for start in range(latest, latest - WINDOW, -slide) if start + WINDOW > self.closed]

    def _leave(self, over):
        for state in [state for state in self.open if over(state)]:
            values = self.open.pop(state)
            self.finished[state, len(values), sum(values)] += 1


_MEMORY = Path("/dev/shm")  # a disk would take most of the time
MOST, FAR = 4, 1 << 40


@dataclass
class Planned:
    """A batch as Spark has planned it: a replay has the same."""

    clock: WorkerBatch
    rows: pa.RecordBatch
    called: str  # "all" there have been, "some": those with tuples or, by event time, a timer; "none"
    results: Counter | None = None  # of its first attempt
    reports: dict = field(default_factory=dict)


class MigrationModel(RuleBasedStateMachine):
    """One source, up to four workers; keys move in every batch."""

    @initialize(
        grouping=st.sampled_from(["MIXED", "CONSISTENT_HASH", "KEY"]),
        workers=st.integers(1, MOST),
        event=st.booleans(),
        seed=st.integers(0, 99),
        slides=st.booleans(),
    )
    def begin(self, grouping, workers, event, seed, slides=False):
        Forced.rng.seed(seed)
        self.folder = tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None)
        self.event, self.grouping, self.workers = event, grouping, workers
        self.most, self.timers = workers, set()
        self.stores = [MemoryStore() for _ in range(MOST)]
        self.number, self.ms, self.watermark, self.newest = 0, 1000, 0, 0
        self.batch: Planned | None = None
        self.zombie = lambda: None
        self.truth, self.finished = OneProcess(event, slides), Counter()
        self._start()

    def _start(self):
        routing = Routing(self.grouping, self.workers, self.folder, plans=PlanStateLog(self.folder).at)
        slide = SLIDE if self.truth.slides else None
        lives = {"window_ms": WINDOW, "slide_ms": slide} if self.event else {"ttl_ms": TTL}
        self.config = KeyedOperatorConfig(
            Tally(), pa.string(), self.workers, False, event=self.event, routing=routing, reports=self, **lives
        )
        self.loop = FeedbackLoop(router_of(self.grouping), self.workers, moving=self.grouping != "KEY", keyed=True)

    def send(self, batch, worker, report):
        self.batch.reports[worker] = report

    @precondition(lambda self: self.batch is None)
    @rule(
        tuples=st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(0, 60)), max_size=12),
        pause=st.integers(1, 30),
        called=st.sampled_from(["all", "some", "some", "none"]),
    )
    def plan(self, tuples, pause, called):
        self.ms += pause
        before, self.watermark = self.watermark, max(self.watermark, self.newest - 10) if self.event else self.ms
        comes = called == "all" or (called == "some" and not self.event)
        times = [max(0, self.ms - age) if self.event else self.ms for _, age in tuples] * comes
        self.newest = max([self.newest, *times])
        keys = [f"k{key}" for key, _ in tuples][: len(times)]
        columns = {"key": pa.array(keys, pa.string()), "value": pa.array(range(len(keys)), pa.int64())}
        columns |= {"time": pa.array(times, pa.timestamp("ms", "UTC"))} if self.event else {}
        rows = pa.RecordBatch.from_pydict(columns)
        clock = WorkerBatch(self.number, self.ms, self.watermark)
        self.batch = Planned(clock, rows, called)
        if called == "all" or (called == "some" and (self.timers or not self.event)):
            self.truth.batch(clock, list(zip(keys, range(len(keys)), times, strict=True)))
        elif self.event:
            self.watermark = before
        self._begun()

    def _begun(self):
        """The driver's beginning of a batch."""

    def _task(self, number, packets):
        batch, store = self.batch, MemoryStore()
        store.blobs = dict(self.stores[number].blobs)
        sent = list(worker.run_batch(self.config, store, number, packets, batch.clock, OperatorProgress.read(store)))
        return store, sent

    def _attempt(self, order, twice, dies_after):
        """Run tasks until the crash, after ``dies_after`` of them; None if some didn't run."""
        batch = self.batch
        batch.reports = {}
        self._begun()
        plans = self.config.routing.plan_state(batch.clock.number)
        router = make_router(self.config.routing, plans.active, plans.workers)
        packets = packets_of(batch.rows, router.route(batch.rows.column("key")), MOST)
        some = {w for w in range(MOST) if packets[w]} | (
            self.timers if self.event and batch.called == "some" else set()
        )
        called = [w for w in order if w in some or (batch.called == "all" and w < self.most)]
        done = {}
        for number in called[: max(0, dies_after)]:
            if number in twice:
                self._task(number, packets[number])
            done[number] = self._task(number, packets[number])
        if called:
            self.zombie = self._lost(called[0], packets[called[0]])
        return done if len(done) == len(called) else None

    def _lost(self, number, packets):
        """A task on an executor that is cut off; it may go on at any later time, and write its file."""
        config, clock, before = replace(self.config, reports=None), self.batch.clock, dict(self.stores[number].blobs)

        def goes_on():
            store = MemoryStore()
            store.blobs = dict(before)
            try:
                list(worker.run_batch(config, store, number, packets, clock, OperatorProgress.read(store)))
            except EnvironmentFault:
                assert PlanStateLog(self.folder).at(clock.number) is None, "its batch is so old that its plans are gone"

        return goes_on

    @precondition(lambda self: self.batch is not None)
    @rule(order=st.permutations(range(MOST)), twice=st.sets(st.integers(0, MOST - 1)), after=st.integers(0, MOST))
    def dies_during_tasks(self, order, twice, after):
        self._attempt(order, twice, after)

    @precondition(lambda self: self.batch is not None)
    @rule(order=st.permutations(range(MOST)))
    def dies_after_the_plans_are_written(self, order):
        done = self._attempt(order, set(), MOST)
        self._sink(done)

    @rule(workers=st.integers(1, MOST))
    def starts_again_with(self, workers):
        record_workers(self.folder, self.workers, self.number)
        self.workers = workers
        self.most = max(self.most, workers)
        self._start()

    @rule()
    def a_lost_task_goes_on(self):
        self.zombie()

    @precondition(lambda self: self.batch is not None)
    @rule(order=st.permutations(range(MOST)), twice=st.sets(st.integers(0, MOST - 1)))
    def completes(self, order, twice):
        done = self._attempt(order, twice, MOST)
        results = self._sink(done)
        for number, (store, _) in done.items():
            self.stores[number] = store
        self.finished += Counter({(*what[1:],): n for what, n in results.items() if what[0] == "finished"})
        self._owned(set(done))
        self.timers |= set(done)
        self.batch, self.truth.settled = None, {}
        self.number += 1

    def _sink(self, done):
        """The driver's end of a batch; an earlier attempt must have given the same results."""
        results = Counter()
        for parcel in itertools.chain.from_iterable(sent for _, sent in done.values()):
            if parcel.kind == RESULTS:
                for row in operator_output.read_rows(parcel.blob).to_pylist():
                    window, key, kind, n, total = row.values()
                    results[kind, (window, key), n, total] += 1
        assert self.batch.results in (None, results)
        self.batch.results = results
        settled = {what[1]: what[2:] for what in results if what[0] == "settled"}
        assert settled == self.truth.settled
        workers = self.batch.reports
        # No tuple waits for its key's state, or at a worker that no longer has it.
        assert sum(report.tuples for report in workers.values()) == self.batch.rows.num_rows
        self._ended(workers)
        StateTransfers(self.folder).forget(
            [workers[w].migration.taken if w in workers else 0 for w in range(self.most)]
        )
        return results

    def _ended(self, workers):
        """The driver's end of a batch, with its workers' reports."""
        # A run has a loop once there may be plans.
        if self.loop.router(self.workers).controller() is not None or PlanStateLog(self.folder).newest() is not None:
            end_batch(self.loop, self.folder, self.number, TaskReports(workers=workers))

    def _owned(self, called):
        plans = self.config.routing.plan_state(self.number)
        routers = [make_router(self.config.routing, plans.active, plans.workers)]
        if plans.pending is not None:
            routers.append(make_router(self.config.routing, plans.pending, plans.pending_workers))
        for number in called:
            for _, key in self._keys(number):
                for router in routers:
                    assert find_owners(router, encode_keys([key]).hashes) == number

    def _keys(self, number):
        store = MemoryStore()
        store.blobs = dict(self.stores[number].blobs)
        table = StateTable(store, 0, Tally.state, pa.string(), None if self.event else TTL)
        return [
            (window, key)
            for window in table.windows
            for rows in table.take(window)
            for key in rows.column(KEY).to_pylist()
        ]

    def teardown(self):
        if not hasattr(self, "folder"):
            return
        try:
            if self.batch is not None:
                self.completes(range(MOST), set())
            for _ in range(6):  # one for each step, with the last rescaling
                self.plan([], 1, "all")
                self.completes(range(MOST), set())
            states = Counter(state for number in range(MOST) for state in self._keys(number))
            if self.event:
                assert states == Counter(dict.fromkeys(self.truth.open, 1))
            else:  # a state that has expired may stay for a while
                assert set(states.values()) <= {1}
                assert set(states) >= set(self.truth.open)
            self.ms = self.newest = FAR
            self.watermark = FAR
            self.plan([], 1, "all")
            self.completes(range(MOST), set())
            assert self.finished == self.truth.finished
            assert not any(self._keys(number) for number in range(MOST))
        finally:
            shutil.rmtree(self.folder)


class AskedModel(MigrationModel):
    """A query of one's own: the sources of a batch ask for its plan, and reports of batches before it may be lost."""

    call = None
    run = 0
    ends = False

    def _start(self):
        super()._start()
        self.call = None  # with its reports

    def _begun(self):
        # Sources without tuples don't ask. At the end they do, so that no state is left under way.
        if self.batch.rows.num_rows or (self.ends and self.batch.called == "all"):
            if self.call is None:
                self.reports = Memory()
                self.call = BatchPlanner(self.loop, self.folder, self.reports)
            self.call.begin(self.number, str(self.run))

    def teardown(self):
        self.ends = True
        super().teardown()

    def _ended(self, workers):
        self.ending = workers

    @precondition(lambda self: self.batch is not None)
    @rule(order=st.permutations(range(MOST)), twice=st.sets(st.integers(0, MOST - 1)))
    def completes(self, order, twice):
        number = self.number
        super().completes(order, twice)
        if self.call is not None:
            self.reports.of[number] = TaskReports(workers=self.ending)

    @rule(workers=st.integers(1, MOST))
    def starts_again_with(self, workers):
        """Another driver, of the same W: `keyed_map` keeps it."""
        self._start()

    @rule()
    def runs_again(self):
        """The same driver starts the query again by the same call."""
        self.run += 1


ALL, NOBODY = range(MOST), set()


def moves(run):
    """A plan in every batch, each batch replayed after a driver that died late."""
    for _ in range(6):
        run.plan(tuples=[(key, 0) for key in range(12)], pause=1, called="all")
        run.dies_after_the_plans_are_written(ALL)
        run.completes(order=ALL, twice=set(ALL))


def forgets(run):
    """Reports are lost after their batch has been committed: of all workers, then of some."""
    moves(run)
    for number in range(30):
        some = [(key, 0) for key in range(12)] if number < 8 else [(number % 12, 0), ((number + 5) % 12, 0)]
        run.plan(tuples=some, pause=1, called="all" if number < 8 else "some")
        run.completes(order=ALL, twice=NOBODY)
        if number % 3 == 1:
            run.starts_again_with(MOST)


def partly(run):
    """Only some workers are called, so that a plan is pending for several batches."""
    moves(run)
    for i in range(8):
        run.plan(tuples=[(i, 0), ((i + 5) % 12, 0)], pause=1, called="some")
        run.completes(order=ALL, twice=set(ALL))


def rescales(run):
    """4 workers, 2, then 3."""
    for workers in (None, 2, None, 3, None):
        if workers:
            run.starts_again_with(workers)
        for _ in range(2):
            run.plan(tuples=[(key, 0) for key in range(12)], pause=1, called="all")
            run.completes(order=ALL, twice=NOBODY)


def play_whole(model, grouping, play):
    """Play with four workers, from the beginning to the end."""
    run = model()
    run.begin(grouping=grouping, workers=MOST, event=False, seed=1)
    try:
        play(run)
        run.teardown()
    finally:
        shutil.rmtree(run.folder, ignore_errors=True)
