"""Frequent keys of a stream in bounded memory: Misra-Gries counters, decremented in bulk (as Apache DataSketches does).

Guarantees, for N keys counted with m counters: a key's counter is at most its true count, and at least the true count −
2N/m. So every key with a share above 2/m has a counter, and none is ever taken for more frequent than it is.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray


class Frequent(NamedTuple):
    """m counters with their keys, 16 bytes each, and the hash table that finds a key's."""

    key: NDArray[np.uint64]  # [m]
    counter: NDArray[np.int64]  # [m]
    size: NDArray[np.int64]  # [2], counters in use; how much has been taken off each counter so far at most
    table: NDArray[np.int32]  # [power of 2 ≥ 2·m], open addressing: slot or -1


def frequent(counters: int) -> Frequent:
    """Nothing counted yet."""
    return Frequent(
        np.zeros(counters, np.uint64),
        np.zeros(counters, np.int64),
        np.zeros(2, np.int64),
        np.full(1 << (2 * counters - 1).bit_length(), -1, np.int32),
    )


@njit(cache=True)
def count(sketch: Frequent, key: np.uint64) -> int:
    """Count a key; the count that it has for sure. Amortised O(1)."""
    mask = len(sketch.table) - 1
    at = np.int64(key) & mask
    while sketch.table[at] >= 0:
        slot: int = sketch.table[at]
        if sketch.key[slot] == key:
            sketch.counter[slot] += 1
            counted: int = sketch.counter[slot]
            return counted
        at = (at + 1) & mask
    if sketch.size[0] == len(sketch.key):
        _take_off_median(sketch)
    slot = sketch.size[0]
    sketch.key[slot] = key
    sketch.counter[slot] = 1
    sketch.size[0] += 1
    _enter(sketch, slot)
    return 1


@njit(cache=True)
def rebuild(sketch: Frequent) -> None:
    """Make the hash table anew from the counters."""
    sketch.table[:] = -1
    for slot in range(sketch.size[0]):
        _enter(sketch, slot)


@njit(cache=True)
def _take_off_median(sketch: Frequent) -> None:
    """Take the median off every counter and drop those that reach 0: at least half of them."""
    median = np.partition(sketch.counter, len(sketch.counter) // 2)[len(sketch.counter) // 2]
    kept = 0
    for slot in range(len(sketch.key)):
        if sketch.counter[slot] > median:
            sketch.key[kept] = sketch.key[slot]
            sketch.counter[kept] = sketch.counter[slot] - median
            kept += 1
    sketch.key[kept:] = 0
    sketch.counter[kept:] = 0
    sketch.size[0] = kept
    sketch.size[1] += median
    rebuild(sketch)


@njit(cache=True)
def _enter(sketch: Frequent, slot: int) -> None:
    mask = len(sketch.table) - 1
    at = np.int64(sketch.key[slot]) & mask
    while sketch.table[at] >= 0:
        at = (at + 1) & mask
    sketch.table[at] = slot
