"""Packets: the tuples of one worker from a stretch of the stream, as one row.

A Spark row costs some hundred nanoseconds each time it changes between the JVM and Python, and more in a shuffle.
Tuples that go to a Python worker anyway needn't pay that one by one: the router cuts its Arrow batches by worker and
sends each cut through the shuffle as one row of (worker, Arrow IPC bytes).
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SCHEMA = pa.schema([("worker", pa.int32()), ("packet", pa.binary())])
DDL = "worker int, packet binary"

# Tuples gathered before they are cut: many enough that a packet's fixed cost (about 20 µs) vanishes, few enough that
# memory stays in megabytes.
_ROWS = 65_536
_ROWS_A_WORKER = 512
_MAX_ROWS = 1_048_576
_MAX_BYTES = 64 << 20


class Packer:
    """Gathers routed batches and cuts them into packets; each worker's tuples keep their order."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._limit = min(max(_ROWS, workers * _ROWS_A_WORKER), _MAX_ROWS)
        self._batches: list[pa.RecordBatch] = []
        self._routes: list[NDArray[np.int32]] = []
        self._rows = self._bytes = 0

    def add(self, tuples: pa.RecordBatch, workers: NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
        """Take n tuples and their workers (int32[n]); yield packets if enough have come together."""
        self._batches.append(tuples)
        self._routes.append(workers)
        self._rows += len(workers)
        self._bytes += tuples.nbytes
        if self._rows >= self._limit or self._bytes >= _MAX_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left, at most one packet a worker."""
        if not self._rows:
            return
        table = pa.Table.from_batches(self._batches).unify_dictionaries().combine_chunks()
        routes = np.concatenate(self._routes)
        self._batches, self._routes, self._rows, self._bytes = [], [], 0, 0
        yield cut(table.to_batches()[0], routes, self.workers)


def cut(tuples: pa.RecordBatch, workers: NDArray[np.int32], count: int) -> pa.RecordBatch:
    """Cut n tuples by worker: a batch of ``SCHEMA``, a row for each worker that has any."""
    narrow = workers.astype(np.int16) if count <= np.iinfo(np.int16).max else workers  # a radix sort, where it fits
    order = np.argsort(narrow, kind="stable")
    bounds = np.searchsorted(narrow[order], np.arange(count + 1))
    ordered = _light(tuples, count).take(pa.array(order))
    named = np.flatnonzero(np.diff(bounds))
    packets = [_write(ordered.slice(bounds[w], bounds[w + 1] - bounds[w])) for w in named]
    return pa.record_batch([pa.array(named, pa.int32()), pa.array(packets, pa.binary())], schema=SCHEMA)


def read(packet: pa.BinaryScalar) -> pa.RecordBatch:
    """The tuples of a packet."""
    with pa.ipc.open_stream(packet.as_buffer()) as reader:
        return reader.read_next_batch()


def _light(tuples: pa.RecordBatch, count: int) -> pa.RecordBatch:
    """Dictionaries are written into every packet: keep only those that are smaller than what they save."""
    for i, column in enumerate(tuples.columns):
        if pa.types.is_dictionary(column.type) and len(column.dictionary) * count > len(column):
            tuples = tuples.set_column(i, tuples.schema.names[i], column.cast(column.type.value_type))
    return tuples


def _write(tuples: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema) as writer:
        writer.write_batch(tuples)
    return sink.getvalue().to_pybytes()
