"""The compiled part of counting keys."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.slots import enter_slot, find_slot


@kernel
def enter(
    table: NDArray[np.int32], entered: NDArray[np.uint64], used: int, hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The slot of each hash, int32[k], and whether it was given out here, from ``used`` on in this order: bool[k]."""
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
