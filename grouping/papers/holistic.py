"""HOLISTIC: a heavy hitter gets one more worker whenever its workers are above the mean."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_number
from unskew.grouping.frequent_keys import (
    USED,
    MisraGriesSketch,
    find_survivors,
    make_room,
    make_sketch,
    restore_sketch,
    save_sketch,
)
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys
from unskew.grouping.least_loaded import before_first, least_of_all
from unskew.grouping.slots import END, Chains, add_node, drop_nodes, enter_slot, find_slot, list_nodes, make_chains
from unskew.grouping.state import Value


class Holistic(Grouping):
    """Send a key of the tail home, and a heavy hitter to the least loaded worker of its region, which grows on demand.

    A heavy hitter is a key whose share is above ``threshold``. Its *region* is the workers that it has been given, at
    first its home. If the region's mean load is at most ``tolerance`` above the mean of all workers, a tuple goes to
    the region's least loaded worker. Otherwise it goes to the least loaded of all workers, which then joins the region.

    Guarantees
    ----------
    * A key that has never been a heavy hitter is on one worker, its home in KEY.
    * No key with less than the threshold's share of the tuples so far counts as a heavy hitter. Each key with 1.5 times
      that share does. In the first 1 / ``threshold`` tuples every key does.
    * A worker is above (1 + ``tolerance``) times the mean only by the tail, by one tuple, or because its region's mean
      is less. No bound on imbalance is proved.

    Time O(1) a tuple of the tail. For a heavy hitter it is O(r), where r is the size of its region. Memory: W loads;
    4 / ``threshold`` counters of 16 bytes, and 12 to 20 bytes to find each and its region; as many nodes of regions and
    16·W more, of 8 bytes each.

    Parameters
    ----------
    threshold : float, default 1e-4
        δ in [1e-7, 1], the share of a heavy hitter. The authors use 10^-4, and 10^-6 in their class for strings. Lower:
        more keys may be split, and more memory.
    tolerance : float, default 0.01
        β ≥ 0, by which share of the mean a region's load may be above it. The authors use 0.01. Larger: fewer replicas.

    Notes
    -----
    We wrote this scheme from the authors' code (``HolisticPartitioner`` of github.com/Kejian-Li/Dynamic-Balance), not
    from the paper. They count with lossy counting of error δ/10 and keep every region for ever, so that memory grows
    with the keys. This scheme counts with Misra-Gries, and a key that is no longer counted loses its region. As in
    their code, a region's mean load is rounded down, which matters while loads are small, and of equal workers the
    first is taken. With counters for all keys, the answers are the authors', except for the hash
    (tests/grouping/test_holistic.py).

    After a change of the stream: loads, shares and regions count from the start. So a key that becomes hot late is a
    heavy hitter late, and its workers' earlier load delays it for as long again. A region never shrinks.

    References
    ----------
    Li, Liu and Lu, *A Holistic Stream Partitioning Algorithm for Distributed Stream Processing Systems*, PDCAT 2019.
    It is not Katsipoulakis et al., *A Holistic View of Stream Partitioning Costs*, PVLDB 2017.

    Examples
    --------
    A key with half of the tuples is on all workers, and their loads are even:

    >>> router = Holistic(20)
    >>> workers = router.route([f"k{i}" if i % 2 else "tr" for i in range(40_000)])
    >>> len(set(workers[::2].tolist())), bool(np.bincount(workers).max() < 1.02 * 2000)
    (20, True)

    """

    name = "HOLISTIC"
    short = "hol"
    state_fields = ("loads", "tally")

    def __init__(self, workers: int, *, seed: int = 0, threshold: float = 1e-4, tolerance: float = 0.01) -> None:
        super().__init__(workers, seed=seed)
        self.threshold = check_number("threshold", threshold, 1e-7, 1)
        self.tolerance = check_number("tolerance", tolerance, 0)
        self.loads = np.zeros(self.workers, np.int64)
        self.tally = np.zeros(1, np.int64)
        self._sketch = make_sketch(int(np.ceil(4 / self.threshold)))
        self._regions = self._no_regions()

    def _no_regions(self) -> Chains:
        counters = len(self._sketch.key)
        return make_chains(counters, counters + 16 * self.workers)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = choose_homes(keys.hashes, hash_function(self.seed), self.workers)
        rules = self.threshold, self.tolerance
        state = self._sketch, self._regions, self.loads, self.tally
        return route_by_region(keys.codes, keys.hashes, home, *rules, *state)

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys have several workers, and the sizes of the 100 largest regions."""
        sizes = np.bincount(list_nodes(self._regions)[:, 0])
        sizes = np.sort(sizes[sizes > 1])[::-1]
        return {"split": len(sizes), "workers": sizes[:100].tolist()}

    def _state(self) -> dict[str, Value]:
        regions = list_nodes(self._regions)
        return {
            **super()._state(),
            **save_sketch(self._sketch),
            "slot": regions[:, 0].copy(),
            "worker": self._regions.worker[regions[:, 1]],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._sketch = restore_sketch(state, len(self._sketch.key))
        self._regions = self._no_regions()
        for slot, worker in zip(state["slot"], state["worker"], strict=True):
            add_node(self._regions, slot, worker)

    def _identity(self) -> str:
        return f"{super()._identity()} threshold={self.threshold} tolerance={self.tolerance}"


@kernel
def route_by_region(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    threshold: float,
    tolerance: float,
    sketch: MisraGriesSketch,
    regions: Chains,
    loads: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Route tuple by tuple. ``tally`` has the number of tuples so far.

    1. Count the key.
    2. A key of the tail goes home.
    3. If the mean load of a heavy hitter's region, rounded down, is within the tolerance, the key goes to the region's
       least loaded worker.
    4. Otherwise it goes to the least loaded of all workers, which joins the region.
    """
    workers = np.empty(len(codes), np.int32)
    cursor = before_first()
    watched, counters, size, table = sketch  # once (see unskew.grouping.slots)
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
            mean, worker = _inspect_region(head[slot], worker, regions, loads)
            if mean <= (1 + tolerance) * tuples / len(loads):
                if head[slot] == END:
                    add_node(regions, slot, worker)
            else:
                worker = least_of_all(cursor, loads)
                if not _has_worker(head[slot], worker, regions):
                    add_node(regions, slot, worker)
        loads[worker] += 1
        tuples += 1
        workers[i] = worker
    size[USED] = used
    tally[0] = tuples
    return workers


@kernel
def _inspect_region(node: int, home: int, regions: Chains, loads: NDArray[np.int64]) -> tuple[int, int]:
    """A region's mean load, rounded down, and its first least loaded worker; without a region the home's."""
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
def _has_worker(node: int, worker: int, regions: Chains) -> bool:
    while node != END and regions.worker[node] != worker:
        node = regions.following[node]
    return node != END


@kernel
def _make_room(sketch: MisraGriesSketch, regions: Chains) -> int:
    """Drop at least half of the counters, and their keys' regions. Return how many are left."""
    before = sketch.key.copy()
    kept = make_room(sketch.key, sketch.counter, sketch.size, sketch.table)
    slots = find_survivors(before, sketch.key, kept)
    heads = regions.head[slots]
    regions.head[slots] = END
    for slot in range(len(before)):
        drop_nodes(regions, slot)
    regions.head[:kept] = heads
    return kept
