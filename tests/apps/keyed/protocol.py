"""Moving states, with Spark as a model: on the real worker, table, files, plans and loop.

A batch is a snapshot of the stores, tasks in any order that may run twice, and a driver that dies anywhere between.
"""

import itertools
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.apps.keyed.driver import Tally
from tests.apps.keyed.forced import KEYS, Forced, router_of
from tests.apps.keyed.one_process import TTL, WINDOW, OneProcess
from unskew.apps.feedback.loop import Loop
from unskew.apps.feedback.rescaling import begun_with
from unskew.apps.keyed import parcels, worker
from unskew.apps.keyed.bins import KEY
from unskew.apps.keyed.handed import Handed
from unskew.apps.keyed.moving import owners, router_by
from unskew.apps.keyed.parcels import RESULTS
from unskew.apps.keyed.program import Beat, Program
from unskew.apps.keyed.store import MemoryStore
from unskew.apps.keyed.table import Table
from unskew.apps.topology.packets import cut
from unskew.apps.topology.router import Routing
from unskew.grouping.keys import encode

_MEMORY = Path("/dev/shm")  # a disk would take most of the time
MOST, FAR = 4, 1 << 40


@dataclass
class Planned:
    """A batch as Spark has planned it: a replay has the same."""

    beat: Beat
    rows: pa.RecordBatch
    called: str  # "all" there have been, "some": those with tuples or, by event time, a timer; "none"
    told: Counter | None = None  # by its first attempt
    reports: dict = field(default_factory=dict)


