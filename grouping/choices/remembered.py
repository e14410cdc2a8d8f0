"""Where each key went: the routing table that schemes without key splitting can't do without."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray


class Remembered(NamedTuple):
    """Up to C keys with their workers, in the order they came, and the hash table that finds them.

    12 bytes a key, and 8 to 16 for the table.
    """

    key: NDArray[np.uint64]  # [C]
    worker: NDArray[np.int32]  # [C]
    size: NDArray[np.int64]  # [1]
    table: NDArray[np.int32]  # [power of 2 ≥ 2·C], open addressing: slot or -1


def remembered(keys: NDArray[np.uint64], workers: NDArray[np.int32], room: int) -> Remembered:
    """These n keys with their workers, and room for ``room`` keys in all."""
    room = max(room, len(keys))
    memory = Remembered(
        np.zeros(room, np.uint64),
        np.zeros(room, np.int32),
        np.zeros(1, np.int64),
        np.full(1 << max(2 * room - 1, 1).bit_length(), -1, np.int32),
    )
    _remember_all(memory, keys, workers)
    return memory


@njit(cache=True)
def recall(memory: Remembered, key: np.uint64) -> int:
    """The key's worker, or −1."""
    mask = len(memory.table) - 1
    at = np.int64(key) & mask
    while True:
        slot: int = memory.table[at]
        if slot < 0:
            return -1
        if memory.key[slot] == key:
            worker: int = memory.worker[slot]
            return worker
        at = (at + 1) & mask


@njit(cache=True)
def remember(memory: Remembered, key: np.uint64, worker: int) -> bool:
    """Note the worker of a key that isn't there yet; False if there's no room."""
    slot = memory.size[0]
    if slot == len(memory.key):
        return False
    memory.key[slot] = key
    memory.worker[slot] = worker
    memory.size[0] += 1
    mask = len(memory.table) - 1
    at = np.int64(key) & mask
    while memory.table[at] >= 0:
        at = (at + 1) & mask
    memory.table[at] = slot
    return True


@njit(cache=True)
def _remember_all(memory: Remembered, keys: NDArray[np.uint64], workers: NDArray[np.int32]) -> None:
    for i in range(len(keys)):
        remember(memory, keys[i], workers[i])
