"""The topology's own work with a state: the tuples of each key and what they count, until their window closes."""

import numpy as np
import pyarrow as pa

from unskew.works.interface import KeyedWork, Now


class Counts(KeyedWork):
    """Tuples and counts of a key in a window; told when it closes.

    Parameters
    ----------
    weighted : bool
        Whether the tuples have a column ``count``; if not, each counts 1.

    """

    state = pa.schema([("tuples", pa.int64()), ("count", pa.int64())])
    results = state

    def __init__(self, *, weighted: bool = False) -> None:
        self.columns = ("count",) if weighted else ()

    def update(
        self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """Add them up."""
        slots = tuples.column("slot").to_numpy()
        number = np.bincount(slots, minlength=states.num_rows)
        total = number
        if self.columns:
            total = np.zeros(states.num_rows, np.int64)
            # exact for any int64, which a weighted bincount is not
            np.add.at(total, slots, tuples.column("count").to_numpy(zero_copy_only=False).astype(np.int64))
        before = (column.fill_null(0).to_numpy() for column in states.columns)
        after = [pa.array(old + new, pa.int64()) for old, new in zip(before, (number, total), strict=True)]
        return None, pa.RecordBatch.from_arrays(after, schema=self.state)

    def finish(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch:
        """The counts."""
        slots = pa.array(np.arange(states.num_rows, dtype=np.int32))
        return pa.RecordBatch.from_arrays([slots, *states.columns], ["slot", *self.results.names])