class Protocol(RuleBasedStateMachine):
    """One source, up to four workers; keys move in every batch."""

    @initialize(
        grouping=st.sampled_from(["MIXED", "CONSISTENT_HASH", "KEY"]),
        workers=st.integers(1, MOST),
        event=st.booleans(),
        seed=st.integers(0, 99),
    )
    def begin(self, grouping, workers, event, seed):
        Forced.rng.seed(seed)
        self.folder = tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None)
        self.event, self.grouping, self.workers = event, grouping, workers
        self.most, self.timers = workers, set()
        self.stores = [MemoryStore() for _ in range(MOST)]
        self.number, self.ms, self.watermark, self.newest = 0, 1000, 0, 0
        self.batch: Planned | None = None
        self.zombie = lambda: None
        self.truth, self.told_finished = OneProcess(event), Counter()
        self._start()

    def _start(self):
        routing = Routing(self.grouping, self.workers, self.folder, rescaled=True)
        lives = {"window_ms": WINDOW} if self.event else {"ttl_ms": TTL}
        self.program = Program(Tally(), pa.string(), self.workers, False, event=self.event, routing=routing,
                               reports=self, **lives)  # fmt: skip
        self.loop = Loop(self.folder, router_of(self.grouping), self.workers, moving=self.grouping != "KEY", keyed=True)

    def send(self, batch, stage, partition, report):
        self.batch.reports[partition] = report

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
        beat = Beat(self.number, self.ms, self.watermark)
        self.batch = Planned(beat, rows, called)
        if called == "all" or (called == "some" and (self.timers or not self.event)):
            self.truth.batch(beat, list(zip(keys, range(len(keys)), times, strict=True)))
        elif self.event:
            self.watermark = before

    def _task(self, number, packets):
        batch, store = self.batch, MemoryStore()
        store.blobs = dict(self.stores[number].blobs)
        sent = list(worker.work(self.program, store, number, packets, batch.beat))
        return store, sent

    def _attempt(self, order, twice, dies_after):
        """Run the tasks, as many as the crash leaves time for; None if it wasn't enough."""
        batch = self.batch
        batch.reports = {}
        standing = self.program.routing.standing(batch.beat.number)
        packets = {w: [] for w in range(MOST)}
        if batch.rows.num_rows:
            router = router_by(self.program.routing, standing.active, standing.workers)
            routed = router.route(batch.rows.column("key"))
            for to, packet in zip(*cut(batch.rows, routed, standing.workers).columns, strict=True):
                packets[to.as_py()].append(packet.as_py())
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
        """A task on an executor that nobody hears any more; it may go on at any later time, and write its file."""
        program, beat, before = replace(self.program, reports=None), self.batch.beat, dict(self.stores[number].blobs)

        def goes_on():
            store = MemoryStore()
            store.blobs = dict(before)
            list(worker.work(program, store, number, packets, beat))

        return goes_on

    @precondition(lambda self: self.batch is not None)
    @rule(order=st.permutations(range(MOST)), twice=st.sets(st.integers(0, MOST - 1)), after=st.integers(0, MOST))
    def dies_during_tasks(self, order, twice, after):
        self._attempt(order, twice, after)

    @precondition(lambda self: self.batch is not None)
    @rule(order=st.permutations(range(MOST)))
    def dies_after_the_standing_is_written(self, order):
        done = self._attempt(order, set(), MOST)
        self._sink(done)

    @rule(workers=st.integers(1, MOST))
    def starts_again_with(self, workers):
        begun_with(self.folder, self.workers, self.number)
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
        told = self._sink(done)
        for number, (store, _) in done.items():
            self.stores[number] = store
        self.told_finished += Counter({(*what[1:],): n for what, n in told.items() if what[0] == "finished"})
        self._owned(set(done))
        self.timers |= set(done)
        self.batch, self.truth.settled = None, {}
        self.number += 1

    def _sink(self, done):
        """What the driver does at the end of a batch: it finds that an attempt before has told the same."""
        told = Counter()
        for parcel in itertools.chain.from_iterable(sent for _, sent in done.values()):
            if parcel.kind == RESULTS:
                for row in parcels.opened(parcel.blob).to_pylist():
                    window, key, kind, n, total = row.values()
                    told[kind, (window, key), n, total] += 1
        assert self.batch.told in (None, told)
        self.batch.told = told
        settled = {what[1]: what[2:] for what in told if what[0] == "settled"}
        assert settled == self.truth.settled
        workers = self.batch.reports
        # None waits: neither for its key's state, nor at a worker that no longer has it.
        assert sum(said["tuples"] for said in workers.values()) == self.batch.rows.num_rows
        self.loop.end(self.number, {"worker": workers})
        Handed(self.folder).forget([workers.get(w, {}).get("taken", 0) for w in range(self.most)])
        return told

    def _owned(self, called):
        standing = self.program.routing.standing(self.number)
        routers = [router_by(self.program.routing, standing.active, standing.workers)]
        if standing.pending is not None:
            routers.append(router_by(self.program.routing, standing.pending, standing.pending_workers))
        for number in called:
            for _, key in self._keys(number):
                for router in routers:
                    assert owners(router, encode([key]).hashes) == number

    def _keys(self, number):
        store = MemoryStore()
        store.blobs = dict(self.stores[number].blobs)
        table = Table(store, 0, Tally.state, pa.string(), None if self.event else TTL)
        return [(window, key) for window in table.windows for key in table.take(window).column(KEY).to_pylist()]

    def teardown(self):
        if not hasattr(self, "folder"):
            return
        try:
            if self.batch is not None:
                self.completes(range(MOST), set())
            for _ in range(6):  # one for each step, with the last rescaling
                self.plan([], 1, "all")
                self.completes(range(MOST), set())
            placed = Counter(place for number in range(MOST) for place in self._keys(number))
            if self.event:
                assert placed == Counter(dict.fromkeys(self.truth.open, 1))
            else:  # what has expired may lie there a while
                assert set(placed.values()) <= {1}
                assert set(placed) >= set(self.truth.open)
            self.ms = self.newest = FAR
            self.watermark = FAR
            self.plan([], 1, "all")
            self.completes(range(MOST), set())
            assert self.told_finished == self.truth.finished
            assert not any(self._keys(number) for number in range(MOST))
        finally:
            shutil.rmtree(self.folder)
