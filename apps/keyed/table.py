"""A table of states: one row a key, in buckets; what is fetched, changed and stored is whole buckets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.keyed import buckets
from unskew.apps.keyed.bins import KEY, LAST, Bins, rows_of
from unskew.apps.keyed.buckets import Directory, Shelf, address
from unskew.apps.keyed.calls import StateFault
from unskew.apps.keyed.store import Store
from unskew.grouping.keys import Keys, encode, hash_keys

#: The bucket that says what is in the others.
DIRECTORY = -1
_AT_ONCE = 256  # buckets
_SWEEPS = 16  # times a TTL that a bucket is looked through for what has expired


@dataclass(frozen=True)
class Touched:
    """Buckets that have been fetched for k keys.

    Attributes
    ----------
    keys : Keys
        The k keys, all of which occur.
    rows : RecordBatch
        All rows of the buckets.
    bucket : int64[rows]
        Which they were in.
    at : int32[k]
        The row of each key, −1: it has none.

    """

    keys: Keys
    rows: pa.RecordBatch
    bucket: NDArray[np.int64]
    at: NDArray[np.int32]


class Table:
    """The states of one work at one worker.

    Parameters
    ----------
    store : Store
        Where they lie.
    number : int
        The table's among those of its worker.
    state : Schema
        A state's columns.
    key : DataType
        The keys' type.
    ttl_ms : int, optional
        How long after its last tuple a key expires.

    Raises
    ------
    StateFault
        What lies there has other columns.

    """

    def __init__(self, store: Store, number: int, state: pa.Schema, key: pa.DataType, ttl_ms: int | None) -> None:
        self._store = store
        self._number = number
        self._ttl = ttl_ms
        self.state = state
        self.schema = pa.schema([pa.field(KEY, key), pa.field(LAST, pa.int64()), *state])
        self._bins = Bins(store, number, self.schema, ttl_ms)
        found = store.get((number, 0, DIRECTORY))
        self._directory = Directory.read(found) if found else Directory(self.schema, {})
        self._shelves = self._directory.shelves
        self._changed = found is None
        if self._directory.schema != self.schema:
            raise StateFault(
                f"the checkpoint's states have the columns {_said(self._directory.schema)}, the work's "
                f"{_said(self.schema)}: give the same work, or another checkpoint"
            )

    def empty(self) -> pa.RecordBatch:
        """No rows."""
        return self._bins.empty()

    @property
    def windows(self) -> list[int]:
        """The windows that have states, oldest first."""
        return sorted(self._shelves)

    @property
    def keys(self) -> int:
        """The number of states."""
        return sum(int(shelf.keys.sum()) for shelf in self._shelves.values())

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(int(shelf.size.sum()) for shelf in self._shelves.values())

    def close(self) -> None:
        """Store what is known of the buckets, if it has changed."""
        if self._changed:
            self._store.put((self._number, 0, DIRECTORY), self._directory.write())

    def touch(self, window: int, keys: Keys) -> Touched:
        """Fetch the buckets of these keys: O(keys in them)."""
        shelf = self._shelves.get(window)
        n = len(shelf) if shelf is not None else self._directory.usual
        named = np.unique(address(keys.hashes, n))
        rows, bucket = self._bins.fetch(window, shelf, named)
        return Touched(keys, rows, bucket, rows_of(keys.distinct, rows))

    def put(self, window: int, touched: Touched, last: NDArray[np.int64], states: pa.RecordBatch) -> None:
        """Store the keys' new states; one that is null throughout is no state.

        Raises
        ------
        StateFault
            One is larger than ``bins.LARGEST_STATE``.

        """
        shelf = self._shelves.get(window)
        if shelf is None:
            shelf = self._shelves[window] = Shelf.empty(self._directory.usual)
        self._changed = True
        columns = [touched.keys.distinct, pa.array(last), *states.columns]
        changed = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        there = known(states)
        replaced = np.zeros(touched.rows.num_rows, np.bool_)
        replaced[touched.at[touched.at >= 0]] = True
        rows = pa.concat_batches([touched.rows.filter(pa.array(~replaced)), changed.filter(pa.array(there))])
        new = address(touched.keys.hashes, len(shelf))
        bucket = np.concatenate([touched.bucket[~replaced], new[there]])
        fetched = np.unique(np.concatenate([touched.bucket, new]))
        others = np.setdiff1d(np.arange(len(shelf)), fetched, assume_unique=True)
        keys = rows.num_rows + int(shelf.keys[others].sum())
        wanted = buckets.wanted(len(shelf), keys, rows.nbytes + int(shelf.size[others].sum()))
        if wanted != len(shelf):
            missing = np.setdiff1d(buckets.moved(len(shelf), wanted), fetched)
            more, _ = self._bins.fetch(window, shelf, missing)
            rows = pa.concat_batches([rows, more])
            for gone in range(wanted, len(shelf)):
                if shelf.keys[gone]:
                    self._bins.remove(window, gone)
            fetched = np.unique(np.concatenate([fetched, missing, np.arange(len(shelf), wanted)]))
            fetched = fetched[fetched < wanted]
            shelf = self._shelves[window] = shelf.resized(wanted)
            self._directory.usual = wanted
            bucket = address(hash_keys(rows.column(KEY)), wanted)
        self._bins.keep(window, shelf, rows, bucket, fetched)

    def take(self, window: int) -> pa.RecordBatch:
        """All rows of a window, which is then forgotten."""
        shelf = self._shelves.pop(window)
        self._changed = True
        full = np.flatnonzero(shelf.keys).tolist()
        rows = pa.concat_batches([self._bins.empty(), *(self._bins.read(window, bucket) for bucket in full)])
        for bucket in full:
            self._bins.remove(window, bucket)
        return rows

    def take_in(self, window: int, rows: pa.RecordBatch) -> None:
        """Put rows of other tables among this one's, as they are.

        Raises
        ------
        StateFault
            This one has a state of such a key already.

        """
        keys = encode(rows.column(KEY))
        touched = self.touch(window, keys)
        if (touched.at >= 0).any() or len(keys.distinct) < len(rows):
            key = keys.distinct[int(np.argmax(touched.at))].as_py()
            raise StateFault(f"key {key!r} comes from another worker, and has a state here already")
        row = np.empty(len(rows), np.int64)
        row[keys.codes] = np.arange(len(rows))
        ordered = rows.take(pa.array(row))
        self.put(window, touched, ordered.column(LAST).to_numpy(), ordered.select(self.state.names))

    def hand_out(
        self, to: Callable[[NDArray[np.uint64]], NDArray[np.int32]], among: NDArray[np.uint64] | None
    ) -> Iterator[tuple[int, pa.RecordBatch, NDArray[np.int32]]]:
        """The rows, by window, of the keys that leave, which are then forgotten; and where each goes.

        Parameters
        ----------
        to : function
            Hashes of keys, uint64[k] → to whom they go, int32[k]; −1: to nobody.
        among : uint64[h], optional
            The hashes that it can be: only their buckets are read. None: all are.

        """
        for window, shelf in self._shelves.items():
            named = np.arange(len(shelf)) if among is None else np.unique(address(among, len(shelf)))
            named = named[shelf.keys[named] > 0]
            for start in range(0, len(named), _AT_ONCE):
                rows, bucket = self._bins.fetch(window, shelf, named[start : start + _AT_ONCE])
                receiver = to(hash_keys(rows.column(KEY)))
                gone = receiver >= 0
                if gone.any():
                    yield window, rows.filter(pa.array(gone)), receiver[gone]
                    changed = np.unique(bucket[gone])
                    rest = ~gone & np.isin(bucket, changed)
                    self._bins.keep(window, shelf, rows.filter(pa.array(rest)), bucket[rest], changed)
                    self._changed = True

    def expired(self, at_ms: int) -> pa.RecordBatch:
        """Rows whose TTL is over at that time, which are then forgotten, of those buckets that are due.

        A bucket is looked through a few times a TTL, each at a moment of its own: what has expired leaves some TTL / 16
        later at most, and a batch needn't look through all of them.
        """
        gone = [self._bins.empty()]
        assert self._ttl is not None
        every = sweep_ms(self._ttl)
        for window, shelf in self._shelves.items():
            phase = np.arange(len(shelf)) * every // len(shelf)
            due = np.flatnonzero(shelf.earliest <= (at_ms - phase) // every * every + phase)
            for bucket in due.tolist():
                rows = self._bins.read(window, bucket)
                over = rows.column(LAST).to_numpy() + self._ttl <= at_ms
                gone.append(rows.filter(pa.array(over)))
                rest = rows.filter(pa.array(~over))
                self._bins.keep(window, shelf, rest, np.full(rest.num_rows, bucket), np.array([bucket]))
            self._changed |= bool(len(due))
        return pa.concat_batches(gone)


def sweep_ms(ttl_ms: int) -> int:
    """How late a state whose TTL is over may leave, ms."""
    return max(1, ttl_ms // _SWEEPS)


def _said(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema if field.name not in (KEY, LAST))


def known(states: pa.RecordBatch) -> NDArray[np.bool_]:
    """Which of n states there are, bool[n]: those that aren't null throughout."""
    there = np.zeros(states.num_rows, np.bool_)
    for column in states.columns:
        there |= column.is_valid().to_numpy(zero_copy_only=False)
    return there
