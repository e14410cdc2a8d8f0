"""LATEST: a key's latest value. ENRICHED: tuples with their key's latest value."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unskew.apps.operators.interface import (
    KeyedOperator,
    MergeableOperator,
    Now,
    ResultsAndStates,
    concat_batches,
    has_state,
    make_results,
)
from unskew.apps.operators.list_columns import combine_column, sort_entries

_STATE = pa.schema([("time", pa.int64()), ("version", pa.int64()), ("value", pa.string())])


class Latest(MergeableOperator):
    """A key's latest value: a table from a stream of changes.

    The latest value has the greatest time; among equal times the greatest ``version``; among equal versions it is the
    greatest. So it doesn't depend on order, batches or workers. A tuple costs some 0.4 µs.

    Parameters
    ----------
    value : str
        The column, which must be castable to a string. Null is a value too, the smallest; Kafka calls it a tombstone.
    version : str
        A column of integers, such as ``offset``, that orders values of the same time. Empty: there are no versions. In
        batch time all tuples of a batch have the same time.

    Notes
    -----
    The columns of a result are ``value`` and ``time`` (ms since the epoch). It is published when one of them changes.

    Examples
    --------
    The tuple with the greatest time has the latest value, though it comes first:

    >>> slots = pa.array([0, 0], pa.int32())
    >>> tuples = pa.RecordBatch.from_pydict({"slot": slots, "time": [9, 5], "value": ["new", "old"]})
    >>> work, now = Latest(), Now(batch_ms=9, watermark_ms=9)
    >>> before = pa.RecordBatch.from_pylist([{}], work.state)  # of a new key: all null
    >>> _, after = work.update(tuples, before, now)
    >>> work.on_merge(before, after, now)[0].to_pylist()
    [{'slot': 0, 'value': 'new', 'time': 9}]

    """

    state = _STATE
    results = pa.schema([("value", pa.string()), ("time", pa.int64())])

    def __init__(self, value: str = "value", version: str = "") -> None:
        self.value, self.version = value, version
        self.columns = (value, version) if version else (value,)
        self.types = {value: pa.string(), version: pa.int64()}

    def to_state(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """Each value with its time and version."""
        return _make_version_states(self, tuples, self.value, self.version)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """The latest of a key's states."""
        flat = _sort_by_slot(pa.table([slots, *states.columns], names=["slot", *states.schema.names]), *_STATE.names)
        last = np.searchsorted(combine_column(flat, "slot").to_numpy(), np.arange(keys), side="right") - 1
        return pa.RecordBatch.from_arrays(
            [combine_column(flat, name).take(pa.array(last)) for name in _STATE.names], schema=_STATE
        )

    def on_merge(self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Publish the values that have changed."""
        changed = np.zeros(after.num_rows, np.bool_)
        for name in ("time", "value"):
            old, new = before.column(name), after.column(name)
            differs = pc.call_function("not_equal", [old, new]).fill_null(False)
            nulls = (each.is_null().to_numpy(zero_copy_only=False) for each in (old, new))
            changed |= differs.to_numpy(zero_copy_only=False) | np.not_equal(*nulls)
        slots = pa.array(np.flatnonzero(changed).astype(np.int32))
        return make_results(self, slots, after.column("value").take(slots), after.column("time").take(slots)), after


class Enriched(KeyedOperator):
    """Tuples joined to the latest value of their key: a stream and a table, in one stream.

    A tuple with a value changes the key's value. A tuple without one is a question, whose result is the value as of its
    time, or the value from before the batch if that is later. The order of a batch's tuples doesn't matter: at equal
    times, changes come before questions.

    Only groupings that keep a key at one worker run the operator, because a question needs the worker with the key's
    value. A tuple costs some 0.4 µs.

    Parameters
    ----------
    value, version : str
        As for ``Latest``, but a tuple with a null value is a question.
    id : str
        The column that identifies a question among the key's, as a string.

    Notes
    -----
    The columns of a result are ``id``, ``time`` of the question, and ``value``. ``value`` is null if the key has none
    yet.

    Examples
    --------
    A key's value changes at 5 and at 9. A question of 7 is answered with the value of 5:

    >>> tuples = pa.RecordBatch.from_pydict(
    ...     {
    ...         "slot": pa.array([0, 0, 0], pa.int32()),
    ...         "time": [5, 9, 7],
    ...         "value": ["old", "new", None],
    ...         "id": [None, None, "q"],
    ...     }
    ... )
    >>> work = Enriched()
    >>> new = pa.RecordBatch.from_pylist([{}], work.state)  # of a new key: all null
    >>> results, states = work.update(tuples, new, Now(batch_ms=9, watermark_ms=9))
    >>> results.to_pylist()
    [{'slot': 0, 'id': 'q', 'time': 7, 'value': 'old'}]
    >>> states.to_pylist()
    [{'time': 9, 'version': 0, 'value': 'new'}]

    """

    state = _STATE
    results = pa.schema([("id", pa.string()), ("time", pa.int64()), ("value", pa.string())])
    identity = ("id",)

    def __init__(self, value: str = "value", id: str = "id", version: str = "") -> None:  # noqa: A002
        self.value, self.id, self.version = value, id, version
        self.columns = (value, id, version) if version else (value, id)
        self.types = {value: pa.string(), id: pa.string(), version: pa.int64()}

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Order all tuples by time, and answer each question with the change before it."""
        old = has_state(states)
        rows = concat_batches(
            [states.filter(pa.array(old)), _make_version_states(self, tuples, self.value, self.version)], _STATE
        )
        slots = np.concatenate([np.flatnonzero(old), tuples.column("slot").to_numpy()]).astype(np.int32)
        ids = pa.concat_arrays([pa.nulls(int(old.sum()), pa.string()), self.column(tuples, self.id)])
        was = np.arange(len(slots)) < old.sum()
        asks = ~was & rows.column("value").is_null().to_numpy(zero_copy_only=False)
        names = ["slot", *_STATE.names, "id", "asks", "was"]
        flat = pa.table([pa.array(slots), *rows.columns, ids, pa.array(asks), pa.array(was)], names=names)
        flat = _sort_by_slot(flat, "time", "asks", "version", "value")
        slot, time, asks, was = (
            combine_column(flat, n).to_numpy(zero_copy_only=False) for n in ("slot", "time", "asks", "was")
        )
        # The row of each key's old value, −1: none. Changes older than it have no effect.
        had = np.full(states.num_rows, -1)
        had[slot[was]] = np.flatnonzero(was)
        changes = ~asks & ((had[slot] < 0) | (time >= time[had[slot]]))
        change = np.maximum.accumulate(np.where(changes, np.arange(len(slot)), -1))
        change = np.where((change >= 0) & (slot[change] == slot), change, had[slot])
        value = combine_column(flat, "value").take(pa.array(change, mask=change < 0))
        questions = pa.array(asks)
        answers = [
            column.filter(questions)
            for column in (*(combine_column(flat, name) for name in ("slot", "id", "time")), value)
        ]
        last = change[np.searchsorted(slot, np.arange(states.num_rows), side="right") - 1]  # each key has a tuple
        kept = pa.array(last, mask=last < 0)
        after = pa.RecordBatch.from_arrays(
            [combine_column(flat, name).take(kept) for name in _STATE.names], schema=_STATE
        )
        return make_results(self, *answers), after


def _make_version_states(work: KeyedOperator, tuples: pa.RecordBatch, value: str, version: str) -> pa.RecordBatch:
    versions = work.column(tuples, version) if version else pa.array(np.zeros(tuples.num_rows, np.int64))
    return pa.RecordBatch.from_arrays(
        [tuples.column("time"), pc.fill_null(versions, 0), work.column(tuples, value)], schema=_STATE
    )


def _sort_by_slot(flat: pa.Table, *names: str) -> pa.Table:
    """Sort by slot and these columns, null values first."""
    flat = flat.append_column("there", flat.column("value").is_valid())
    return sort_entries(flat, *(each for name in names for each in (("there", name) if name == "value" else (name,))))
