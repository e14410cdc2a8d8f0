"""DISTINCT: each id's first appearance, exactly once."""

import numpy as np
import pyarrow as pa

from unskew.apps.operators.interface import MergeableOperator, Now, ResultsAndStates, make_results
from unskew.apps.operators.list_columns import (
    build_lists,
    combine_column,
    flatten_lists,
    reduce_entries,
    sort_entries,
    wrap_entries,
)
from unskew.durations import Duration, parse_milliseconds
from unskew.grouping.arguments import check_choice

#: The types that an id may have in the state.
KINDS = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary()}

_AGES = 1 << 61  # ms: more than between any two times


class Distinct(MergeableOperator):
    """Deduplication: each id of a key is published exactly once, whichever workers its tuples come to.

    A state is the set of the ids seen, with the times of their first tuples. If the grouping splits keys, an id is
    published at the merge, because only there it is certain to be new.

    A tuple costs some 0.5 µs. In each batch with a tuple of a key, each id in the key's set costs as much again. So
    don't let sets grow without bound: set ``within``, a window, or the key's TTL. If you only need counts, see
    ``DistinctCount``.

    Parameters
    ----------
    id : str
        The column with the id.
    kind : str
        The id's type in the state: ``string``, ``int64`` (the smallest) or ``binary``. Null is an id too.
    within : timedelta, number (s) or str
        The time after which an id may be forgotten, from its published time to the watermark; 0: never. An id may be
        published again by a tuple that is further than this from its other tuples.

    Notes
    -----
    The columns of a result are ``id`` and ``time``. ``time`` (ms since the epoch) is the earliest time of the id's
    tuples that had come when the id was published.

    Raises
    ------
    ValueError
        A parameter is invalid.

    Examples
    --------
    The id ``a`` comes twice, and is published with its earliest time:

    >>> slots = pa.array([0, 0, 0], pa.int32())
    >>> tuples = pa.RecordBatch.from_pydict({"slot": slots, "time": [7, 5, 6], "id": ["a", "b", "a"]})
    >>> work, now = Distinct(), Now(batch_ms=7, watermark_ms=7)
    >>> first = work.merge(work.to_state(tuples), slots, keys=1)
    >>> results, first = work.on_merge(first, first, now)
    >>> results.to_pylist()
    [{'slot': 0, 'id': 'a', 'time': 6}, {'slot': 0, 'id': 'b', 'time': 5}]

    In the next batch, the same tuples give no results:

    >>> _, second = work.update(tuples, first, now)
    >>> work.on_merge(first, second, now)[0].to_pylist()
    []

    """

    identity = ("id",)

    def __init__(self, id: str = "id", kind: str = "string", within: Duration = 0.0) -> None:  # noqa: A002
        check_choice("kind", kind, [*KINDS])
        self.within_ms = parse_milliseconds("within", within)
        if self.within_ms:
            self.ttl_ms = self.within_ms
        self.id = id
        self.columns = (id,)
        self.types = {id: KINDS[kind]}
        ids, time = pa.field("id", KINDS[kind]), ("time", pa.int64())
        self.results = pa.schema([ids, time])
        # `told`: whether the id has been published. The name is that of a column in checkpoints.
        self._kind = pa.list_(pa.struct([ids, time, ("told", pa.bool_())]))
        self.state = pa.schema([("ids", self._kind)])

    def to_state(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """A set of one id for each tuple, not yet published."""
        n = tuples.num_rows
        columns = [self.column(tuples, self.id), tuples.column("time"), pa.array(np.zeros(n, np.bool_))]
        return pa.RecordBatch.from_arrays([wrap_entries(columns, self._kind)], schema=self.state)

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """The union of the sets. An id that was published in one of them keeps that time; others get their earliest."""
        flat = reduce_entries(
            _order_published_first(flatten_lists(states.column(0), slots.to_numpy()), -1), "id", time="min", told="any"
        )
        return self._sets(sort_entries(_order_published_first(flat, 1), "id"), keys)

    def on_merge(self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now) -> ResultsAndStates:
        """Publish the ids that haven't been published, and forget the ids that are old enough."""
        flat = flatten_lists(after.column(0))
        kept = flat.set_column(flat.column_names.index("told"), "told", pa.array(np.ones(flat.num_rows, np.bool_)))
        if self.within_ms:
            recent = combine_column(kept, "time").to_numpy() > now.watermark_ms - self.within_ms
            kept = kept.filter(pa.array(recent))
        return self._new(flat), self._sets(kept, after.num_rows, empty=False)

    def on_close(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch | None:
        """Publish the ids that haven't been published."""
        return self._new(flatten_lists(states.column(0)))

    @property
    def emits_on_close(self) -> bool:
        """Always False. An id is published as soon as it is certain to be new, so the end has nothing to publish."""
        return False

    def _sets(self, flat: pa.Table, keys: int, *, empty: bool = True) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([build_lists(flat, keys, self._kind, empty=empty)], schema=self.state)

    def _new(self, flat: pa.Table) -> pa.RecordBatch:
        """The ids that haven't been published."""
        new = flat.filter(pa.array(~combine_column(flat, "told").to_numpy(zero_copy_only=False)))
        return make_results(self, *(combine_column(new, name) for name in ("slot", "id", "time")))


def _order_published_first(flat: pa.Table, sign: int) -> pa.Table:
    """Move published times before all others (sign −1), so that no older tuple's time replaces them, or back (1)."""
    published = combine_column(flat, "told").to_numpy(zero_copy_only=False)
    times = combine_column(flat, "time").to_numpy() + sign * _AGES * published
    return flat.set_column(flat.column_names.index("time"), "time", pa.array(times))
