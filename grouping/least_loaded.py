"""Finds the least loaded of all workers, compiled: with a heap, or a cursor if each tuple adds 1 to a load.

**The heap** of workers is sifted as loads grow, in O(log W) per tuple, for loads of any kind.

**The cursor** takes amortised O(1) per tuple, and has no state that must follow the loads. The level is the load of the
least loaded worker. Loads only grow, so a worker that has left the level doesn't come back. The cursor passes over the
workers and finds those still on the level. When it has passed all, the level rises and the cursor restarts. The level
never exceeds the mean load, so it has risen at most N/W times after N tuples. At 2·W steps each time, that is at most
two steps per tuple, however unbalanced the loads are.
"""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel


@kernel
def build_heap(loads: NDArray[np.float64]) -> NDArray[np.int32]:
    """A heap of all workers, int32[W]. ``heap[0]`` is the least loaded, and of equals the first. O(W)."""
    heap = np.arange(len(loads)).astype(np.int32)
    for at in range(len(loads) // 2 - 1, -1, -1):
        _sift_down(heap, loads, at)
    return heap


@kernel
def raise_least(heap: NDArray[np.int32], loads: NDArray[np.float64], load: float) -> None:
    """Add ``load`` ≥ 0 to the least loaded worker, ``heap[0]``, and find the next one. O(log W)."""
    loads[heap[0]] += load
    _sift_down(heap, loads, 0)


@kernel
def _sift_down(heap: NDArray[np.int32], loads: NDArray[np.float64], at: int) -> None:
    worker = heap[at]
    while True:
        child = 2 * at + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and _is_before(loads, heap[child + 1], heap[child]):
            child += 1
        if not _is_before(loads, heap[child], worker):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = worker


@kernel
def _is_before(loads: NDArray[np.float64], one: np.int32, other: np.int32) -> bool:
    return bool(loads[one] < loads[other] or (loads[one] == loads[other] and one < other))


@kernel
def before_first() -> NDArray[np.int64]:
    """A new cursor: int64[2], its level and its position."""
    return np.array([-1, 0])


@kernel
def least_of_all(cursor: NDArray[np.int64], loads: NDArray[np.int64]) -> int:
    """The least loaded worker, and of equals the first. Moves the cursor to it."""
    level, at = cursor
    while at < len(loads) and loads[at] != level:
        at += 1
    if at == len(loads):
        level = loads.min()
        at = 0
        while loads[at] != level:
            at += 1
    cursor[0], cursor[1] = level, at
    return at
