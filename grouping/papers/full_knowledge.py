"""FULL_KNOWLEDGE: an oracle that knows each tuple's cost, and so bounds the balance of unequal tuples."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys
from unskew.grouping.least_loaded import build_heap, raise_least


class FullKnowledge(Grouping):
    """Send each tuple, whatever its key, to the worker with the least accumulated true cost.

    This is POSG's Greedy Online Scheduler with the exact execution time of each tuple. No real source knows that time
    before the tuple is executed. So the oracle bounds what a scheme that estimates costs can reach.

    Guarantees
    ----------
    * With one source the greatest load is at most 2 − 1/W times the greatest load of the best possible assignment
      (Theorem 4.2). It is also at most Σ cost / W + (1 − 1/W) · the greatest cost.
    * A key may be on every worker: replication up to W.

    Time O(log W) a tuple, memory O(W).

    Notes
    -----
    ``route`` needs ``costs`` in ms, each at least 0. Of equal loads the first worker is chosen. If all costs are equal,
    the scheme is SHUFFLE. The paper's machines may differ in speed. Here a tuple costs the same on all workers.

    References
    ----------
    Rivetti et al., *Proactive Online Scheduling for Shuffle Grouping in Distributed Stream Processing Systems*,
    sections III-A, IV-A and V ("Full Knowledge").

    Examples
    --------
    The paper's example, in which a takes 10 s and b takes 1 s:

    >>> FullKnowledge(2).route(["a", "b", "a"], costs=[10_000, 1_000, 10_000]).tolist()
    [0, 1, 1]

    """

    name = "FULL_KNOWLEDGE"
    short = "fk"
    uses_cost = True
    uses_keys = False
    state_fields = ("loads",)

    def __init__(self, workers: int, *, seed: int = 0) -> None:
        super().__init__(workers, seed=seed)
        self.loads = np.zeros(self.workers)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        assert costs is not None
        return _route_greedily(np.ascontiguousarray(costs), self.loads)


@kernel
def _route_greedily(costs: NDArray[np.float64], loads: NDArray[np.float64]) -> NDArray[np.int32]:
    workers = np.empty(len(costs), np.int32)
    heap = build_heap(loads)
    for i in range(len(costs)):
        workers[i] = heap[0]
        raise_least(heap, loads, costs[i])
    return workers
