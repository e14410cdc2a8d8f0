"""How HOLISTIC routes: heavy hitters to the least loaded of their regions, compiled."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.chains import END, Chains, add, drop
from unskew.grouping.choices.frequent import USED, Frequent, make_room, survivors
from unskew.grouping.choices.level import before_first, least_of_all
from unskew.grouping.compiled import kernel
from unskew.grouping.slots import enter_slot, find_slot


@kernel
def route_by_region(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    threshold: float,
    tolerance: float,
    sketch: Frequent,
    regions: Chains,
    loads: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Route tuple by tuple; ``tally`` has the tuples so far.

    1. Count the key.
    2. A key of the tail: its home.
    3. A heavy hitter whose region's mean load (rounded down) is within the tolerance: the least loaded of its region.
    4. Else: the least loaded of all, which joins the region.
    """
    workers = np.empty(len(codes), np.int32)
    cursor = before_first()
    watched, counters, size, table = sketch  # taken out once (see unskew.grouping.slots)
    head = regions.head
    used = size[USED]
    tuples: int = tally[0]
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        slot = find_slot(table, watched, key)
        if slot < 0:
            if used == len(watched):
                used = _make_room(sketch, regions)
            slot = used
            watched[slot] = key
            enter_slot(table, watched, slot)
            used += 1
        counters[slot] += 1
        worker: int = homes[code]
        if counters[slot] > threshold * (tuples + 1):
            mean, worker = _region(head[slot], worker, regions, loads)
            if mean <= (1 + tolerance) * tuples / len(loads):
                if head[slot] == END:
                    add(regions, slot, worker)
            else:
                worker = least_of_all(cursor, loads)
                if not _is_in(head[slot], worker, regions):
                    add(regions, slot, worker)
        loads[worker] += 1
        tuples += 1
        workers[i] = worker
    size[USED] = used
    tally[0] = tuples
    return workers


@kernel
def _region(node: int, home: int, regions: Chains, loads: NDArray[np.int64]) -> tuple[int, int]:
    """The mean load of a region, rounded down, and the first of its least loaded workers; without one, the home's."""
    if node == END:
        load: int = loads[home]
        return load, home
    total = members = 0
    least: int = regions.worker[node]
    while node != END:
        worker: int = regions.worker[node]
        total += loads[worker]
        members += 1
        if (loads[worker], worker) < (loads[least], least):
            least = worker
        node = regions.following[node]
    return total // members, least


@kernel
def _is_in(node: int, worker: int, regions: Chains) -> bool:
    while node != END and regions.worker[node] != worker:
        node = regions.following[node]
    return node != END


@kernel
def _make_room(sketch: Frequent, regions: Chains) -> int:
    """Drop at least half of the counters, and the regions of the keys that they counted; how many are left."""
    before = sketch.key.copy()
    kept = make_room(sketch.key, sketch.counter, sketch.size, sketch.table)
    slots = survivors(before, sketch.key, kept)
    heads = regions.head[slots]
    regions.head[slots] = END
    for slot in range(len(before)):
        drop(regions, slot)
    regions.head[:kept] = heads
    return kept
