"""LLFD: move the heaviest keys of overloaded workers to the least loaded ones."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.table.assignment import Assignment, KeyRecords
from unskew.grouping.table.phases import Workflow
from unskew.grouping.table.router import TableRouter


class Llfd(TableRouter):
    """Reassign the heaviest keys of overloaded workers, heaviest first, to the least loaded worker.

    If that would overload the worker, it gives up some of its smaller keys in exchange, which are then assigned in turn
    (``table.phases.fit_least_load``). Only load counts, not the routing table's size or migration.

    Guarantees
    ----------
    * If a perfect assignment exists, every key is lighter than the mean load, and θmax = 0, no worker's load is more
      than (1 − 1/W)/3 above the mean. This is Theorem 1, whose proof in the paper is a sketch; the notes have an
      argument.
    * A key moves only if its worker is overloaded, or in exchange for a heavier key.

    Time O(K log K) a plan, and O(W) a key that moves. Memory: the table isn't bounded. Keys in no interval of the
    window leave it.

    Parameters
    ----------
    theta_max, window, degree, report_keys
        See ``TableRouter``. The authors' θmax is 0.08.

    Notes
    -----
    The paper doesn't say what happens to a key that no worker can take, nor which of equal keys or workers is first.
    Here a key that no worker can take goes to the least loaded worker, as in the paper's Algorithm 5. If the key alone
    is above L_max, it gets a worker to itself. That is the worker with the least load of keys as heavy as it, which
    gives up all its smaller ones. Equal keys are taken in the order of their hashes, and equally loaded workers in the
    order of their numbers. The authors leave LLFD out of their experiments, because its table is not bounded.

    Why Theorem 1 holds: with θmax = 0 the first key c that no worker takes weighs at most L̄/3. A perfect assignment
    has at most two keys above L̄/3 on a worker. It has such a key alone on its worker if no other one would fit with
    it. Suppose that c is above L̄/3. Then among the other workers one has at most one key as heavy as c, and c fits
    with it. That worker's smaller keys would make room, so c would be taken. The least loaded worker is at L̄ − c/W at
    most, so c leaves it at L̄ + c(1 − 1/W) at most, and later keys are lighter. The theorem bounds overload. With θmax
    > 0 a worker may stay further *below* the mean than that.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 3.1 and appendix A.

    Examples
    --------
    ``unskew.grouping.papers`` compares the scheme with others on six keys.

    """

    name = "LLFD"
    short = "llfd"

    def priority(self, records: KeyRecords) -> NDArray[np.float64]:
        return records.cost

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        return Workflow(records, limit, self.priority(records)).run(back=0)
