"""The rows of one side of a join at a worker, in slices of time, and in each slice in buckets of keys.

A batch writes the newest slices and reads those that may have partners. An expired slice is removed whole, and read
only if its rows may have to be published without a partner.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.operators.errors import StateFault
from unskew.apps.worker.stateful.operator_output import add_window
from unskew.apps.worker.stateful.store import KEY, BucketIndex, BucketStore, Directory, Store, choose_buckets
from unskew.apps.worker.stateful.table import DIRECTORY
from unskew.grouping.keys import encode_keys

#: The column of a row's time, int64, µs since the epoch.
TIME = "__time"
#: Of an outer side: a row's batch and source, its number there, and whether it has a partner here.
ORIGIN, NUMBER, MATCHED = "__origin", "__number", "__matched"
_OF_OUTER = pa.schema([(ORIGIN, pa.int64()), (NUMBER, pa.int64()), (MATCHED, pa.bool_())])


def make_row_schema(key: pa.DataType, columns: pa.Schema, *, outer: bool) -> pa.Schema:
    """The columns of a table's rows."""
    return pa.schema([pa.field(KEY, key), pa.field(TIME, pa.int64()), *(_OF_OUTER if outer else ()), *columns])


@dataclass(frozen=True)
class FetchedSlice:
    """The rows of some buckets of a slice."""

    start: int  #: The slice's start (µs).
    rows: pa.RecordBatch  #: n rows of the table's schema.
    bucket: NDArray[np.int64]  #: int64[n]: The bucket of each row.
    named: NDArray[np.int64]  #: int64[b]: The buckets.


class RowTable:
    """The rows of one side, in slices of a length (µs), in the worker's table of that number.

    Raises ``StateFault`` if the rows in the store have other columns.
    """

    def __init__(self, store: Store, number: int, schema: pa.Schema, slice_us: int) -> None:
        self.schema = schema
        self._store, self._number, self._slice_us = store, number, slice_us
        self._buckets = BucketStore(store, number, schema, None)
        found = store.get((number, 0, DIRECTORY))
        self._directory = Directory.read(found) if found else Directory(schema, {})
        self._changed = found is None
        if self._directory.schema != schema:
            raise StateFault(
                f"the checkpoint's rows have the columns {self._directory.schema.names[2:]}, the stream's "
                f"{schema.names[2:]}: give the same columns, or another checkpoint"
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

    def add(self, rows: pa.RecordBatch, hashes: NDArray[np.uint64]) -> None:
        """Add n rows of the table's schema, with their keys' hashes, uint64[n]."""
        slices = self._find_slices(rows)
        for start in np.unique(slices).tolist():
            own = slices == start
            index = self._directory.indexes.setdefault(start, BucketIndex.empty(self._directory.usual))
            new = choose_buckets(hashes[own], len(index))
            named = np.unique(new)
            old, bucket = self._buckets.fetch(start, index, named)
            together = pa.concat_batches([old, rows.filter(pa.array(own))])
            self._buckets.store(self._directory, start, together, np.concatenate([bucket, new]), named)
            self._changed = True

    def find(self, hashes: NDArray[np.uint64], first_us: int = 0, last_us: int | None = None) -> Iterator[FetchedSlice]:
        """The buckets of these keys in slices that may have rows in this span of time (µs)."""
        for start, index in sorted(self._directory.indexes.items()):
            if start + self._slice_us <= first_us or (last_us is not None and start > last_us):
                continue
            named = np.unique(choose_buckets(hashes, len(index)))
            rows, bucket = self._buckets.fetch(start, index, named)
            if rows.num_rows:
                yield FetchedSlice(start, rows, bucket, named)

    def mark(self, fetched: FetchedSlice, which: NDArray[np.bool_]) -> None:
        """Record which rows of a slice, bool[n], have partners."""
        before = fetched.rows.column(MATCHED).to_numpy(zero_copy_only=False).astype(np.bool_)
        if (which & ~before).any():
            self._keep(fetched, set_matched(fetched.rows, before | which), np.ones(len(before), np.bool_))

    def read_keys(self, hashes: NDArray[np.uint64]) -> pa.RecordBatch:
        """The rows of the keys with these hashes, with their slice as ``operator_output.WINDOW``."""
        parts = [
            add_window(each.start, each.rows.filter(pa.array(np.isin(hash_keys_of(each.rows), hashes))))
            for each in self.find(hashes)
        ]
        return pa.concat_batches([add_window(0, self.empty()), *parts])

    def has_keys(self, hashes: NDArray[np.uint64], *, matched: bool = False) -> bool:
        """Whether there are rows, or ``matched`` rows, of the keys with these hashes. It stops at the first."""
        for each in self.find(hashes):
            own = np.isin(hash_keys_of(each.rows), hashes)
            if matched:
                own &= each.rows.column(MATCHED).to_numpy(zero_copy_only=False).astype(np.bool_)
            if own.any():
                return True
        return False

    def remove_keys(self, hashes: NDArray[np.uint64]) -> None:
        """Remove the rows of the keys with these hashes."""
        for each in [*self.find(hashes)]:
            rest = ~np.isin(hash_keys_of(each.rows), hashes)
            if not rest.all():
                self._keep(each, each.rows, rest)

    def select_live(self, rows: pa.RecordBatch, time_us: int) -> pa.RecordBatch:
        """The rows in slices that ``drop_before`` keeps."""
        return rows.filter(pa.array(self._find_slices(rows) + self._slice_us > time_us))

    def read_before(self, time_us: int) -> Iterator[pa.RecordBatch]:
        """The rows of the slices that end before this time (µs)."""
        for start, index in sorted(self._directory.indexes.items()):
            if start + self._slice_us <= time_us:
                yield self._buckets.fetch(start, index, np.flatnonzero(index.keys))[0]

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
        """Store the directory of buckets if it changed."""
        if self._changed:
            self._store.put((self._number, 0, DIRECTORY), self._directory.write())

    def _find_slices(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """The start of each row's slice, int64[n], µs."""
        return rows.column(TIME).to_numpy() // self._slice_us * self._slice_us

    def _keep(self, fetched: FetchedSlice, rows: pa.RecordBatch, which: NDArray[np.bool_]) -> None:
        """Replace the rows of fetched buckets with the selected ones."""
        index = self._directory.indexes[fetched.start]
        kept = rows if which.all() else rows.filter(pa.array(which))
        self._buckets.keep(fetched.start, index, kept, fetched.bucket[which], fetched.named)
        self._changed = True


def set_matched(rows: pa.RecordBatch, matched: NDArray[np.bool_]) -> pa.RecordBatch:
    """An outer side's rows, with whether each has a partner."""
    return rows.set_column(rows.schema.get_field_index(MATCHED), _OF_OUTER.field(MATCHED), pa.array(matched))


def hash_keys_of(rows: pa.RecordBatch) -> NDArray[np.uint64]:
    """The hash of each row's key, uint64[n]."""
    keys = encode_keys(rows.column(KEY))
    return keys.hashes[keys.codes]


def find_codes(rows: pa.RecordBatch, distinct: pa.Array) -> NDArray[np.int64]:
    """The position of each row's key among these keys, int64[n]; −1 if it isn't there, or null."""
    found = pc.call_function("index_in", [rows.column(KEY)], pc.SetLookupOptions(distinct, skip_nulls=True))
    return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
