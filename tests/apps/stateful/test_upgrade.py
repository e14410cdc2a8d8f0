"""A work with a new schema of its state goes on with the states of its older version, if it says how."""

import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

from tests.apps.conftest import countries, publish, read_results, skewed
from tests.apps.stateful import driver
from tests.apps.stateful.driver import Driver, Tally
from tests.apps.stateful.in_time import in_time
from unskew import keyed_map
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.operators.errors import StateFault
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, MergePeriod, find_changed_fields
from unskew.apps.worker.stateful.lifecycle import OperatorCalls
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.apps.worker.stateful.table import StateTable
from unskew.errors import UsageError

cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests
cloudpickle.register_pickle_by_value(sys.modules[__name__])

NONE = -(1 << 40)


class Mended(Tally):
    """Publishes the largest value of a key, too; null of tuples that came before the work knew it."""

    state = pa.schema([*Tally.state, pa.field("most", pa.int64())])
    results = pa.schema([*Tally.results, pa.field("most", pa.int64())])
    previous_schemas = (Tally.state,)

    def update(self, tuples, states, now):
        _, after = Tally(*self.columns).update(tuples, states.select(Tally.state.names), now)
        most = self._most(states)
        np.maximum.at(most, tuples.column("slot").to_numpy(), tuples.column(self.columns[0]).to_numpy())
        return None, self._of(after, most)

    def merge(self, states, slots, keys):
        most = np.full(keys, NONE)
        np.maximum.at(most, slots.to_numpy(), self._most(states))
        return self._of(Tally().merge(states.select(Tally.state.names), slots, keys), most)

    def _most(self, states):
        return states.column("most").fill_null(NONE).to_numpy(zero_copy_only=False).copy()

    def _of(self, states, most):
        return pa.RecordBatch.from_arrays([*states.columns, pa.array(most, mask=most == NONE)], schema=self.state)


class Mean(Tally):
    """Has a mean where ``Tally`` has a sum."""

    state = pa.schema([("n", pa.int64()), ("mean", pa.float64())])
    results = pa.schema([("kind", pa.string()), ("n", pa.int64()), ("mean", pa.float64())])
    previous_schemas = (Tally.state,)

    def update(self, tuples, states, now):
        return None, states

    def upgrade(self, states):
        mean = np.divide(*(states.column(name).to_numpy() for name in ("total", "n")))
        return pa.RecordBatch.from_arrays([states.column("n"), pa.array(mean)], schema=self.state)


class Silent(Mended):
    """Doesn't say that it has an older version."""

    previous_schemas = ()


class Raw(Mean):
    upgrade = Tally.upgrade


for _version in (Mended, Mean, Silent, Raw):
    _version.__name__ = Tally.__name__  # all are versions of one work


def rows(keys, values):
    return pa.RecordBatch.from_pydict({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.int64())})


def running(work, split, stores=None, **life):
    """A driver of two workers and mergers; perhaps with the stores, and the batches, of an earlier one."""
    every = MergePeriod(batches=2) if split else None
    config = KeyedOperatorConfig(
        work, pa.string(), 2, split, mergers=2, merge_every=every, **(life or {"ttl_ms": 1 << 40})
    )
    found = Driver(config, "D_CHOICES" if split else "KEY")
    if stores is not None:
        found.workers, found.mergers, found.number = stores.workers, stores.mergers, stores.number
    return found


KEYS = [f"k{i}" for i in range(40)]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("batches", [1, 2])  # the older version's fragments are at the workers, and at the mergers
@pytest.mark.parametrize("life", [{}, {"window_ms": 1000}])
def test_states_are_kept_and_get_the_new_columns(split, batches, life):
    old = running(Tally(), split, **life)
    for number in range(batches):
        old.batch([rows(KEYS * 3, range(120))], 10 + number)
    new = running(Mended(), split, old, **life)
    new.batch([rows(KEYS[:10], [5] * 10)], 20)
    new.batch([rows([], [])], 30)
    new.batch([rows([], [])], 1 << 41)
    new.batch([rows([], [])], (1 << 41) + 1)
    left = {key: rest for _, key, kind, *rest in new.results if kind == "finished"}
    for i, key in enumerate(KEYS):
        n, total = 3 * batches + (i < 10), batches * (3 * i + 120) + 5 * (i < 10)
        assert left[key] == [n, total, 5 if i < 10 else None]


