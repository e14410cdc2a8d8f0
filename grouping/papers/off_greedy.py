"""OFF_GREEDY: knows the stream in advance, and assigns keys, most frequent first, to the least loaded worker."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.interface import Costs, Times
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import KeyArray, Keys, encode_keys, sum_by_key
from unskew.grouping.least_loaded import build_heap, raise_least
from unskew.grouping.papers.on_greedy import OnGreedy
from unskew.grouping.papers.sticky import make_table


class OffGreedy(OnGreedy):
    """Sort the keys by decreasing frequency and assign each to the least loaded worker, before any tuple is routed.

    The scheme gets the whole stream beforehand (``fit``), so it bounds schemes that don't split keys. Unforeseen keys
    are assigned as in ON_GREEDY.

    Guarantees
    ----------
    * With one router a key is on one worker: replication 1.
    * If the whole stream is foreseen, the greatest load at its end is at most 4/3 − 1/(3W) times the least possible
      without key splitting. This is Graham's bound for longest processing time first.
    * If p1 > 1/W, no scheme without key splitting can have a smaller imbalance fraction than p1 − 1/W.

    Time O(1) a tuple, O(K log K) once. Memory: W counters and **a record for each key foreseen or seen**, 28 bytes, up
    to ``max_keys``. The scheme needs these records by definition.

    Parameters
    ----------
    max_keys : int, default 1,000,000
        The most keys that are remembered, at least 1. The most frequent foreseen ones are remembered first. Other keys
        go home, as in KEY.

    Notes
    -----
    Of equal frequencies the key that was foreseen first is assigned first. Of equal loads the first worker is chosen.

    References
    ----------
    Nasir et al., *Partial Key Grouping*, section 6.2 (Q1, "Off-Greedy"); Graham, *Bounds on Multiprocessing Timing
    Anomalies*, 1969.

    Examples
    --------
    >>> router, stream = OffGreedy(2), ["a", "b", "c", "c", "c"]
    >>> router.fit(stream)
    >>> router.route(stream).tolist()
    [1, 1, 0, 0, 0]

    """

    name = "OFF_GREEDY"
    short = "offg"
    state_fields = ("foreseen_keys", "foreseen_counts")

    def __init__(self, workers: int, *, seed: int = 0, max_keys: int = 1_000_000) -> None:
        super().__init__(workers, seed=seed, max_keys=max_keys)
        self.foreseen_keys = np.empty(0, np.uint64)
        self.foreseen_counts = np.empty(0, np.int64)

    def fit(self, keys: KeyArray) -> None:
        """Count the tuples to come, before the first one is routed.

        Raises
        ------
        ValueError
            Routing has begun.

        """
        if self.loads.any():
            raise ValueError(f"{self.name} can't foresee more: it has begun to route")
        encoded = encode_keys(keys)
        counts = np.bincount(encoded.codes, minlength=len(encoded.hashes))
        all_keys = np.concatenate([self.foreseen_keys, encoded.hashes])
        found, first, at = np.unique(all_keys, return_index=True, return_inverse=True)
        totals = sum_by_key(at, np.concatenate([self.foreseen_counts, counts]), len(found))
        in_order = np.argsort(first)
        self.foreseen_keys, self.foreseen_counts = found[in_order], totals[in_order]

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        if len(keys) and len(self.foreseen_keys):
            self._assign()
        return super()._route(keys, times, costs)

    def _assign(self) -> None:
        order = np.argsort(-self.foreseen_counts, kind="stable")[: self.max_keys]
        workers = _longest_first(self.foreseen_counts[order], self.workers)
        self._memory = make_table(self.foreseen_keys[order], workers, len(order))
        self.foreseen_keys, self.foreseen_counts = self.foreseen_keys[:0], self.foreseen_counts[:0]


@kernel
def _longest_first(counts: NDArray[np.int64], workers: int) -> NDArray[np.int32]:
    """Assign keys, given by descending count, each to the least loaded worker."""
    assigned = np.empty(len(counts), np.int32)
    loads = np.zeros(workers)
    heap = build_heap(loads)
    for i in range(len(counts)):
        assigned[i] = heap[0]
        raise_least(heap, loads, float(counts[i]))
    return assigned
