"""Packs rows that leave a worker or a merger into parcels: Arrow blobs with a kind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.worker.stateful.store import KEY
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.keys import hash_keys

#: Kinds of parcels: results of the operator; counts of a closed window; fragments for a merger; a heartbeat for a
#: merger; a worker's report for Spark to observe (``unskew.apps.metrics.balance_observation``).
RESULTS, COUNTS, FRAGMENTS, HEARTBEAT, REPORT = range(5)
#: The kinds that leave the dataflow.
OUT = (RESULTS, COUNTS)
#: The kinds whose blobs are small, and always travel in the row.
SMALL = (HEARTBEAT, REPORT)
#: The most bytes of a parcel, unless a single row is larger. Spark holds a parcel in its heap as one value.
LARGEST = 16 << 20
#: The window of a row; 0 if states outlive windows.
WINDOW = "__window"

#: How many bytes of states are merged at once: Arrow's arrays of strings are limited to 2 GiB.
TOGETHER = 256 << 20

# No grouping uses this hash function, so a key's merger is independent of its workers.
_MERGER = hash_function(0x686F6D65)
_PART = hash_function(0x70617274)


@dataclass(frozen=True)
class Parcel:
    """A blob for a merger, or a result of the dataflow."""

    kind: int  #: ``RESULTS``, ``COUNTS``, ``FRAGMENTS``, ``HEARTBEAT`` or ``REPORT``.
    merger: int  #: The receiving merger, if there are mergers.
    #: Rows as an Arrow stream, with ``WINDOW`` as the first column. A heartbeat's isn't empty if fragments are merged
    #: in this batch. A report is JSON.
    blob: bytes


def pack_rows(kind: int, merger: int, rows: Sequence[tuple[int, pa.RecordBatch]]) -> Iterator[Parcel]:
    """Pack the rows of several windows into as few parcels as possible."""
    for batches in _make_portions(rows):
        yield Parcel(kind, merger, _write_batches(batches))


def spread_over_mergers(rows: Sequence[tuple[int, pa.RecordBatch]], count: int) -> Iterator[Parcel]:
    """Pack rows of states into parcels for the mergers of their keys."""
    for batches in _make_portions(rows):
        together = pa.concat_batches(batches)
        merger_of_row = choose_mergers(together.column(KEY), count)
        order = np.argsort(merger_of_row, kind="stable")
        bounds = np.searchsorted(merger_of_row[order], np.arange(count + 1))
        ordered = together.take(pa.array(order))
        for merger in np.flatnonzero(np.diff(bounds)).tolist():
            part = ordered.slice(bounds[merger], bounds[merger + 1] - bounds[merger])
            yield Parcel(FRAGMENTS, merger, _write_batches([part]))


def choose_mergers(keys: pa.Array, count: int) -> NDArray[np.int32]:
    """The merger of each of k keys, int32[k], in [0, ``count``)."""
    return choose_homes(hash_keys(keys), _MERGER, count)


def read_rows(blob: bytes) -> pa.RecordBatch:
    """The rows of a parcel."""
    with pa.ipc.open_stream(pa.py_buffer(blob)) as reader:
        return pa.concat_batches([*reader])


def split_by_window(rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each window, without the window's column."""
    windows = rows.column(WINDOW).to_numpy()
    rest = rows.drop_columns(WINDOW)
    for window in np.unique(windows).tolist():
        yield window, rest.filter(pa.array(windows == window))


def group_by_key(rows: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Group rows of states into batches of about ``TOGETHER`` bytes, with all rows of a key in one."""
    count = -(-sum(batch.nbytes for batch in rows) // TOGETHER)
    for number in range(count):
        parts = rows
        if count > 1:
            parts = [
                batch.filter(pa.array(choose_homes(hash_keys(batch.column(KEY)), _PART, count) == number))
                for batch in rows
            ]
        yield pa.concat_batches(parts)


def add_window(window: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add the window's start as the first column."""
    of = pa.array(np.full(batch.num_rows, window, np.int64))
    return pa.RecordBatch.from_arrays([of, *batch.columns], schema=batch.schema.insert(0, pa.field(WINDOW, pa.int64())))


def _make_portions(rows: Sequence[tuple[int, pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch]]:
    """Split the rows, with windows, into portions of at most ``LARGEST`` bytes, or one row."""
    portion: list[pa.RecordBatch] = []
    size = 0
    for window, batch in rows:
        for part in _halve_batch(batch):
            if portion and size + part.nbytes > LARGEST:
                yield portion
                portion, size = [], 0
            portion.append(add_window(window, part))
            size += part.nbytes
    if portion:
        yield portion


def _halve_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Halve a batch until no part is too large. A batch without rows has no parts."""
    if batch.num_rows > 1 and batch.nbytes > LARGEST:
        half = batch.num_rows // 2
        yield from _halve_batch(batch.slice(0, half))
        yield from _halve_batch(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _write_batches(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
