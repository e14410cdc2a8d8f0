"""The least loaded of all workers in O(log W): a heap of workers that is sifted as loads grow, compiled."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel


@kernel
def heap_of(loads: NDArray[np.float64]) -> NDArray[np.int32]:
    """A heap of all workers: ``heap[0]`` is the least loaded, of equals the first. int32[W], O(W)."""
    heap = np.arange(len(loads)).astype(np.int32)
    for at in range(len(loads) // 2 - 1, -1, -1):
        _sift(heap, loads, at)
    return heap


@kernel
def raise_least(heap: NDArray[np.int32], loads: NDArray[np.float64], load: float) -> None:
    """Add ``load`` (≥ 0) to the least loaded worker, ``heap[0]``, and find the next one. O(log W)."""
    loads[heap[0]] += load
    _sift(heap, loads, 0)


@kernel
def _sift(heap: NDArray[np.int32], loads: NDArray[np.float64], at: int) -> None:
    worker = heap[at]
    while True:
        child = 2 * at + 1
        if child >= len(heap):
            break
        if child + 1 < len(heap) and _before(loads, heap[child + 1], heap[child]):
            child += 1
        if not _before(loads, heap[child], worker):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = worker


@kernel
def _before(loads: NDArray[np.float64], one: np.int32, other: np.int32) -> bool:
    return bool(loads[one] < loads[other] or (loads[one] == loads[other] and one < other))
