"""A hash table from keys to slots, compiled: open addressing, over the key arrays that schemes keep.

Functions take plain arrays. Numba counts references to a named tuple's fields at each access, which costs more than the
look-up: kernels take the arrays out of their named tuples once, before the loop over tuples.
"""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel


def slot_table(slots: int) -> NDArray[np.int32]:
    """An empty table for that many slots: int32[power of 2 ≥ 2·slots], −1 where there is none."""
    return np.full(1 << max(2 * slots - 1, 1).bit_length(), -1, np.int32)


@kernel
def find_slot(table: NDArray[np.int32], keys: NDArray[np.uint64], key: np.uint64) -> int:
    """The slot with ``keys[slot] == key`` that was entered, or −1."""
    mask = len(table) - 1
    at = np.int64(key) & mask
    while table[at] >= 0 and keys[table[at]] != key:
        at = (at + 1) & mask
    slot: int = table[at]
    return slot


@kernel
def enter_slot(table: NDArray[np.int32], keys: NDArray[np.uint64], slot: int) -> None:
    """Make ``keys[slot]``, which isn't there yet, findable."""
    mask = len(table) - 1
    at = np.int64(keys[slot]) & mask
    while table[at] >= 0:
        at = (at + 1) & mask
    table[at] = slot


@kernel
def enter_slots(table: NDArray[np.int32], keys: NDArray[np.uint64], slots: int) -> None:
    """Make just the keys of the first ``slots`` slots findable."""
    table[:] = -1
    for slot in range(slots):
        enter_slot(table, keys, slot)
