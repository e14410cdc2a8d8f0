"""The rows of one side of a join at a worker: in slices of time, and within a slice in buckets by key.

A batch writes the newest slices and reads those in which partners may be. A slice that is over leaves without being
read.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.operators.errors import StateFault
from unskew.apps.worker.stateful.operator_output import add_window
from unskew.apps.worker.stateful.store import KEY, BucketIndex, BucketStore, Directory, Store, choose_buckets
from unskew.apps.worker.stateful.table import DIRECTORY
from unskew.grouping.keys import hash_keys

#: The column of a row's time, int64, µs since the epoch.
TIME = "__time"


class RowTable:
    """The rows of one side.

    Parameters
    ----------
    store : Store
        The worker's store.
    number : int
        The table's number at the worker.
    key : DataType
        The keys' type.
    columns : Schema
        The rows' other columns.
    slice_us : int
        The length of a slice (µs).

    Raises
    ------
    StateFault
        The rows in the store have other columns.

    """

    def __init__(self, store: Store, number: int, key: pa.DataType, columns: pa.Schema, slice_us: int) -> None:
        self.schema = pa.schema([pa.field(KEY, key), pa.field(TIME, pa.int64()), *columns])
        self._store, self._number, self._slice_us = store, number, slice_us
        self._buckets = BucketStore(store, number, self.schema, None)
        found = store.get((number, 0, DIRECTORY))
        self._directory = Directory.read(found) if found else Directory(self.schema, {})
        self._changed = found is None
        if self._directory.schema != self.schema:
            raise StateFault(
                f"the checkpoint's rows have the columns {self._directory.schema.names[2:]}, the stream's "
                f"{self.schema.names[2:]}: give the same columns, or another checkpoint"
            )

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(int(index.keys.sum()) for index in self._directory.indexes.values())

    @property
    def size(self) -> int:
        """The size of the rows in bytes."""
        return sum(int(index.size.sum()) for index in self._directory.indexes.values())

    def empty(self) -> pa.RecordBatch:
        """No rows."""
        return self._buckets.empty()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of the table's schema."""
        slices = rows.column(TIME).to_numpy() // self._slice_us * self._slice_us
        hashes = hash_keys_of(rows)
        for start in np.unique(slices).tolist():
            own = slices == start
            index = self._directory.indexes.setdefault(start, BucketIndex.empty(self._directory.usual))
            new = choose_buckets(hashes[own], len(index))
            named = np.unique(new)
            old, bucket = self._buckets.fetch(start, index, named)
            together = pa.concat_batches([old, rows.filter(pa.array(own))])
            self._buckets.store(self._directory, start, together, np.concatenate([bucket, new]), named)
            self._changed = True

    def find(
        self, hashes: NDArray[np.uint64], first_us: int = 0, last_us: int | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The start of each slice that may have rows of these keys and times (µs), and the rows of their buckets."""
        for start, index in sorted(self._directory.indexes.items()):
            if start + self._slice_us <= first_us or (last_us is not None and start > last_us):
                continue
            rows, _ = self._buckets.fetch(start, index, np.unique(choose_buckets(hashes, len(index))))
            if rows.num_rows:
                yield start, rows

    def read_keys(self, hashes: NDArray[np.uint64]) -> pa.RecordBatch:
        """The rows of the keys with these hashes, with their slice as ``operator_output.WINDOW``."""
        parts = [
            add_window(start, rows.filter(pa.array(np.isin(hash_keys_of(rows), hashes))))
            for start, rows in self.find(hashes)
        ]
        return pa.concat_batches([add_window(0, self.empty()), *parts])

    def remove_keys(self, hashes: NDArray[np.uint64]) -> None:
        """Remove the rows of the keys with these hashes."""
        for start, index in [*self._directory.indexes.items()]:
            named = np.unique(choose_buckets(hashes, len(index)))
            rows, bucket = self._buckets.fetch(start, index, named)
            rest = ~np.isin(hash_keys_of(rows), hashes)
            if not rest.all():
                self._buckets.keep(start, index, rows.filter(pa.array(rest)), bucket[rest], named)
                self._changed = True

    def drop_before(self, time_us: int) -> int:
        """Remove the slices that end before this time (µs), and return the number of their rows."""
        dropped = 0
        for start in [start for start in self._directory.indexes if start + self._slice_us <= time_us]:
            index = self._directory.indexes.pop(start)
            for bucket in np.flatnonzero(index.keys).tolist():
                self._buckets.remove(start, bucket)
            dropped += int(index.keys.sum())
            self._changed = True
        return dropped

    def close(self) -> None:
        """Store the directory of the buckets, if it has changed."""
        if self._changed:
            self._store.put((self._number, 0, DIRECTORY), self._directory.write())


def hash_keys_of(rows: pa.RecordBatch) -> NDArray[np.uint64]:
    """The hash of each row's key, uint64[n]. Each distinct key is hashed once."""
    keys = rows.column(KEY).dictionary_encode()
    return hash_keys(keys.dictionary)[keys.indices.to_numpy()]


def find_codes(rows: pa.RecordBatch, distinct: pa.Array) -> NDArray[np.int64]:
    """The position of each row's key among these keys, int64[n]. −1: it isn't there."""
    found = pc.call_function("index_in", [rows.column(KEY)], pc.SetLookupOptions(distinct))
    return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
