"""Stores states in buckets: a key's bucket, the number of buckets, and the store of blobs.

A bucket is read and written as a whole, so it should have at most one or two thousand keys; but not fewer, because
reading and writing one are two calls to the JVM, of some 100 µs each. The number of buckets grows with the keys by
linear hashing: each new bucket splits one other, and no other key moves.

References
----------
W. Litwin, Linear hashing: a new tool for file and table addressing, VLDB 1980.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.operators.errors import StateFault
from unskew.grouping.keys import hash_keys
from unskew.shown_keys import quote_key

#: n rows of a table → when each is due, int64[n], ms since the epoch, or ``NEVER``.
Due: TypeAlias = Callable[[pa.RecordBatch], NDArray[np.int64]]
#: (table, window, bucket number): windows by start (ms), 0 if states outlive windows.
Address: TypeAlias = tuple[int, int, int]


class Store(Protocol):
    """A map of blobs. A call costs a round trip to the JVM (some 100 µs)."""

    def get(self, address: Address) -> bytes | None:
        """The blob at an address. None: there is none."""
        ...

    def put(self, address: Address, blob: bytes) -> None:
        """Write a blob to an address."""
        ...

    def remove(self, address: Address) -> None:
        """Remove the blob at an address."""
        ...


class MemoryStore:
    """A dictionary, for tests and for mergers that keep nothing."""

    def __init__(self) -> None:
        self.blobs: dict[Address, bytes] = {}

    def get(self, address: Address) -> bytes | None:
        """The blob at an address. None: there is none."""
        return self.blobs.get(address)

    def put(self, address: Address, blob: bytes) -> None:
        """Write a blob to an address."""
        self.blobs[address] = blob

    def remove(self, address: Address) -> None:
        """Remove the blob at an address."""
        self.blobs.pop(address, None)


class BufferedStore:
    """A write-back buffer over a store: a blob that changes twice in a batch is read and written once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed: dict[Address, bytes | None] = {}

    def get(self, address: Address) -> bytes | None:
        """The blob that will be at an address after the flush."""
        return self._changed[address] if address in self._changed else self._store.get(address)

    def put(self, address: Address, blob: bytes) -> None:
        """Write a blob to an address."""
        self._changed[address] = blob

    def remove(self, address: Address) -> None:
        """Remove the blob at an address."""
        self._changed[address] = None

    def flush(self) -> None:
        """Write the changed blobs."""
        for address, blob in self._changed.items():
            if blob is None:
                self._store.remove(address)
            else:
                self._store.put(address, blob)
        self._changed = {}


