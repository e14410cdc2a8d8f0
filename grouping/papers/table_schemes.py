"""The routing table paper's other schemes: LLFD, MINTABLE, MINMIG, and MIXED by brute force."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_number
from unskew.grouping.table.assignment import Assignment, KeyRecords
from unskew.grouping.table.mixed import Mixed
from unskew.grouping.table.phases import Workflow, smallest_table
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


class MinTable(TableRouter):
    """Plan as if every key were at home, so that the table has only what balance needs.

    All entries are moved back. Then the heaviest keys of overloaded workers are reassigned: few keys, but often those
    with the largest states. Keys that were moved back migrate, too, unless they are sent where they were.

    Guarantees
    ----------
    * The table's entries are only keys of overloaded workers, and keys that made room for heavier ones.
    * Balance is as in ``Llfd``.

    Time O(K log K) a plan, and O(W) a key that moves. Memory: the table isn't bounded, but the plan aims at the
    smallest one.

    Parameters
    ----------
    theta_max, window, degree, report_keys
        See ``TableRouter``. The authors' θmax is 0.08.

    Notes
    -----
    As Algorithm 2. See ``Llfd`` for what it leaves open. The plan assumes that all keys are at home, also those that no
    worker has reported lately. With more keys than ``report_keys``, such keys bring an unknown load.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 3.2, Algorithm 2.

    Examples
    --------
    ``unskew.grouping.papers`` compares the scheme with others on six keys.

    """

    name = "MINTABLE"
    short = "mintable"

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        return smallest_table(records, limit)


class MinMig(TableRouter):
    """Take from overloaded workers the keys of the largest γ(k, w) = c(k)^β / S(k, w): much load and little state.

    The routing table isn't cleaned, because that would make keys migrate. So it grows with every plan, towards K·(W −
    1)/W entries (appendix B).

    Guarantees
    ----------
    * A key moves only if its worker is overloaded, or in exchange for a heavier key.
    * No worker's load is above (1 + θmax) times the mean, as far as LLFD achieves that.

    Time O(K log K) a plan, and O(W) a key that moves. Memory: the table isn't bounded. Keys in no interval of the
    window leave it.

    Parameters
    ----------
    theta_max, window, degree, report_keys
        See ``TableRouter``. The authors' θmax is 0.08.
    beta : float, default 1.5
        β > 0, the weight of the load. The authors use 1.5 and try 1 to 2. With 1, γ is load per unit of state, and the
        table has many light keys. Larger: heavier keys, a smaller table, more migration.

    Notes
    -----
    As Algorithm 3. See ``Llfd`` for what it leaves open. The authors leave MINMIG out of their experiments, because its
    table is not bounded.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 3.2, Algorithm 3,
    appendices B and C.

    Examples
    --------
    ``unskew.grouping.papers`` compares the scheme with others on six keys.

    """

    name = "MINMIG"
    short = "minmig"

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        theta_max: float = 0.08,
        window: int = 5,
        beta: float = 1.5,
        degree: int | None = None,
        report_keys: int | None = 30_000,
    ) -> None:
        super().__init__(workers, seed=seed, theta_max=theta_max, window=window, degree=degree, report_keys=report_keys)
        self.beta = check_number("beta", beta, 0, above=True)

    def priority(self, records: KeyRecords) -> NDArray[np.float64]:
        return records.gamma(self.beta)

    def _identity(self) -> str:
        return f"{super()._identity()} beta={self.beta}"


class MixedBruteForce(Mixed):
    """MIXED, but trying every number of entries to move back, and keeping the best plan.

    Of the plans with a table that fits, the best has the least overload beyond θmax, then the least migration, then the
    fewest entries moved back. The scheme shows the cost of MIXED's short cut.

    Guarantees
    ----------
    * If both MIXED and this scheme keep the table's bound and balance within θmax, this scheme migrates no more.
    * The table is bounded as MIXED's.

    Time O(K log K + N_A·K) a plan, where N_A is the number of the table's entries before, and O(W) a key that moves in
    each trial. Memory: ``table_max`` entries a router.

    Parameters
    ----------
    theta_max, table_max, window, beta, degree, report_keys
        See ``Mixed``.

    Notes
    -----
    Section 3.3 speaks of "the optimal" without saying what is optimal. The paper's problem is minimal migration under
    constraints of balance and table size (Equation 3). Section 5 once says that the brute force version rebuilds the
    table from scratch. That would be MINTABLE, so this scheme follows section 3.3.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 3.3.

    Examples
    --------
    ``unskew.grouping.papers`` compares the scheme with others on six keys.

    """

    name = "MIXED_BF"
    short = "mixedbf"

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        workflow = Workflow(records, limit, self.priority(records))
        best, best_score = None, (0.0, 0.0)
        for back in range(workflow.table + 1):
            assignment = workflow.run(back)
            if assignment.table() > self.table_max:
                continue
            score = (max(float(assignment.loads().max()) - limit, 0.0), assignment.migration())
            if best is None or score < best_score:
                best, best_score = assignment, score
        return best or smallest_table(records, limit)
