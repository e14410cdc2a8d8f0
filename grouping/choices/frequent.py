"""Frequent keys of a stream in bounded memory: Misra-Gries counters, decremented in bulk (as Apache DataSketches does).

Guarantees, for N keys counted with m counters: a key's counter is at most its true count, and at least the true count −
2N/m. So every key with a share above 2/m has a counter, and none is ever taken for more frequent than it is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grouping.compiled import kernel
from grouping.slots import enter_slot, enter_slots, slot_table


class Frequent(NamedTuple):
    """m counters with their keys, 16 bytes each, and the hash table that finds a key's."""

    key: NDArray[np.uint64]  # [m]
    counter: NDArray[np.int64]  # [m]
    size: NDArray[np.int64]  # [2], counters in use; how much has been taken off each counter so far at most
    table: NDArray[np.int32]  # see grouping.slots


def frequent(counters: int) -> Frequent:
    """Nothing counted yet."""
    return Frequent(
        np.zeros(counters, np.uint64), np.zeros(counters, np.int64), np.zeros(2, np.int64), slot_table(counters)
    )


@kernel
def begin_to_count(
    key: np.uint64,
    keys: NDArray[np.uint64],
    counters: NDArray[np.int64],
    size: NDArray[np.int64],
    table: NDArray[np.int32],
) -> None:
    """Count a key that has no counter for the first time, in the arrays of a ``Frequent``; amortised O(1)."""
    if size[0] == len(keys):
        _take_off_median(keys, counters, size)
        enter_slots(table, keys, size[0])
    slot: int = size[0]
    keys[slot] = key
    counters[slot] = 1
    size[0] += 1
    enter_slot(table, keys, slot)


@kernel
def _take_off_median(keys: NDArray[np.uint64], counters: NDArray[np.int64], size: NDArray[np.int64]) -> None:
    """Take the median off every counter and drop those that reach 0: at least half of them."""
    median = _median(counters)
    kept = 0
    for slot in range(len(keys)):
        if counters[slot] > median:
            keys[kept] = keys[slot]
            counters[kept] = counters[slot] - median
            kept += 1
    keys[kept:] = 0
    counters[kept:] = 0
    size[0] = kept
    size[1] += median


@kernel
def _median(counters: NDArray[np.int64]) -> int:
    """The upper median; mostly it is a small number, found by counting instead of sorting."""
    how_many = np.zeros(64, np.int64)
    for counter in counters:
        if counter < len(how_many):
            how_many[counter] += 1
    left = len(counters) // 2
    for small in range(len(how_many)):
        if left < how_many[small]:
            return small
        left -= how_many[small]
    median: int = np.sort(counters)[len(counters) // 2]
    return median
