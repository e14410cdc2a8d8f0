"""Works whose states are only ever merged: a tuple is a small state, and a batch of them is merged to the old."""

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from unskew.works.interface import KeyedWork, Now

#: When a summary is told: whenever its key has changed, or when its window closes or it expires.
WHEN = ("change", "end")


class Folded(KeyedWork):
    """A work that says what one tuple is (``lift``) and what several are together (``merge``).

    Because both updating and merging are that one merge, how a stream is cut into batches and spread over workers
    makes no difference where the merge is associative and commutative.
    """

    @abstractmethod
    def lift(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        """The state of each tuple by itself: n rows of ``state``."""

    @abstractmethod
    def merge(self, states: pa.RecordBatch, slots: pa.Array, keys: int) -> pa.RecordBatch:
        """As ``KeyedWork.merge``; here every key has at least one state too."""

    def update(
        self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """Merge the tuples' states to the old ones."""
        old = known(states)
        slots = np.concatenate([np.flatnonzero(old), tuples.column("slot").to_numpy()]).astype(np.int32)
        rows = joined([states.filter(pa.array(old)), self.lift(tuples)], self.state)
        return None, self.merge(rows, pa.array(slots), states.num_rows)


class Summary(KeyedWork):
    """A work that tells of a key what it has come to.

    Parameters
    ----------
    when : str
        ``change``: told each time that the key has changed, and each time overwrites what was told; ``end``: told
        once, when the window closes or the state expires.

    Raises
    ------
    ValueError
        ``when`` is neither.

    """

    def __init__(self, when: str = "change") -> None:
        if when not in WHEN:
            raise ValueError(f"when is {when!r}; valid: {', '.join(WHEN)}")
        self.when = when

    @property
    def tells_at_end(self) -> bool:
        """Whether it is told then."""
        return self.when == "end"

    @abstractmethod
    def answer(self, states: pa.RecordBatch) -> pa.RecordBatch:
        """What the states come to: ``slot`` and the columns of ``results``."""

    def settle(
        self, before: pa.RecordBatch, after: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """Tell of what has changed, if that is wanted."""
        return (self.answer(after) if self.when == "change" else None), after

    def finish(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch | None:
        """Tell of the whole, unless it was told as it changed."""
        return self.answer(states) if self.when == "end" else None


def known(states: pa.RecordBatch) -> np.ndarray:
    """Which keys have a state, bool[k]: some column of theirs isn't null."""
    there = np.zeros(states.num_rows, np.bool_)
    for column in states.columns:
        there |= column.is_valid().to_numpy(zero_copy_only=False)
    return there


def joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Several batches of one schema as one."""
    columns = [pa.concat_arrays([batch.column(name) for batch in batches]) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def told(work: KeyedWork, slots: pa.Array, *columns: pa.Array) -> pa.RecordBatch:
    """Results of a work: their slots, and its columns in their order."""
    arrays = [column.cast(field.type) for column, field in zip(columns, work.results, strict=True)]
    return pa.RecordBatch.from_arrays([slots, *arrays], schema=told_schema(work))


def told_schema(work: KeyedWork) -> pa.Schema:
    """The schema of a work's results as its methods give them: the slot, and what it says they are."""
    return pa.schema([pa.field("slot", pa.int32()), *work.results])
