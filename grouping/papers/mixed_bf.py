"""MIXED_BF: MIXED by brute force."""

from unskew.grouping.table.assignment import Assignment, KeyRecords
from unskew.grouping.table.mixed import Mixed
from unskew.grouping.table.phases import Workflow, smallest_table


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
