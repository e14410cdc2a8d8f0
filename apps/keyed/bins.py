"""Buckets as they lie in a store: each is its rows, as Arrow writes them without their schema."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.keyed.buckets import NEVER, Shelf
from unskew.apps.keyed.calls import StateFault
from unskew.apps.keyed.store import Store

#: The columns of a row before those of the state: whose it is, and the time of its last tuple (ms since the epoch).
KEY, LAST = "__key", "__last"
#: A state of more bytes is refused: a bucket is read and written whole.
LARGEST_STATE = 32 << 20


class Bins:
    """The buckets of one table.

    Parameters
    ----------
    store : Store
        Where they lie.
    number : int
        The table's.
    schema : Schema
        Of its rows.
    ttl_ms : int, optional
        How long after its last tuple a row expires.

    """

    def __init__(self, store: Store, number: int, schema: pa.Schema, ttl_ms: int | None) -> None:
        self._store = store
        self._number = number
        self._schema = schema
        self._ttl = ttl_ms

    def empty(self) -> pa.RecordBatch:
        """No rows."""
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self._schema], schema=self._schema)

    def read(self, window: int, bucket: int) -> pa.RecordBatch:
        """The rows of a bucket that has some."""
        blob = self._store.get((self._number, window, bucket))
        assert blob is not None, f"bucket {bucket} of window {window} is gone"
        return pa.ipc.read_record_batch(pa.py_buffer(blob), self._schema)

    def fetch(
        self, window: int, shelf: Shelf | None, named: NDArray[np.int64]
    ) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        """The rows of some buckets, and which each is in."""
        full = [] if shelf is None else [int(bucket) for bucket in named if shelf.keys[bucket]]
        parts = [self.read(window, bucket) for bucket in full]
        of = np.repeat(np.array(full, np.int64), [part.num_rows for part in parts])
        return pa.concat_batches([self.empty(), *parts]), of

    def remove(self, window: int, bucket: int) -> None:
        """Let a bucket that has rows be empty."""
        self._store.remove((self._number, window, bucket))

    def keep(
        self,
        window: int,
        shelf: Shelf,
        rows: pa.RecordBatch,
        bucket: NDArray[np.int64],
        fetched: NDArray[np.int64],
    ) -> None:
        """Store rows in their buckets; those of ``fetched`` that get none are empty now.

        Raises
        ------
        StateFault
            A state is larger than ``LARGEST_STATE``.

        """
        narrow = bucket.astype(np.uint16) if len(shelf) <= 1 << 16 else bucket  # a radix sort, where it fits
        order = np.argsort(narrow, kind="stable")
        ordered, bucket = rows.take(pa.array(order)), bucket[order]
        last = ordered.column(LAST).to_numpy()
        bounds = np.searchsorted(bucket, [fetched, fetched + 1])
        for b, start, stop in zip(fetched.tolist(), *bounds.tolist(), strict=True):
            if start < stop:
                blob = self._write(ordered.slice(start, stop - start))
                self._store.put((self._number, window, b), blob)
                shelf.size[b] = len(blob)
                shelf.earliest[b] = NEVER if self._ttl is None else int(last[start:stop].min()) + self._ttl
            elif shelf.keys[b]:
                self.remove(window, b)
                shelf.size[b], shelf.earliest[b] = 0, NEVER
            shelf.keys[b] = stop - start

    def _write(self, rows: pa.RecordBatch) -> bytes:
        blob = rows.serialize()
        if blob.size > LARGEST_STATE:
            for row in range(rows.num_rows):
                size = rows.slice(row, 1).nbytes
                if size > LARGEST_STATE:
                    key = rows.column(KEY)[row].as_py()
                    raise StateFault(
                        f"the state of key {key!r} has {size:,} bytes; valid: {LARGEST_STATE:,} at most "
                        "(keep a summary, or give it a shorter window or TTL)"
                    )
        return blob.to_pybytes()


def rows_of(keys: pa.Array, rows: pa.RecordBatch) -> NDArray[np.int32]:
    """Which of the rows is that of each of k distinct keys: int32[k], −1 where there is none."""
    # Of each row, which key it is: the table to look up in is that of the keys, of which there are fewer.
    found = pc.call_function("index_in", [rows.column(KEY)], pc.SetLookupOptions(keys))
    at = np.full(len(keys), -1, np.int32)
    at[found.drop_null().to_numpy()] = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return at
