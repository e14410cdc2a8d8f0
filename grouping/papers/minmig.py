"""MINMIG: move the keys with much load for the size of their state."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_number
from unskew.grouping.table.assignment import Assignment, KeyRecords
from unskew.grouping.table.phases import Workflow
from unskew.grouping.table.router import TableRouter


class MinMig(TableRouter):
    """Take from overloaded workers the keys of the largest γ(k, w) = c(k)^β / S(k, w): much load and little state.

    The routing table isn't cleaned, because that would make keys migrate. So it grows with every plan, towards K·(W −
    1)/W entries (appendix B).

    Guarantees
    ----------
    * A key moves only if its worker is overloaded, or in exchange for a heavier key.
    * No worker's load is above (1 + θmax) times the mean, as far as ``Llfd`` achieves that.

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

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        return Workflow(records, limit, self.priority(records)).run(back=0)

    def _identity(self) -> str:
        return f"{super()._identity()} beta={self.beta}"