def test_a_work_says_how_an_old_state_becomes_a_new_one():
    old = running(Tally(), split=False)
    old.batch([rows(KEYS * 2, list(range(40)) * 2)], 10)
    new = running(Mean(), split=False, stores=old)
    new.batch([rows([], [])], 20)
    tables = [StateTable(store, 0, Mean.state, pa.string(), 1 << 40) for store in new.workers]
    found = {
        row["__key"]: (row["n"], row["mean"]) for table in tables for rows in table.take(0) for row in rows.to_pylist()
    }
    assert found == {key: (2, float(i)) for i, key in enumerate(KEYS)}


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (Silent(), "the columns n int64, total int64, the operator's n int64, total int64, most int64: give the same"),
        (Raw(), "failed on key '.*ValueError: the older state's column total int64 isn't in today's: write an upgrade"),
    ],
)
def test_a_work_that_doesnt_say_how_is_refused_and_the_states_stay(work, message):
    old = running(Tally(), split=False)
    old.batch([rows(KEYS, range(40))], 10)
    before = [dict(store.blobs) for store in old.workers]
    with pytest.raises(StateFault, match=message):
        running(work, split=False, stores=old).batch([rows(KEYS, range(40))], 20)
    assert [store.blobs for store in old.workers] == before


def test_states_on_their_way_to_another_worker_are_upgraded_there():
    calls, old = OperatorCalls(Mended()), pa.schema([("__key", pa.string()), ("__last", pa.int64()), *Tally.state])
    table = StateTable(MemoryStore(), 0, Mended.state, pa.string(), None, upgrade=calls.upgrade)
    table.take_in(0, pa.RecordBatch.from_pylist([{"__key": "a", "__last": 1, "n": 2, "total": 3}], schema=old))
    assert [row for rows in table.take(0) for row in rows.to_pylist()] == [
        {"__key": "a", "__last": 1, "n": 2, "total": 3, "most": None}
    ]


def test_a_checkpoint_is_taken_over_and_may_be_given_back(tmp_path):
    def claim(work):
        checkpoint = Checkpoint(str(tmp_path))
        new = find_changed_fields(work, checkpoint.read_record())
        run = {"work": "Tally", "state": {field.name: str(field.type) for field in work.state}}
        checkpoint.claim(run | new, tuple(new))

    for work in (Tally(), Mended(), Silent(), Tally(), Silent()):  # Silent has today's schema
        claim(work)
    with pytest.raises(UsageError, match=r"belongs to a run with state .*'most'.*, this one has .*'mean'"):
        claim(Mean())


@pytest.mark.nightly(group="keyed")
@pytest.mark.takes(40)
@pytest.mark.parametrize("grouping", ["KEY", "D_CHOICES"])
def test_a_query_goes_on_with_its_states(grouping, spark, tmp_path):
    schema, folder = "user string, value long", tmp_path / "in"
    split = {"merge_every": "1 batch"} if grouping == "D_CHOICES" else {}

    def run(work, values):
        tuples = [(f"u{i % 7}", value) for i, value in enumerate(values)]
        spark.createDataFrame(tuples, schema).coalesce(1).write.mode("append").parquet(str(folder))
        stream = spark.readStream.schema(schema).parquet(str(folder))
        df = keyed_map(stream, "user", 2, work, grouping, str(tmp_path / "cp"), ttl=3600.0, **split)
        found = []
        writer = df.writeStream.foreachBatch(lambda batch, _: found.extend(row.asDict() for row in batch.collect()))
        writer = writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
        in_time(lambda _: writer.start().awaitTermination())
        return {row["user"]: row for row in found}

    run(Tally(), range(100, 170))
    with pytest.raises(UsageError, match=r"belongs to a run with state .*, this one has .*'most'"):
        run(Silent(), [])
    for value, work in enumerate((Mended(), Silent()), 1):  # the second finds today's states
        found = run(work, [value] * 3)
        assert found.keys() == {"u0", "u1", "u2"}
        for i in range(3):
            row = found[f"u{i}"]
            assert (row["n"], row["most"]) == (10 + value, value)
            assert row["total"] == sum(range(100 + i, 170, 7)) + sum(range(value + 1))
    with pytest.raises(StreamingQueryException, match="columns n int64, total int64, most int64, the operator's"):
        run(Tally(), [1])


@pytest.mark.nightly(group="keyed")
@pytest.mark.takes(40)
def test_a_run_goes_on_with_its_states(settings, drain, connection, topic):
    keys = skewed(1_000)
    for part, work in ((keys[:600], Tally("offset")), (keys[600:], Mended("offset"))):
        publish(connection, topic, 2, countries(part))
        run = settings("D_CHOICES", ttl=3600.0, merge_every="1 batch", work=work)
        drain(run)
    latest = dict(read_results(run, "results"))
    found = {value["key"]: value["fields"]["n"] for value in latest.values()}
    assert found == Counter(keys)
