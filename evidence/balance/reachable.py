"""The least load that a batch's busiest worker can have if each key keeps to the workers that it has been on.

Each key's tuples are divided between its workers, in fractions too. The division with the least sum of squared loads
also has the least greatest load. It is found key by key: each in turn levels the loads of its workers as far as its
own tuples go, until nothing moves any more. Exact to a thousandth of the mean load; never below the optimum.
"""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel

_ROUNDS, _STILL = 2000, 1e-5  # of all keys, and what moves in one of them, of the mean load


class Places:
    """The workers on which each key has been so far. Memory: 8 bytes a key and worker."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pairs = np.empty(0, np.int64)  # key · W + worker, ascending

    def reachable(self, codes: NDArray[np.int32], chosen: NDArray[np.int32]) -> float:
        """The least greatest load of a batch over its mean load, int32[n] keys and workers; its own places count."""
        self._pairs = np.union1d(self._pairs, codes.astype(np.int64) * self._workers + chosen)
        keys, tuples = np.unique(codes, return_counts=True)
        first, last = (np.searchsorted(self._pairs, (keys + more) * self._workers) for more in (0, 1))
        order = np.argsort(-tuples, kind="stable")
        loads = level_loads(
            tuples[order].astype(np.float64), first[order], last[order], self._pairs % self._workers, self._workers
        )
        return float(loads.max() * self._workers / len(codes))


@kernel
def level_loads(
    tuples: NDArray[np.float64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    places: NDArray[np.int64],
    workers: int,
) -> NDArray[np.float64]:
    """The loads, float64[W], of keys with these tuples, each at the workers ``places[first[k] : last[k]]``."""
    loads, own = np.zeros(workers), np.zeros(len(places))
    mean = tuples.sum() / workers
    for _ in range(_ROUNDS):
        moved = 0.0
        for k in range(len(tuples)):
            at = places[first[k] : last[k]]
            loads[at] -= own[first[k] : last[k]]
            others = np.sort(loads[at])
            # The level that the key's tuples fill the least loaded of its workers up to.
            level, below = 0.0, 0.0
            for i in range(len(others)):
                below += others[i]
                level = (below + tuples[k]) / (i + 1)
                if i + 1 == len(others) or level <= others[i + 1]:
                    break
            for i in range(first[k], last[k]):
                new = max(0.0, level - loads[places[i]])
                moved = max(moved, abs(new - own[i]))
                own[i] = new
            loads[at] += own[first[k] : last[k]]
        if moved <= _STILL * mean:
            break
    return loads
