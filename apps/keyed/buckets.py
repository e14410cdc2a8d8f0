"""Buckets: which of a table's blobs a key lies in, and how there come to be more of them.

A bucket is read and written whole, so it should hold no more than a thousand keys or two; each is two calls to the JVM,
of some 100 µs, so it should hold no fewer. Their number grows with the keys by linear hashing: a bucket more splits one
other, and no key of the rest moves.

References
----------
W. Litwin, Linear hashing: a new tool for file and table addressing, VLDB 1980.
"""

import math
import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: Keys and bytes that a bucket should hold: what is fetched with a key that was touched is so much at most.
KEYS, BYTES = 1600, 128 << 10
#: The earliest expiry of a bucket from which nothing expires.
NEVER = np.iinfo(np.int64).max

_SHRINK = 8  # times more buckets than are needed


def address(hashes: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """The bucket of each key among n, by its hash: int64[k].

    >>> address(np.array([0, 5, 6, 7], np.uint64), 6).tolist()
    [0, 5, 2, 3]
    """
    low = 1 << (n.bit_length() - 1)
    place = (hashes & np.uint64(2 * low - 1)).astype(np.int64)
    return np.where(place >= n, place & (low - 1), place)


def moved(n: int, m: int) -> NDArray[np.int64]:
    """The buckets among n whose keys may lie elsewhere among m, and those there that get some.

    >>> moved(4, 6).tolist(), moved(6, 4).tolist()
    ([0, 1], [0, 1, 4, 5])
    """
    parents = address(np.arange(min(n, m), max(n, m)).astype(np.uint64), min(n, m))
    return np.unique(np.concatenate([parents, np.arange(m, n)]))


def wanted(n: int, keys: int, size: int) -> int:
    """How many buckets n should become for so many keys and bytes."""
    enough = min(max(math.ceil(keys / KEYS), math.ceil(size / BYTES)), max(keys, 1))
    return max(n, enough) if enough * _SHRINK > n else max(2 * enough, 1)


@dataclass
class Shelf:
    """What is known of n buckets without reading them.

    Attributes
    ----------
    keys, size, earliest : int64[n]
        Keys, bytes, and when the first of the keys expires (ms since the epoch).

    """

    keys: NDArray[np.int64]
    size: NDArray[np.int64]
    earliest: NDArray[np.int64]

    @classmethod
    def empty(cls, n: int) -> "Shelf":
        """Of n empty buckets."""
        return cls(np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, NEVER))

    def __len__(self) -> int:
        return len(self.keys)

    def resized(self, m: int) -> "Shelf":
        """With so many buckets; what moves isn't known yet."""
        new = Shelf.empty(m)
        kept = min(m, len(self))
        new.keys[:kept], new.size[:kept], new.earliest[:kept] = (
            self.keys[:kept], self.size[:kept], self.earliest[:kept],
        )  # fmt: skip
        return new


@dataclass
class Directory:
    """What is known of a table without reading its buckets.

    Attributes
    ----------
    schema : Schema
        Of its rows: buckets are written without it.
    shelves : dict
        Window → its buckets.
    usual : int
        How many buckets a window begins with.

    """

    schema: pa.Schema
    shelves: dict[int, Shelf]
    usual: int = 1

    def write(self) -> bytes:
        """As a blob."""
        lengths = [len(shelf) for shelf in self.shelves.values()]
        windows = np.repeat(np.array(list(self.shelves), np.int64), lengths)
        parts = [
            np.concatenate([np.empty(0, np.int64), *(getattr(shelf, name) for shelf in self.shelves.values())])
            for name in _SHELVES.names[1:]
        ]
        batch = pa.record_batch([pa.array(part) for part in (windows, *parts)], schema=_SHELVES)
        schema = self.schema.serialize().to_pybytes()
        return struct.pack("<qq", self.usual, len(schema)) + schema + batch.serialize().to_pybytes()

    @classmethod
    def read(cls, blob: bytes) -> "Directory":
        """What ``write`` wrote."""
        usual, length = struct.unpack_from("<qq", blob)
        schema = pa.ipc.read_schema(pa.py_buffer(blob[16 : 16 + length]))
        batch = pa.ipc.read_record_batch(pa.py_buffer(blob[16 + length :]), _SHELVES)
        window, *parts = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
        starts = np.flatnonzero(np.diff(window, prepend=-1)).tolist()
        shelves = {
            int(window[start]): Shelf(*(part[start:stop].copy() for part in parts))
            for start, stop in zip(starts, [*starts[1:], len(window)], strict=False)
        }
        return cls(schema, shelves, usual)


_SHELVES = pa.schema([(name, pa.int64()) for name in ("window", "keys", "size", "earliest")])
