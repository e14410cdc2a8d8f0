"""HOLISTIC: a heavy hitter gets one more worker whenever those it has are above the mean."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import number
from unskew.grouping.chains import Chains, add, chains, nodes_of
from unskew.grouping.choices.frequent import counted, frequent, restored
from unskew.grouping.choices.regional import route_by_region
from unskew.grouping.hashing import function, homes
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value


class Holistic(Grouping):
    """Send the tail where its hash says, and a heavy hitter to the least loaded of its region, which grows as it must.

    A heavy hitter is a key whose share is above ``threshold``. Its *region* is the workers that it has been given; it
    starts with its home. While their mean load is at most ``tolerance`` above that of all workers, a tuple goes to the
    least loaded of them; else to the least loaded of all, which is in the region from then on.

    Guarantees
    ----------
    * A key that has never been a heavy hitter is on one worker, its home in KEY.
    * No key with less than the threshold's share of the tuples so far counts as a heavy hitter; each with 1.5 times
      that does. (In the first 1 / ``threshold`` tuples every key does.)
    * A worker is above (1 + ``tolerance``) times the mean by the tail alone, or by one tuple, or because its region's
      mean is less. No bound on imbalance is proved.

    Time O(1) a tuple of the tail, O(region) of a heavy hitter. Memory: W loads, 4 / ``threshold`` counters (16 bytes,
    12 to 20 for finding them and their region) and as many places of regions, and 16·W more (8 bytes).

    Parameters
    ----------
    threshold : float, default 1e-4
        δ, the share of a heavy hitter. The authors' 10^-4 (their class for strings: 10^-6). Lower: more keys may be
        split, and more memory.
    tolerance : float, default 0.01
        β ≥ 0, by how much of the mean a region's load may be above it; the authors' 0.01. Larger: fewer replicas.

    Notes
    -----
    Written from the authors' code (github.com/Kejian-Li/Dynamic-Balance, ``HolisticPartitioner``), not from the paper.
    They count with lossy counting of error δ/10 and keep every region for ever, so that memory grows with the keys;
    this counts with Misra-Gries, and a key that isn't counted any more has no region either. As there, a region's mean
    load is rounded down, which matters while loads are small, and of equals the first worker is taken. While there are
    counters for all keys the answers are the authors', but for the hash (tests/grouping/test_holistic.py).

    What change does: loads, shares and regions count from the start, so a key that gets hot late is a heavy hitter
    late, and what was on a worker before holds it back for as long again; a region never shrinks.

    References
    ----------
    Li, Liu and Lu, *A Holistic Stream Partitioning Algorithm for Distributed Stream Processing Systems*, PDCAT 2019.
    (Another one than Katsipoulakis et al., *A Holistic View of Stream Partitioning Costs*, PVLDB 2017.)

    Examples
    --------
    A key with half of the tuples goes wherever its tuples are the fewest:

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
        self.threshold = number("threshold", threshold, 1e-7, 1)
        self.tolerance = number("tolerance", tolerance, 0)
        self.loads = np.zeros(self.workers, np.int64)
        self.tally = np.zeros(1, np.int64)
        self._sketch = frequent(int(np.ceil(4 / self.threshold)))
        self._regions = self._no_regions()

    def _no_regions(self) -> Chains:
        counters = len(self._sketch.key)
        return chains(counters, counters + 16 * self.workers)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = homes(keys.hashes, function(self.seed), self.workers)
        return route_by_region(
            keys.codes, keys.hashes, home, self.threshold, self.tolerance,
            self._sketch, self._regions, self.loads, self.tally,
        )  # fmt: skip

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys have regions of several workers, and how large the largest are (100)."""
        sizes = np.bincount(nodes_of(self._regions)[:, 0])
        sizes = np.sort(sizes[sizes > 1])[::-1]
        return {"split": len(sizes), "workers": sizes[:100].tolist()}

    def _state(self) -> dict[str, Value]:
        regions = nodes_of(self._regions)
        return {
            **super()._state(),
            **counted(self._sketch),
            "slot": regions[:, 0].copy(),
            "worker": self._regions.worker[regions[:, 1]],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._sketch = restored(state, len(self._sketch.key))
        self._regions = self._no_regions()
        for slot, worker in zip(state["slot"], state["worker"], strict=True):
            add(self._regions, slot, worker)

    def _identity(self) -> str:
        return f"{super()._identity()} threshold={self.threshold} tolerance={self.tolerance}"
