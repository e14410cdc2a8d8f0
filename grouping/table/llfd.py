"""LLFD: put the heaviest keys of overloaded workers on the least loaded ones."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.table.phases import Workflow
from unskew.grouping.table.records import Placement, Records
from unskew.grouping.table.router import TableRouter


class Llfd(TableRouter):
    """Take the heaviest keys from overloaded workers and assign them anew, heaviest first, to the least loaded worker.

    Where that would overload the worker, it gives up some of its own smaller keys in exchange, which are assigned in
    their turn (``table.phases.fit``). Only the load counts: neither the routing table's size nor migration does.

    Guarantees
    ----------
    * If a perfect assignment exists and every key is lighter than the mean load, then with θmax = 0 no worker's load
      is more than (1 − 1/W)/3 above the mean (Theorem 1; its proof there is a sketch, the argument is below).
    * A key moves only if its worker is overloaded, or in exchange for a heavier one.

    Time O(K log K) a plan, and O(W) a key that moves. Memory: the table isn't bounded; a key that is in no interval
    of the window any more leaves it.

    Parameters
    ----------
    theta_max, window, degree, report_keys
        See ``TableRouter``; the authors' θmax is 0.08.

    Notes
    -----
    The paper doesn't say what becomes of a key that no worker can take, nor of equal ones. Here it goes to the least
    loaded worker, as in the paper's Algorithm 5. If it alone is above L_max, it gets a worker to itself: the one with
    the least load of keys as heavy as it, which gives up all its smaller ones. Equal keys are taken in the order of
    their hashes, equally loaded workers in theirs. The authors leave LLFD out of their experiments, as its table is
    not bounded.

    Why Theorem 1 holds for it: with θmax = 0 the first key c that no worker takes weighs at most L̄/3. For keys above
    L̄/3 a perfect assignment has two at most on a worker, and one alone where no other would fit beside it. Were c above
    L̄/3, then of the workers without such a loner one would have at most one key as heavy as c, beside which c
    fits; its smaller keys would make room. The least loaded worker is at L̄ − c/W at most, so c leaves it at
    L̄ + c(1 − 1/W), and later keys are lighter. The theorem bounds overload; with θmax > 0 a worker may stay
    further *below* the mean than that.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 3.1 and appendix A.

    Examples
    --------
    Six keys of 16 tuples, of which 9 change their worker:

    >>> from unskew.grouping import encode
    >>> router, keys = Llfd(2, theta_max=0.0), encode(list("aaaaabbbbcccddef"))
    >>> monitor, controller = router.monitor(), router.controller()
    >>> monitor.observe(keys, None)
    >>> plan = controller.plan({0: monitor.report()})
    >>> before = router.route(keys)
    >>> router.adopt(plan)
    True
    >>> [np.bincount(workers).tolist() for workers in (before, router.route(keys))], plan.values["migration"]
    ([[1, 15], [8, 8]], 9.0)

    """

    name = "LLFD"
    short = "llfd"

    def priority(self, records: Records) -> NDArray[np.float64]:
        return records.cost

    def place(self, records: Records, limit: float) -> Placement:
        return Workflow(records, limit, self.priority(records)).run(back=0)
