"""How often each key was sent: the summary's statistics, and what tests compare results with.

``KeyCounts`` is a table of the keys in bounded memory. ``KmvSketch`` estimates their number once the table is full.
"""

from collections.abc import Iterable
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import hash_keys
from unskew.grouping.slots import enter_slot, enter_slots, find_slot, slot_table
from unskew.producers.datasets.interface import Block


class KeyCounts:
    """Counts of a stream's keys, in tuples, and in what the messages count, such as clicks or views.

    The counts are exact up to ``capacity`` distinct keys. Beyond that, a full table drops the half with the fewest
    tuples. A key's count of tuples is then too low by at most ``error``, and ``distinct`` is an estimate. A key takes
    O(1) time. A key in the table takes about 70 bytes, and the text of its name.

    Parameters
    ----------
    capacity : int
        The largest number of keys in the table, at least 2.

    Attributes
    ----------
    total : int
        The number of tuples: every occurrence of a key is one.
    error : int
        The largest amount by which a key's tuples may be too low. 0: the counts are exact.

    Examples
    --------
    >>> counts = KeyCounts()
    >>> counts.add(pa.array(["tr", "de", "tr"]), np.array([5, 7, 1]))
    >>> counts.top(1), counts.total, counts.distinct
    ([('tr', 2)], 3, 2)
    >>> counts.sums()
    {'tr': 6, 'de': 7}

    """

    def __init__(self, capacity: int = 1 << 20) -> None:
        if capacity < 2:
            raise ValueError(f"capacity is {capacity}; valid: at least 2 (keys)")
        self.capacity = capacity
        self.total = 0
        self.error = 0
        self._used = 0
        self._hashes = np.empty(0, np.uint64)
        self._tuples = np.empty(0, np.int64)
        self._sums = np.empty(0, np.int64)
        self._table = np.empty(0, np.int32)
        self._names: list[pa.Array] = []
        self._distinct = KmvSketch()

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> Self:
        """The counts of all keys of some blocks."""
        counts = cls()
        for block in blocks:
            counts.add(block.keys, block.counts)
        return counts

    def add(self, keys: pa.Array, counts: NDArray[np.int64] | None = None) -> None:
        """Count these keys (strings, or a dictionary of them). ``counts`` is what each key adds. None: 1."""
        coded = keys if isinstance(keys, pa.DictionaryArray) else keys.dictionary_encode()
        codes, distinct = coded.indices.to_numpy(), coded.dictionary
        tuples = np.bincount(codes, minlength=len(distinct))
        sums = tuples
        if counts is not None:
            sums = np.zeros(len(distinct), np.int64)
            np.add.at(sums, codes, counts)  # not bincount's weights: they are floating-point numbers
        self.total += len(keys)
        seen = np.flatnonzero(tuples)  # a dictionary may hold more than is used
        for start in range(0, len(seen), self.capacity // 2):
            part = seen[start : start + self.capacity // 2]
            self._enter(distinct.take(pa.array(part)), tuples[part], sums[part])

    @property
    def distinct(self) -> int:
        """The number of keys. If it is an estimate, it is within a percent or two."""
        return self._distinct.estimate() if self.error else self._used

    def top(self, n: int) -> list[tuple[str, int]]:
        """The ``n`` keys with the most tuples, and their tuples, most first. Equal counts are ordered by key."""
        tuples = self._tuples[: self._used]
        if not len(tuples):
            return []
        least = np.partition(tuples, -min(n, len(tuples)))[-min(n, len(tuples))]
        rows = self._pairs(tuples, np.flatnonzero(tuples >= least))
        return sorted(rows, key=lambda row: (-row[1], row[0]))[:n]

    def frequencies(self) -> NDArray[np.int64]:
        """The tuples of each key, most first, int64[distinct]. If the table was full, only of the keys in it."""
        return np.sort(self._tuples[: self._used])[::-1]

    def tuples(self) -> dict[str, int]:
        """Every key's tuples. Raises ``ValueError`` if the table was full, so not all keys are in it."""
        return self._all(self._tuples)

    def sums(self) -> dict[str, int]:
        """Every key's summed counts, which the topology's results must equal. Raises as ``tuples`` does."""
        return self._all(self._sums)

    def _enter(self, keys: pa.Array, tuples: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
        hashes = hash_keys(keys)
        self._distinct.add(hashes)
        self._make_room(len(keys))
        slots, new = _find_slots(self._table, self._hashes, self._used, hashes)
        self._names.append(keys.filter(pa.array(new)))
        self._used += int(new.sum())
        np.add.at(self._tuples, slots, tuples)  # a dictionary may hold a key twice
        np.add.at(self._sums, slots, sums)

    def _make_room(self, keys: int) -> None:
        if self._used + keys <= len(self._hashes):
            return
        if self._used + keys > self.capacity:
            self._forget(self.capacity // 2)
        size = min(self.capacity, max(2 * (self._used + keys), 1024))
        more = size - self._used
        self._hashes = np.append(self._hashes[: self._used], np.zeros(more, np.uint64))
        self._tuples = np.append(self._tuples[: self._used], np.zeros(more, np.int64))
        self._sums = np.append(self._sums[: self._used], np.zeros(more, np.int64))
        self._table = slot_table(size)
        enter_slots(self._table, self._hashes, self._used)

    def _forget(self, keep: int) -> None:
        order = np.argsort(self._tuples[: self._used], kind="stable")[::-1]
        kept, dropped = np.sort(order[:keep]), order[keep:]
        if len(dropped):
            self.error += int(self._tuples[dropped].max())
        self._names = pa.chunked_array(self._names, pa.string()).take(pa.array(kept)).chunks
        self._hashes, self._tuples, self._sums = self._hashes[kept], self._tuples[kept], self._sums[kept]
        self._used = len(kept)

    def _pairs(self, column: NDArray[np.int64], slots: NDArray[np.int64]) -> list[tuple[str, int]]:
        names = pa.chunked_array(self._names, pa.string()).take(pa.array(slots)).to_pylist()
        return list(zip(names, column[slots].tolist(), strict=True))

    def _all(self, column: NDArray[np.int64]) -> dict[str, int]:
        if self.error:
            raise ValueError(f"more than {self.capacity:,} keys: only the most frequent ones are known")
        return dict(self._pairs(column[: self._used], np.arange(self._used)))


_RANGE = 2.0**64


class KmvSketch:
    """An estimate of the number of keys from the k smallest hashes (KMV).

    If these are in the lowest share s of all hashes, there are about k / s keys. Below ``size`` keys the number is
    exact. Beyond that the standard error is 1 / √(size - 2), which is 0.8 % for the default.

    References
    ----------
    Bar-Yossef et al.: Counting Distinct Elements in a Data Stream, RANDOM 2002, Section 2; Beyer et al.: On Synopses
    for Distinct-Value Estimation under Multiset Operations, SIGMOD 2007 (the unbiased estimate).

    """

    def __init__(self, size: int = 1 << 14) -> None:
        self._size = size
        self._smallest = np.empty(0, np.uint64)

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Add the hashes of some keys, uint64[n]."""
        if len(self._smallest) == self._size:
            hashes = hashes[hashes < self._smallest[-1]]
        if len(hashes):
            self._smallest = np.unique(np.concatenate([self._smallest, hashes]))[: self._size]

    def estimate(self) -> int:
        """The estimated number of distinct hashes."""
        if len(self._smallest) < self._size:
            return len(self._smallest)
        return round((self._size - 1) * _RANGE / (float(self._smallest[-1]) + 1))


@kernel
def _find_slots(
    table: NDArray[np.int32], entered: NDArray[np.uint64], used: int, hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The slot of each hash, int32[k], and whether the hash is new, bool[k]; new ones get slots from ``used`` on."""
    slots = np.empty(len(hashes), np.int32)
    new = np.zeros(len(hashes), np.bool_)
    for i in range(len(hashes)):
        slot = find_slot(table, entered, hashes[i])
        if slot < 0:
            slot = used
            entered[slot] = hashes[i]
            enter_slot(table, entered, slot)
            used += 1
            new[i] = True
        slots[i] = slot
    return slots, new
