"""MINTABLE: discard the routing table, then make a small one."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.table.assignment import Assignment, Records
from unskew.grouping.table.phases import Workflow
from unskew.grouping.table.router import TableRouter


class MinTable(TableRouter):
    """Plan as if every key were at home: the table holds no more than what balance needs.

    All entries are moved back. Then the heaviest keys of overloaded workers are assigned anew. These are few keys, but
    often those with the largest states. Keys that were moved back migrate too, unless they are sent where they were.

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
    There is no deviation from Algorithm 2. See ``Llfd`` for what it leaves open. The plan supposes that all keys are at
    home, also those that no worker has named lately. If there are more keys than ``report_keys``, such keys bring along
    a load that isn't known.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 3.2, Algorithm 2.

    Examples
    --------
    Two workers have 10 and 18 tuples of six keys. The plan balances them with 2 entries in the routing table, where
    ``Llfd`` needs 4:

    >>> records = Records(
    ...     cost=np.array([5.0, 7, 7, 2, 5, 2]),  # tuples of each key
    ...     memory=np.array([5.0, 4, 5, 8, 6, 2]),  # the size of its state
    ...     current=np.array([0, 1, 1, 1, 0, 1], np.int32),  # its worker
    ...     home=np.array([1, 1, 0, 0, 1, 0], np.int32),  # the hash function's worker
    ...     count=np.ones(6, np.int64),
    ...     workers=2,
    ... )
    >>> plan = MinTable(2).assign(records, limit=14.0)
    >>> plan.loads().tolist(), plan.table(), plan.migration()
    ([14.0, 14.0], 2, 13.0)

    """

    name = "MINTABLE"
    short = "mintable"

    def priority(self, records: Records) -> NDArray[np.float64]:
        return records.cost

    def assign(self, records: Records, limit: float) -> Assignment:
        return smallest_table(records, limit)


def smallest_table(records: Records, limit: float) -> Assignment:
    """Algorithm 2: move back all keys of the routing table, then assign by LLFD, highest computation cost first."""
    workflow = Workflow(records, limit, records.cost)
    return workflow.run(back=workflow.table)
