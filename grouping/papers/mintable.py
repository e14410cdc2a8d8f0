"""MINTABLE: discard the routing table, then make a small one."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.table.assignment import Assignment, KeyRecords
from unskew.grouping.table.phases import smallest_table
from unskew.grouping.table.router import TableRouter


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

    def priority(self, records: KeyRecords) -> NDArray[np.float64]:
        return records.cost

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        return smallest_table(records, limit)
