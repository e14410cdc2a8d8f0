"""Finds frequent keys in bounded memory: Misra-Gries counters, decremented in bulk as in Apache DataSketches.

Guarantees, for N tuples counted with m counters:

* A key's counter is at most its true count, and at least the true count − 2N/m.
* So every key with a share above 2/m has a counter, and no key's count is too high.

Kernels count inline, because a call would cost more than the counting.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.slots import enter_slots, slot_table
from unskew.grouping.state import Value

USED, TAKEN_OFF = 0, 1  # positions in `size`


class MisraGriesSketch(NamedTuple):
    """m counters with their keys, 16 bytes each, and a hash table of keys' counters."""

    key: NDArray[np.uint64]  # [m]
    counter: NDArray[np.int64]  # [m]
    size: NDArray[np.int64]  # [2], counters in use; the most subtracted from a counter so far
    table: NDArray[np.int32]  # see unskew.grouping.slots


def make_sketch(counters: int) -> MisraGriesSketch:
    """Empty counters."""
    return MisraGriesSketch(
        np.zeros(counters, np.uint64), np.zeros(counters, np.int64), np.zeros(2, np.int64), slot_table(counters)
    )


def save_sketch(sketch: MisraGriesSketch) -> dict[str, Value]:
    """The counters' state, for ``save``."""
    used = sketch.size[USED]
    return {"key": sketch.key[:used], "counter": sketch.counter[:used], "size": sketch.size}


def restore_sketch(state: Mapping[str, Any], counters: int) -> MisraGriesSketch:
    """Restore counters from the state of ``save_sketch``."""
    sketch = make_sketch(counters)
    used = len(state["key"])
    sketch.key[:used] = state["key"]
    sketch.counter[:used] = state["counter"]
    sketch.size[:] = state["size"]
    enter_slots(sketch.table, sketch.key, used)
    return sketch


@kernel
def make_room(
    keys: NDArray[np.uint64], counters: NDArray[np.int64], size: NDArray[np.int64], table: NDArray[np.int32]
) -> int:
    """Subtract the median from every counter and drop those that reach 0, at least half. Return how many are left."""
    median = _find_median(counters)
    kept = 0
    for slot in range(len(keys)):  # without a branch, which would be mispredicted half of the time
        left = counters[slot] - median
        keys[kept] = keys[slot]
        counters[kept] = left
        kept += left > 0
    keys[kept:] = 0
    counters[kept:] = 0
    size[TAKEN_OFF] += median
    enter_slots(table, keys, kept)
    return kept


@kernel
def find_survivors(before: NDArray[np.uint64], after: NDArray[np.uint64], kept: int) -> NDArray[np.int64]:
    """The former slots of the counters that ``make_room`` kept, int64[kept], in the same order."""
    slots = np.empty(kept, np.int64)
    at = 0
    for slot in range(len(before)):
        if at < kept and after[at] == before[slot]:
            slots[at] = slot
            at += 1
    return slots


@kernel
def _find_median(counters: NDArray[np.int64]) -> int:
    """The upper median, which is mostly small, and so found by counting instead of sorting."""
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
