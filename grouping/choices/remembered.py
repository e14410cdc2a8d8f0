"""Where each key went: the routing table that schemes without key splitting can't do without."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.slots import enter_slot, enter_slots, slot_table


class Remembered(NamedTuple):
    """Up to C keys with their workers, in the order they came, and the hash table that finds them.

    12 bytes a key, and 8 to 16 for the table.
    """

    key: NDArray[np.uint64]  # [C]
    worker: NDArray[np.int32]  # [C]
    size: NDArray[np.int64]  # [1]
    table: NDArray[np.int32]  # see unskew.grouping.slots


def remembered(keys: NDArray[np.uint64], workers: NDArray[np.int32], room: int) -> Remembered:
    """These n keys with their workers, and room for ``room`` keys in all."""
    room = max(room, len(keys))
    memory = Remembered(np.zeros(room, np.uint64), np.zeros(room, np.int32), np.array([len(keys)]), slot_table(room))
    memory.key[: len(keys)] = keys
    memory.worker[: len(keys)] = workers
    enter_slots(memory.table, memory.key, len(keys))
    return memory


@kernel
def remember(memory: Remembered, key: np.uint64, worker: int) -> bool:
    """Note the worker of a key that isn't there yet; False if there's no room."""
    slot: int = memory.size[0]
    if slot == len(memory.key):
        return False
    memory.key[slot] = key
    memory.worker[slot] = worker
    memory.size[0] += 1
    enter_slot(memory.table, memory.key, slot)
    return True
