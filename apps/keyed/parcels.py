"""What workers send, and homes: rows of Arrow blobs, with what is to become of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.keyed.bins import KEY
from unskew.grouping.hashing import function, homes
from unskew.grouping.keys import hash_keys

#: What a parcel is: results of the work; counts of a closed window; states that meet others; or only a sign of life.
RESULTS, COUNTS, FRAGMENTS, BEAT = range(4)
#: Those that leave the dataflow.
OUT = (RESULTS, COUNTS)
#: The window of a row; 0 where states outlive windows.
WINDOW = "__window"

# No grouping uses it: which home a key has tells nothing of its workers.
_HOME = function(0x686F6D65)


@dataclass(frozen=True)
class Parcel:
    """A blob on its way.

    Attributes
    ----------
    kind : int
        ``RESULTS``, ``COUNTS``, ``FRAGMENTS`` or ``BEAT``.
    home : int
        Where it goes, if there are homes.
    blob : bytes
        Rows as an Arrow stream, with ``WINDOW`` before the others; of a beat, something if states meet now.

    """

    kind: int
    home: int
    blob: bytes


def packed(kind: int, home: int, rows: Sequence[tuple[int, pa.RecordBatch]]) -> Iterator[Parcel]:
    """One parcel of the rows of several windows, none if there are no rows."""
    batches = [windowed(window, batch) for window, batch in rows if batch.num_rows]
    if batches:
        yield Parcel(kind, home, _write(batches))


def spread(rows: Sequence[tuple[int, pa.RecordBatch]], count: int) -> Iterator[Parcel]:
    """Rows of states, each to the home of its key."""
    batches = [windowed(window, batch) for window, batch in rows if batch.num_rows]
    if not batches:
        return
    together = pa.concat_batches(batches)
    place = home_of(together.column(KEY), count)
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(count + 1))
    ordered = together.take(pa.array(order))
    for home in np.flatnonzero(np.diff(bounds)).tolist():
        part = ordered.slice(bounds[home], bounds[home + 1] - bounds[home])
        yield Parcel(FRAGMENTS, home, _write([part]))


def home_of(keys: pa.Array, count: int) -> NDArray[np.int32]:
    """The home of each key: int32[k]."""
    return homes(hash_keys(keys), _HOME, count)


def opened(blob: bytes) -> pa.RecordBatch:
    """The rows of a parcel."""
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        return pa.concat_batches([*reader])


def by_window(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each window, without it."""
    windows = rows.column(WINDOW).to_numpy()
    rest = rows.drop_columns(WINDOW)
    for window in np.unique(windows).tolist():
        yield window, rest.filter(pa.array(windows == window))


def windowed(window: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a window, with it before their other columns."""
    of = pa.array(np.full(batch.num_rows, window, np.int64))
    return pa.RecordBatch.from_arrays([of, *batch.columns], schema=batch.schema.insert(0, pa.field(WINDOW, pa.int64())))


def _write(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
