"""A table of states, one row per key, in buckets that are read and written whole."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.operators.errors import StateFault
from unskew.apps.operators.interface import has_state
from unskew.apps.worker.stateful.store import (
    KEY,
    LAST,
    BucketIndex,
    BucketStore,
    Directory,
    Due,
    Store,
    choose_buckets,
    find_rows,
)
from unskew.grouping.keys import Keys, encode_keys, hash_keys
from unskew.shown_keys import quote_key

#: The number of the bucket with the directory.
DIRECTORY = -1
_AT_ONCE = 256  # buckets
_BYTES_AT_ONCE = 256 << 20  # Arrow's arrays of strings are limited to 2 GiB, and states may grow
_SWEEPS = 16  # searches of a bucket for expired states, within a TTL


@dataclass(frozen=True)
class FetchedBuckets:
    """Buckets fetched for k keys."""

    keys: Keys  #: The k keys, each with a tuple.
    rows: pa.RecordBatch  #: All rows of the buckets.
    bucket: NDArray[np.int64]  #: int64[rows]: The bucket of each row.
    at: NDArray[np.int32]  #: int32[k]: The row of each key; −1 if it has none.


class StateTable:
    """The states of one operator at one worker, in the worker's table of that number.

    A key expires ``ttl_ms`` after its last tuple. ``due`` says when each of n rows is due before it expires
    (``store.Due``), and ``upgrade`` makes of rows with states of an older schema those of ``state``, or None if the
    schema is unknown.

    Raises ``StateFault`` if the states in the store have other columns, and can't be upgraded.
    """

    def __init__(
        self,
        store: Store,
        number: int,
        state: pa.Schema,
        key: pa.DataType,
        ttl_ms: int | None,
        due: Due | None = None,
        upgrade: Callable[[pa.RecordBatch], pa.RecordBatch | None] | None = None,
    ) -> None:
        self._store = store
        self._number = number
        self._ttl = ttl_ms
        self._due = due
        self._upgrade = upgrade
        self.state = state
        self.schema = pa.schema([pa.field(KEY, key), pa.field(LAST, pa.int64()), *state])
        self._buckets = BucketStore(store, number, self.schema, ttl_ms, due)
        found = store.get((number, 0, DIRECTORY))
        self._directory = Directory.read(found) if found else Directory(self.schema, {})
        self._indexes = self._directory.indexes
        self._changed = found is None
        if self._directory.schema != self.schema:
            self._upgrade_all()

    def _upgrade_all(self) -> None:
        """Rewrite all buckets of an older version's table."""
        old = BucketStore(self._store, self._number, self._directory.schema, None)
        self._upgrade_rows(old.empty())  # refuses another operator's table, even without states
        for window, index in self._indexes.items():
            for some in _batch_buckets(index, np.flatnonzero(index.keys)):
                rows, bucket = old.fetch(window, index, some)
                new = self._upgrade_rows(rows)
                there = has_state(new.select(self.state.names))
                self._buckets.keep(window, index, new.filter(pa.array(there)), bucket[there], some)
        self._directory.schema = self.schema
        self._changed = True

    def _upgrade_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Upgrade rows of an older schema to the table's."""
        if rows.schema == self.schema:
            return rows
        new = self._upgrade(rows) if self._upgrade is not None else None
        if new is None or new.schema != self.schema:
            raise StateFault(
                f"the checkpoint's states have the columns {_list_columns(rows.schema)}, the operator's "
                f"{_list_columns(self.schema)}: give the same operator, `previous_schemas` and `upgrade` to it, or "
                "another checkpoint"
            )
        return new

    def empty(self) -> pa.RecordBatch:
        """No rows."""
        return self._buckets.empty()

    @property
    def windows(self) -> list[int]:
        """The windows with states, oldest first."""
        return sorted(self._indexes)

    @property
    def keys(self) -> int:
        """The number of states."""
        return sum(int(index.keys.sum()) for index in self._indexes.values())

    @property
    def size(self) -> int:
        """The size of the states in bytes."""
        return sum(int(index.size.sum()) for index in self._indexes.values())

    def close(self) -> None:
        """Store the directory of buckets if it changed."""
        if self._changed:
            self._store.put((self._number, 0, DIRECTORY), self._directory.write())

    def portions(self, window: int, keys: Keys) -> Iterator[NDArray[np.bool_]]:
        """Which of k keys to touch at a time, bool[k]: all, unless their buckets are very large."""
        index = self._indexes.get(window)
        if index is None or index.size.sum() <= _BYTES_AT_ONCE:
            yield np.ones(len(keys.hashes), np.bool_)
            return
        bucket = choose_buckets(keys.hashes, len(index))
        for some in _batch_buckets(index, np.unique(bucket), len(index)):
            yield np.isin(bucket, some)

    def touch(self, window: int, keys: Keys) -> FetchedBuckets:
        """Fetch the buckets of these keys. O(keys in these buckets)."""
        index = self._indexes.get(window)
        n = len(index) if index is not None else self._directory.usual
        named = np.unique(choose_buckets(keys.hashes, n))
        rows, bucket = self._buckets.fetch(window, index, named)
        return FetchedBuckets(keys, rows, bucket, find_rows(keys.distinct, rows))

    def put(self, window: int, touched: FetchedBuckets, last: NDArray[np.int64], states: pa.RecordBatch) -> None:
        """Store the keys' new states. A state whose columns are all null isn't stored.

        Raises ``StateFault`` if a state is larger than ``store.LARGEST_STATE``.
        """
        index = self._indexes.get(window)
        if index is None:
            index = self._indexes[window] = BucketIndex.empty(self._directory.usual)
        self._changed = True
        columns = [touched.keys.distinct, pa.array(last), *states.columns]
        changed = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        there = has_state(states)
        replaced = np.zeros(touched.rows.num_rows, np.bool_)
        replaced[touched.at[touched.at >= 0]] = True
        rows = pa.concat_batches([touched.rows.filter(pa.array(~replaced)), changed.filter(pa.array(there))])
        new = choose_buckets(touched.keys.hashes, len(index))
        bucket = np.concatenate([touched.bucket[~replaced], new[there]])
        fetched = np.unique(np.concatenate([touched.bucket, new]))
        self._buckets.store(self._directory, window, rows, bucket, fetched)

    def take(self, window: int) -> Iterator[pa.RecordBatch]:
        """Remove and yield all rows of a window, a few buckets at a time."""
        index = self._indexes.pop(window)
        self._changed = True
        for some in _batch_buckets(index, np.flatnonzero(index.keys)):
            rows, _ = self._buckets.fetch(window, index, some)
            for bucket in some.tolist():
                self._buckets.remove(window, bucket)
            yield rows

    def take_in(self, window: int, rows: pa.RecordBatch) -> None:
        """Add rows from other workers' tables, of this or an older schema.

        Raises ``StateFault`` if the table already has a state of such a key, or the rows are another operator's.
        """
        rows = self._upgrade_rows(rows)
        keys = encode_keys(rows.column(KEY))
        touched = self.touch(window, keys)
        if (touched.at >= 0).any() or len(keys.distinct) < len(rows):
            key = keys.distinct[int(np.argmax(touched.at))].as_py()
            raise StateFault(f"key {quote_key(key)} comes from another worker, and has a state here already")
        row = np.empty(len(rows), np.int64)
        row[keys.codes] = np.arange(len(rows))
        ordered = rows.take(pa.array(row))
        self.put(window, touched, ordered.column(LAST).to_numpy(), ordered.select(self.state.names))

    def release(
        self, to: Callable[[NDArray[np.uint64]], NDArray[np.int32]], among: NDArray[np.uint64] | None
    ) -> Iterator[tuple[int, pa.RecordBatch, NDArray[np.int32]]]:
        """Remove the rows of the keys that leave, and yield them by window, with each one's receiver.

        ``to`` maps hashes of keys, uint64[k], to their receivers, int32[k]; −1 if the key stays. Only the buckets of
        the keys ``among`` (hashes, uint64[h]) are read. None: all.
        """
        for window, index in self._indexes.items():
            named = np.arange(len(index)) if among is None else np.unique(choose_buckets(among, len(index)))
            for some in _batch_buckets(index, named[index.keys[named] > 0]):
                rows, bucket = self._buckets.fetch(window, index, some)
                receiver = to(hash_keys(rows.column(KEY)))
                gone = receiver >= 0
                if gone.any():
                    yield window, rows.filter(pa.array(gone)), receiver[gone]
                    changed = np.unique(bucket[gone])
                    rest = ~gone & np.isin(bucket, changed)
                    self._buckets.keep(window, index, rows.filter(pa.array(rest)), bucket[rest], changed)
                    self._changed = True

    def expire(
        self, at_ms: int, settled: Callable[[pa.RecordBatch], pa.RecordBatch], *, prompt: bool
    ) -> Iterator[pa.RecordBatch]:
        """Remove and yield the rows expired at a time. Rows that are due get new states from ``settled``.

        States whose columns are all null aren't stored. If ``prompt``, all buckets are searched in which a row expires
        or is due. If not, each bucket is searched 16 times per TTL, spread over time: expired states leave at most TTL
        / 16 late, and no batch has to search all buckets.
        """
        assert self._ttl is not None
        every = max(1, self._ttl // _SWEEPS)
        for window, index in self._indexes.items():
            phase = np.arange(len(index)) * every // len(index)
            named = np.flatnonzero(index.earliest <= (at_ms if prompt else (at_ms - phase) // every * every + phase))
            for some in _batch_buckets(index, named):
                rows, bucket = self._buckets.fetch(window, index, some)
                over = rows.column(LAST).to_numpy() + self._ttl <= at_ms
                if over.any():
                    yield rows.filter(pa.array(over))
                rows, bucket = rows.filter(pa.array(~over)), bucket[~over]
                due = self._due(rows) <= at_ms if self._due is not None and rows.num_rows else np.zeros(0, np.bool_)
                if due.any():
                    changed = rows.filter(pa.array(due))
                    states = settled(changed)
                    there = has_state(states)
                    columns = [*changed.columns[:2], *states.columns]
                    kept = pa.RecordBatch.from_arrays(columns, schema=self.schema).filter(pa.array(there))
                    rows = pa.concat_batches([rows.filter(pa.array(~due)), kept])
                    bucket = np.concatenate([bucket[~due], bucket[due][there]])
                self._buckets.keep(window, index, rows, bucket, some)
                self._changed = True


def _batch_buckets(index: BucketIndex, named: NDArray[np.int64], most: int = _AT_ONCE) -> Iterator[NDArray[np.int64]]:
    """Buckets, at most ``most`` at a time, and of at most ``_BYTES_AT_ONCE`` bytes unless it is a single one."""
    ends, start = np.cumsum(index.size[named]), 0
    while start < len(named):
        before = ends[start - 1] if start else 0
        within = int(np.searchsorted(ends, before + _BYTES_AT_ONCE, side="right"))
        stop = min(max(within, start + 1), start + most)
        yield named[start:stop]
        start = stop


def _list_columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema if field.name not in (KEY, LAST))
