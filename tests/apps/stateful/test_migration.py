"""States that leave a table and come into another: buckets touched, files written, tuples executed meanwhile."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.apps.stateful.driver import Tally
from tests.apps.stateful.migration_model import MOST, MigrationModel
from unskew.apps.checkpoint import folders
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.feedback_loop import end_batch
from unskew.apps.metrics.task_reports import TaskReports, WorkerReport
from unskew.apps.operators.errors import StateFault
from unskew.apps.router.router import Routing
from unskew.apps.worker.stateful import store
from unskew.apps.worker.stateful.config import OperatorProgress
from unskew.apps.worker.stateful.migration import Migration, StateTransfers
from unskew.apps.worker.stateful.operator_output import add_window
from unskew.apps.worker.stateful.store import KEY, BufferedStore, MemoryStore
from unskew.apps.worker.stateful.table import StateTable
from unskew.errors import EnvironmentFault
from unskew.grouping.feedback import Plan
from unskew.grouping.feedback_loop import FeedbackLoop, PlanState
from unskew.grouping.keys import encode_keys, hash_keys

N = 4_000
NAMES = pa.array([f"k{i}" for i in range(N)])


@pytest.fixture(autouse=True)
def many_buckets(monkeypatch):
    monkeypatch.setattr(store, "KEYS", 400)


class Counting(MemoryStore):
    """Counts what is read and written."""

    def __init__(self):
        super().__init__()
        self.reads = self.writes = 0

    def get(self, address):
        self.reads += 1
        return super().get(address)

    def put(self, address, blob):
        self.writes += 1
        super().put(address, blob)


def table_of(store):
    return StateTable(store, 0, Tally.state, pa.string(), None)


def filled(store, windows=(0,)):
    table = table_of(store)
    for window in windows:
        touched = table.touch(window, encode_keys(NAMES))
        states = pa.record_batch([pa.array(np.arange(N)), pa.array(np.arange(N) + window)], schema=Tally.state)
        table.put(window, touched, np.arange(N) + 5, states)
    table.close()
    return table


def to_one(leaves):
    """All keys that leave go to one worker."""
    return lambda hashes: np.where(leaves(hashes), 1, -1)


def content(table):
    return sorted((w, *row.values()) for w in table.windows for rows in table.take(w) for row in rows.to_pylist())


def test_only_the_buckets_of_the_named_keys_are_touched():
    store, other = Counting(), Counting()
    table = filled(store, windows=(0, 60))
    whole = content(filled(MemoryStore(), windows=(0, 60)))
    leaving = hash_keys(NAMES[100:103])
    store.reads = store.writes = 0
    rows = list(table.release(to_one(lambda hashes: np.isin(hashes, leaving)), leaving))
    assert 0 < store.reads <= 6
    assert store.writes <= 6
    assert len(table._indexes[0]) > 6, "with few buckets it would prove nothing"
    assert sorted((w, row[KEY]) for w, part, _ in rows for row in part.to_pylist()) == [
        (w, f"k{i}") for w in (0, 60) for i in (100, 101, 102)
    ]
    receiver = table_of(other)
    for window, part, _ in rows:
        receiver.take_in(window, part)
    receiver.close()
    table.close()
    assert sorted([*content(table_of(store)), *content(table_of(other))]) == whole


def test_all_buckets_are_looked_at_where_no_list_says_which_keys_leave():
    store = MemoryStore()
    table = filled(store)
    rows = list(table.release(to_one(lambda hashes: hashes % np.uint64(2) == 0), None))
    even = hash_keys(NAMES) % np.uint64(2) == 0
    assert sum(part.num_rows for _, part, _ in rows) == even.sum()
    assert table.keys == N - even.sum()
    assert {row[1] for row in content(table)} == set(NAMES.filter(pa.array(~even)).to_pylist())


def test_a_key_that_has_a_state_already_is_refused():
    table = filled(MemoryStore())
    (_, part, _), *_ = filled(MemoryStore()).release(to_one(lambda hashes: hashes == hash_keys(NAMES[7:8])[0]), None)
    with pytest.raises(StateFault, match="key 'k7' comes from another worker, and has a state here already"):
        table.take_in(0, part)


def test_the_same_rows_are_the_same_bytes(tmp_path):
    (_, part, _), *_ = filled(MemoryStore()).release(to_one(lambda hashes: hashes > 0), None)
    rows, transfers = add_window(0, part), StateTransfers(str(tmp_path))
    written = []
    for order in (np.arange(rows.num_rows), np.random.default_rng(1).permutation(rows.num_rows)):
        size = transfers.write(3, 1, 5, {1: rows.take(pa.array(order)), 0: rows.slice(0, 2)}, rows.schema)
        (path,) = Path(tmp_path).glob("unskew/moves/1/*")
        written.append(path.read_bytes())
        assert size == len(written[-1])
    assert written[0] == written[1]
    assert [part.num_rows for part in transfers.to(0, 1, {3: 5})] == [2]
    assert sorted(transfers.to(1, 1, {3: 5})[0].to_pylist(), key=str) == sorted(rows.to_pylist(), key=str)
    assert sum(part.num_rows for part in transfers.by(3, 1, 5)) == rows.num_rows + 2
    assert transfers.to(2, 1, {3: 5}) == []
    transfers.write(3, 1, 7, {}, rows.schema)
    assert transfers.to(1, 1, {3: 7}) == []
    transfers.forget([1, 0])
    assert transfers.plans() == [1]
    transfers.forget([1, 4])
    assert transfers.plans() == []


def test_a_bucket_that_changes_twice_is_fetched_and_stored_once():
    store = Counting()
    filled(store)
    expected = dict(store.blobs)
    store.reads = store.writes = 0
    later = BufferedStore(store)
    table = filled(later)  # all buckets
    rows = list(table.release(to_one(lambda hashes: hashes % np.uint64(2) == 0), None))
    for window, part, _ in rows:
        table.take_in(window, part)
    table.close()
    assert store.writes == 0
    later.flush()
    assert store.reads == store.writes <= len(expected)
    assert store.blobs.keys() == expected.keys()
    later.remove((0, 0, 3))
    assert later.get((0, 0, 3)) is None
    assert store.get((0, 0, 3)) is not None
    later.put((0, 0, 3), expected[0, 0, 3])
    later.flush()
    assert content(table_of(store)) == content(filled(MemoryStore()))


def test_progress_of_an_older_version():
    store = MemoryStore()
    store.put((0, 0, -2), np.array([1, 2, 3], np.int64).tobytes())
    assert OperatorProgress.read(store) == OperatorProgress(1, 2, 3)
    OperatorProgress(1, 2, 3, 4, 5).write(store)
    assert OperatorProgress.read(store) == OperatorProgress(1, 2, 3, 4, 5)


@pytest.mark.parametrize("grouping", ["MIXED", "CONSISTENT_HASH"])
def test_no_tuple_waits_at_a_worker_that_loses_its_key(grouping):
    """Why nothing is passed on, as DPA's load balancer must: what is routed by a plan is executed by it, in its batch.

    The model asserts of each batch that all its tuples are executed in it, where their keys' states are, and that a
    worker has no other keys.
    """
    run = MigrationModel()
    run.begin(grouping=grouping, workers=MOST, event=False, seed=1)
    tuples, plans = [(key, 0) for key in range(12)], []
    for _ in range(9):
        run.plan(tuples=tuples, pause=1, called="all")
        run.completes(order=range(MOST), twice=set())
        state = run.config.routing.plan_state(run.number)
        plans.append((state.active.number if state.active else 0, bool(state.pending)))
    assert plans[:4] == [(0, True), (1, True), (2, True), (3, True)], "a plan in every batch, each pending for one"
    run.teardown()


def test_states_that_have_left_meanwhile_are_not_taken_in(tmp_path):
    """A worker that releases states, takes them back and has none to release any more reports that."""
    routing = Routing("KEY", 1, str(tmp_path), plans=PlanStateLog(str(tmp_path)).at)
    plan = Plan(1, 0, routing.router(2).identity, {})
    before = PlanState(1, pending=plan, pending_workers=2)
    loop = FeedbackLoop(routing.router, 2, keyed=True)
    PlanStateLog(str(tmp_path)).write(5, before)
    table, progress, transfers = filled(MemoryStore()), OperatorProgress(), StateTransfers(str(tmp_path))
    for batch in (5, 6):
        worker = Migration(routing, 0, batch, progress)
        worker.take_in(table)
        assert table.keys == N
        if batch == 6:
            list(table.take(0))
        worker.release(table, split=False)
        progress = worker.progress
        assert progress.released == 1
        end_batch(
            loop, str(tmp_path), batch, TaskReports(workers={0: WorkerReport(0, 0, 0.0, migration=worker.report())})
        )
        files = PlanStateLog(str(tmp_path)).at(batch + 1).pending_files
        assert files == {0: batch}
        there = sum(part.num_rows for part in transfers.to(1, 1, files))
        assert there == (N - table.keys if batch == 5 else 0)
        assert worker.report().keys == there


def test_a_new_worker_asks_for_no_file_of_a_plan_before_it(tmp_path, monkeypatch):
    """All workers that there were have taken in the plan's states, so the files are gone."""
    monkeypatch.setattr(folders, "PATIENCE", 0.0)
    routing = Routing("KEY", 4, str(tmp_path), plans=PlanStateLog(str(tmp_path)).at)
    PlanStateLog(str(tmp_path)).write(5, PlanState(2, Plan(3, 2, routing.router(2).identity, {}), files={0: 3}))
    new = Migration(routing, 2, 5, OperatorProgress())
    new.take_in(table_of(MemoryStore()))
    assert new.progress.taken == 3
    with pytest.raises(EnvironmentFault, match="worker 0 released in batch 3"):
        Migration(routing, 1, 5, OperatorProgress()).take_in(table_of(MemoryStore()))


def test_plans_older_than_the_states_are_refused(tmp_path):
    """As in a checkpoint that was copied while its run went on, or that has lost its plans."""
    routing = Routing("KEY", 2, str(tmp_path), plans=PlanStateLog(str(tmp_path)).at)
    plans = PlanStateLog(str(tmp_path))
    identity = routing.router(2).identity
    behind = r"the states of worker 0 lie as plan {} has it, which isn't in .*unskew/plans: the checkpoint isn't whole"
    for progress in (OperatorProgress(taken=1, released=1), OperatorProgress(released=1)):
        with pytest.raises(EnvironmentFault, match=behind.format(1)):
            Migration(routing, 0, 5, progress)
    plans.write(5, PlanState(2, Plan(3, 2, identity, {}), Plan(4, 3, identity, {})))
    for progress in (OperatorProgress(), OperatorProgress(taken=2, released=3), OperatorProgress(taken=3, released=4)):
        Migration(routing, 0, 5, progress)
    for progress in (OperatorProgress(taken=4, released=4), OperatorProgress(taken=3, released=5)):
        with pytest.raises(EnvironmentFault, match=behind.format(max(progress.taken, progress.released))):
            Migration(routing, 0, 5, progress)
    Migration(None, 0, 5, OperatorProgress())