class SparkStore:
    """Spark's ``MapState`` in a group of ``transformWithState``: a map from three numbers to a blob."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, address: Address) -> bytes | None:
        """The blob at an address. If there is none, None, and Spark logs a warning."""
        found = self._state.getValue(address)
        return None if found is None else bytes(found[0])

    def put(self, address: Address, blob: bytes) -> None:
        """Write a blob to an address."""
        self._state.updateValue(address, (blob,))

    def remove(self, address: Address) -> None:
        """Remove the blob at an address."""
        self._state.removeKey(address)


#: The most keys and bytes that a bucket should have, because all are fetched with any of its keys.
KEYS, BYTES = 1600, 128 << 10
#: The time of a key that is never due, and of a bucket in which nothing expires.
NEVER = np.iinfo(np.int64).max

_SHRINK = 8  # the number of buckets shrinks at so many times the number needed


def choose_buckets(hashes: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """The bucket of each key among n buckets, from its hash: int64[k].

    >>> choose_buckets(np.array([0, 5, 6, 7], np.uint64), 6).tolist()
    [0, 5, 2, 3]
    """
    low = 1 << (n.bit_length() - 1)
    bucket = (hashes & np.uint64(2 * low - 1)).astype(np.int64)
    return np.where(bucket >= n, bucket & (low - 1), bucket)


def find_changed_buckets(n: int, m: int) -> NDArray[np.int64]:
    """The buckets that lose or get keys if n buckets become m.

    >>> find_changed_buckets(4, 6).tolist(), find_changed_buckets(6, 4).tolist()
    ([0, 1], [0, 1, 4, 5])
    """
    parents = choose_buckets(np.arange(min(n, m), max(n, m)).astype(np.uint64), min(n, m))
    return np.unique(np.concatenate([parents, np.arange(m, n)]))


def choose_bucket_count(n: int, keys: int, size: int) -> int:
    """The number of buckets for so many keys and bytes, if there are n now."""
    enough = min(max(math.ceil(keys / KEYS), math.ceil(size / BYTES)), max(keys, 1))
    return max(n, enough) if enough * _SHRINK > n else max(2 * enough, 1)


@dataclass
class BucketIndex:
    """Metadata of n buckets."""

    #: int64[n]: The number of keys and bytes, and the first time at which a key expires or is due (ms since the epoch).
    keys: NDArray[np.int64]
    size: NDArray[np.int64]
    earliest: NDArray[np.int64]

    @classmethod
    def empty(cls, n: int) -> "BucketIndex":
        """The index of n empty buckets."""
        return cls(np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, NEVER))

    def __len__(self) -> int:
        return len(self.keys)

    def resize(self, m: int) -> "BucketIndex":
        """The index of m buckets, in which those whose keys change are still empty."""
        new = BucketIndex.empty(m)
        kept = min(m, len(self))
        for own, old in (new.keys, self.keys), (new.size, self.size), (new.earliest, self.earliest):
            own[:kept] = old[:kept]
        return new


@dataclass
class Directory:
    """Metadata of a table."""

    schema: pa.Schema  #: The schema of its rows, which buckets are written without.
    indexes: dict[int, BucketIndex]  #: Window → its buckets.
    usual: int = 1  #: The initial number of buckets of a window.

    def write(self) -> bytes:
        """The directory as a blob."""
        lengths = [len(index) for index in self.indexes.values()]
        windows = np.repeat(np.array(list(self.indexes), np.int64), lengths)
        parts = [
            np.concatenate([np.empty(0, np.int64), *(getattr(index, name) for index in self.indexes.values())])
            for name in _INDEXES.names[1:]
        ]
        batch = pa.record_batch([pa.array(part) for part in (windows, *parts)], schema=_INDEXES)
        schema = self.schema.serialize().to_pybytes()
        return struct.pack("<qq", self.usual, len(schema)) + schema + batch.serialize().to_pybytes()

    @classmethod
    def read(cls, blob: bytes) -> "Directory":
        """Parse a blob of ``write``."""
        usual, length = struct.unpack_from("<qq", blob)
        schema = pa.ipc.read_schema(pa.py_buffer(blob[16 : 16 + length]))
        batch = pa.ipc.read_record_batch(pa.py_buffer(blob[16 + length :]), _INDEXES)
        window, *parts = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
        starts = np.flatnonzero(np.diff(window, prepend=-1)).tolist()
        indexes = {
            int(window[start]): BucketIndex(*(part[start:stop].copy() for part in parts))
            for start, stop in zip(starts, [*starts[1:], len(window)], strict=False)
        }
        return cls(schema, indexes, usual)


_INDEXES = pa.schema([(name, pa.int64()) for name in ("window", "keys", "size", "earliest")])

#: The columns before the state's: the key, and the time of its last tuple (ms since the epoch).
KEY, LAST = "__key", "__last"
#: The most bytes of a state, because a bucket is read and written as a whole.
LARGEST_STATE = 32 << 20


class BucketStore:
    """The buckets of one table of a store of blobs.

    A row expires ``ttl_ms`` after its last tuple. ``due`` says when each of n rows is due before it expires: int64[n],
    ms since the epoch.
    """

    def __init__(
        self, store: Store, number: int, schema: pa.Schema, ttl_ms: int | None, due: Due | None = None
    ) -> None:
        self._store = store
        self._number = number
        self._schema = schema
        self._ttl = ttl_ms
        self._due = due

    def empty(self) -> pa.RecordBatch:
        """No rows."""
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self._schema], schema=self._schema)

    def read(self, window: int, bucket: int) -> pa.RecordBatch:
        """The rows of a bucket that isn't empty."""
        blob = self._store.get((self._number, window, bucket))
        assert blob is not None, f"bucket {bucket} of window {window} is gone"
        return pa.ipc.read_record_batch(pa.py_buffer(blob), self._schema)

    def fetch(
        self, window: int, index: BucketIndex | None, named: NDArray[np.int64]
    ) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        """The rows of some buckets, and each row's bucket."""
        full = [] if index is None else [int(bucket) for bucket in named if index.keys[bucket]]
        parts = [self.read(window, bucket) for bucket in full]
        of = np.repeat(np.array(full, np.int64), [part.num_rows for part in parts])
        return pa.concat_batches([self.empty(), *parts]), of

    def remove(self, window: int, bucket: int) -> None:
        """Remove a bucket that isn't empty."""
        self._store.remove((self._number, window, bucket))

    def keep(
        self,
        window: int,
        index: BucketIndex,
        rows: pa.RecordBatch,
        bucket: NDArray[np.int64],
        fetched: NDArray[np.int64],
    ) -> None:
        """Store rows in their buckets, and remove buckets of ``fetched`` without a row.

        Raises ``StateFault`` if a state is larger than ``LARGEST_STATE``.
        """
        narrow = bucket.astype(np.uint16) if len(index) <= 1 << 16 else bucket  # radix sort, if it fits
        order = np.argsort(narrow, kind="stable")
        ordered, bucket = rows.take(pa.array(order)), bucket[order]
        over = self._over(ordered)
        bounds = np.searchsorted(bucket, [fetched, fetched + 1])
        for b, start, stop in zip(fetched.tolist(), *bounds.tolist(), strict=True):
            if start < stop:
                blob = self._write(ordered.slice(start, stop - start))
                self._store.put((self._number, window, b), blob)
                index.size[b] = len(blob)
                index.earliest[b] = int(over[start:stop].min())
            elif index.keys[b]:
                self.remove(window, b)
                index.size[b], index.earliest[b] = 0, NEVER
            index.keys[b] = stop - start

    def store(
        self,
        directory: Directory,
        window: int,
        rows: pa.RecordBatch,
        bucket: NDArray[np.int64],
        fetched: NDArray[np.int64],
    ) -> None:
        """Store rows in fetched buckets, as ``keep``, and adapt the number of buckets to the size."""
        index = directory.indexes[window]
        others = np.setdiff1d(np.arange(len(index)), fetched, assume_unique=True)
        keys = rows.num_rows + int(index.keys[others].sum())
        wanted = choose_bucket_count(len(index), keys, rows.nbytes + int(index.size[others].sum()))
        if wanted != len(index):
            missing = np.setdiff1d(find_changed_buckets(len(index), wanted), fetched)
            more, _ = self.fetch(window, index, missing)
            rows = pa.concat_batches([rows, more])
            for gone in range(wanted, len(index)):
                if index.keys[gone]:
                    self.remove(window, gone)
            fetched = np.unique(np.concatenate([fetched, missing, np.arange(len(index), wanted)]))
            fetched = fetched[fetched < wanted]
            index = directory.indexes[window] = index.resize(wanted)
            directory.usual = wanted
            bucket = choose_buckets(hash_keys(rows.column(KEY)), wanted)
        self.keep(window, index, rows, bucket, fetched)

    def _over(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """When each row expires, or is due before that."""
        if self._ttl is None:
            return np.full(rows.num_rows, NEVER)
        ends = rows.column(LAST).to_numpy() + self._ttl
        return ends if self._due is None or not len(ends) else np.minimum(ends, self._due(rows))

    def _write(self, rows: pa.RecordBatch) -> bytes:
        blob = rows.serialize()
        if blob.size > LARGEST_STATE:
            _require_small_rows(rows)
        return blob.to_pybytes()


def _require_small_rows(rows: pa.RecordBatch) -> None:
    """Raise ``StateFault`` if a row is larger than ``LARGEST_STATE``. Small halves aren't searched."""
    if rows.nbytes <= LARGEST_STATE:
        return
    if rows.num_rows == 1:
        key = quote_key(rows.column(KEY)[0].as_py())
        raise StateFault(
            f"the state of key {key} has {rows.nbytes:,} bytes; valid: {LARGEST_STATE:,} at "
            "most (keep a summary, or give it a shorter window or TTL)"
        )
    half = rows.num_rows // 2
    for start, stop in ((0, half), (half, rows.num_rows)):
        _require_small_rows(rows.slice(start, stop - start))


def find_rows(keys: pa.Array, rows: pa.RecordBatch) -> NDArray[np.int32]:
    """The row of each of k distinct keys, int32[k]; −1 if it has none."""
    # Rows are looked up among the keys, not vice versa: there are fewer keys, so the hash table is smaller.
    found = pc.call_function("index_in", [rows.column(KEY)], pc.SetLookupOptions(keys))
    at = np.full(len(keys), -1, np.int32)
    at[found.drop_null().to_numpy()] = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return at
