"""DISTINCT: each id's first appearance, exactly once."""

import numpy as np
import pyarrow as pa

from unskew.grouping.arguments import milliseconds
from unskew.works.entries import array, entries, lists, ordered, reduced
from unskew.works.interface import Folded, Now, results_of

#: The types that an id may have in the state.
KINDS = {"string": pa.string(), "int64": pa.int64(), "binary": pa.binary()}

_AGES = 1 << 61  # ms: more than between any two times


class Distinct(Folded):
    """Deduplication: every id of a key is published exactly once, however often and wherever it comes.

    A state is the set of the ids seen, with the times of their first tuples. Where the grouping splits keys an id is
    published at the merge, as only there it is certain to be new.

    A tuple costs some 0.5 µs and each id of a key that has a tuple in the batch as much, so don't let sets grow
    without bound: ``within``, a window, or the key's TTL ends them. For counts alone see ``DistinctCount``.

    Parameters
    ----------
    id : str
        The column.
    kind : str
        The id's type in the state: ``string``, ``int64`` (the smallest) or ``binary``. Null is an id too.
    within : float
        Seconds after which an id may be forgotten, by its published time and the watermark; 0: never. An id may be
        published twice if two of its tuples are further apart than this, and only then.

    Notes
    -----
    Results: ``id``, and ``time`` (ms since the epoch): the earliest of its tuples that had come when it was published.

    Raises
    ------
    ValueError
        A parameter is wrong.

    """

    identity = ("id",)

    def __init__(self, id: str = "id", kind: str = "string", within: float = 0.0) -> None:  # noqa: A002
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; valid: {', '.join(KINDS)}")
        self.within_ms = milliseconds("within", within)
        if self.within_ms:
            self.ttl_ms = self.within_ms
        self.id = id
        self.columns = (id,)
        self.types = {id: KINDS[kind]}
        ids, time = pa.field("id", KINDS[kind]), pa.field("time", pa.int64())
        self.results = pa.schema([ids, time])
        # `told`: whether the id has been published. The name is that of a column in checkpoints.
        self._kind = pa.list_(pa.struct([ids, time, pa.field("told", pa.bool_())]))
        self.state = pa.schema([pa.field("ids", self._kind)])

    def lift(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """A set of one id for each tuple, not published yet."""
        n = tuples.num_rows
        columns = [self.column(tuples, self.id), tuples.column("time"), pa.array(np.zeros(n, np.bool_))]
        alone = pa.StructArray.from_arrays(columns, fields=list(self._kind.value_type))
        offsets = pa.array(np.arange(n + 1, dtype=np.int32))
        return pa.RecordBatch.from_arrays(
            [pa.ListArray.from_arrays(offsets, alone, type=self._kind)], schema=self.state
        )

    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """The union of the sets; an id that is published in one of them keeps that time, others have their earliest."""
        flat = reduced(_published_first(entries(states.column(0), slots.to_numpy()), -1), "id", time="min", told="any")
        return self._sets(ordered(_published_first(flat, 1), "id"), keys)

    def settle(
        self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """Publish the ids that haven't been published, and forget the ids that are old enough."""
        flat = entries(after.column(0))
        seen = pa.array(np.ones(flat.num_rows, np.bool_))
        kept = flat.set_column(flat.column_names.index("told"), "told", seen)
        if self.within_ms:
            recent = array(kept, "time").to_numpy() > now.watermark_ms - self.within_ms
            kept = kept.filter(pa.array(recent))
        return self._new(flat), self._sets(kept, after.num_rows, empty=False)

    def finish(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch | None:
        """Publish the ids that haven't been published."""
        return self._new(entries(states.column(0)))

    @property
    def tells_at_end(self) -> bool:
        """No: an id is published as soon as it is certain to be new, so a whole state has nothing left to publish."""
        return False

    def _sets(self, flat: pa.Table, keys: int, *, empty: bool = True) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([lists(flat, keys, self._kind, empty=empty)], schema=self.state)

    def _new(self, flat: pa.Table) -> pa.RecordBatch:
        """The ids that haven't been published."""
        new = flat.filter(pa.array(~array(flat, "told").to_numpy(zero_copy_only=False)))
        return results_of(self, *(array(new, name) for name in ("slot", "id", "time")))


def _published_first(flat: pa.Table, sign: int) -> pa.Table:
    """Move published times before all others (sign −1), so that no older tuple's time replaces them, or back (1)."""
    published = array(flat, "told").to_numpy(zero_copy_only=False)
    times = array(flat, "time").to_numpy() + sign * _AGES * published
    return flat.set_column(flat.column_names.index("time"), "time", pa.array(times))
