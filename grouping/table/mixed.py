"""MIXED: clean only so much of the routing table as its bound requires."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer, check_number
from unskew.grouping.table.assignment import Assignment, KeyRecords
from unskew.grouping.table.phases import Workflow, smallest_table
from unskew.grouping.table.router import TableRouter


class Mixed(TableRouter):
    """Move back just enough entries, those of the smallest states, that the table fits its bound; then do as MINMIG.

    The first trial moves back no entries. Each further trial moves back as many more as the last trial's table was too
    large by. That takes few trials, but may move back more than necessary. MIXED_BF tries every number.

    Guarantees
    ----------
    * The table has at most ``table_max`` entries, unless moving all back isn't enough either. Then the plan is
      MINTABLE's, and the bound is broken (appendix B), because balance comes first.
    * While MINMIG's table fits, the plan is MINMIG's.

    Time O(K log K) a plan, O(K) a trial, and O(W) a key that moves. Memory: ``table_max`` entries a router.

    Parameters
    ----------
    theta_max, window, degree, report_keys
        See ``TableRouter``. The authors' θmax is 0.08.
    table_max : int, default 3000
        Amax ≥ 0, the most entries of the routing table. The authors' default, for 10,000 keys, is 3000. If it is too
        small for the balance asked for, MIXED turns into MINTABLE.
    beta : float, default 1.5
        β > 0 of γ(k, w), see ``MinMig``. The authors' default.

    Notes
    -----
    As Algorithm 4. See ``Llfd`` for what it leaves open. The base hash of the paper's experiments (section 5) is a
    consistent hash. Here it is KEY's, which is as even.

    Theorem 2 says that MIXED balances no worse than LLFD. It is derived from Theorem 4, which says that MIXED's highest
    load is never above that of Algorithm 5, which assigns all keys from scratch. That doesn't hold. For example, of
    keys of 7, 5, 5 and 1, let the 7 and one 5 be together. MIXED ends at 11 and 7, and Algorithm 5 at 10 and 8.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 3.3, Algorithm 4.

    Examples
    --------
    ``unskew.grouping.papers`` compares the scheme with others on six keys.

    """

    name = "MIXED"
    short = "mixed"

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        theta_max: float = 0.08,
        table_max: int = 3000,
        window: int = 5,
        beta: float = 1.5,
        degree: int | None = None,
        report_keys: int | None = 30_000,
    ) -> None:
        super().__init__(workers, seed=seed, theta_max=theta_max, window=window, degree=degree, report_keys=report_keys)
        self.table_max = check_integer("table_max", table_max, 0)
        self.beta = check_number("beta", beta, 0, above=True)

    def priority(self, records: KeyRecords) -> NDArray[np.float64]:
        return records.gamma(self.beta)

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        """Algorithm 4: n = 0; do phases I to III with n entries moved back; n += N_A' − Amax; while N_A' > Amax."""
        workflow = Workflow(records, limit, self.priority(records))
        back = 0
        while True:
            assignment = workflow.run(back)
            over = assignment.table() - self.table_max
            if over <= 0:
                return assignment
            if back == workflow.table:
                return smallest_table(records, limit)
            back = min(back + over, workflow.table)

    def _identity(self) -> str:
        return f"{super()._identity()} table_max={self.table_max} beta={self.beta}"
