"""The compact representation of keys (section 4): keys that are equal to a planner are one record.

Costs and sizes are discretised by HLHE, half-linear-half-exponential (section 4.2).
"""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.table.assignment import Assignment, KeyRecords


def group_records(keys: KeyRecords, degree: int) -> tuple[KeyRecords, NDArray[np.int64]]:
    """Group K keys by their six-dimensional vector ``(d', d, d_h, v_c, v_S, #)``.

    ``d`` is the keys' worker, and ``d_h`` the hash function's. ``v_c`` and ``v_S`` are their cost and memory,
    discretised with R = ``degree``, and ``#`` is their number. ``d'`` is the planned worker, an ``Assignment`` with one
    row for each part of a record that goes to another worker.

    Returns the groups, in ascending order of (d, d_h, v_c, v_S), and the group of each key: int64[K].
    """
    costs, cost = np.unique(discretise_values(keys.cost, degree), return_inverse=True)
    memories, memory = np.unique(discretise_values(keys.memory, degree), return_inverse=True)
    pairs, pair = np.unique(keys.current.astype(np.int64) * keys.workers + keys.home, return_inverse=True)
    # In two steps, because the product of all four numbers may exceed an int64.
    triples, triple = np.unique(pair * len(costs) + cost, return_inverse=True)
    vectors, group, count = np.unique(triple * len(memories) + memory, return_inverse=True, return_counts=True)
    triple, memory = np.divmod(vectors, len(memories))
    pair, cost = np.divmod(triples[triple], len(costs))
    current, home = np.divmod(pairs[pair], keys.workers)
    return (
        KeyRecords(
            costs[cost],
            memories[memory],
            current.astype(np.int32),
            home.astype(np.int32),
            count,
            keys.workers,
            keys.rest,
        ),
        group,
    )


def expand_groups(assignment: Assignment, group: NDArray[np.int64], psi: NDArray[np.float64]) -> NDArray[np.int32]:
    """Choose the keys that an assignment of groups moves: F', the worker of each key, int32[K].

    A record's keys move in the order of ψ (``psi``, float64[K]), the largest first, to workers in the order in which
    the planner moved them. The others stay. ``group`` is the record of each key, as ``group_records`` returns it.
    """
    stays = assignment.worker == assignment.records.current[assignment.record]
    rows = np.lexsort((np.arange(len(stays)), stays, assignment.record))
    keys = np.lexsort((-psi, group))
    destination = np.empty(len(group), np.int32)
    destination[keys] = np.repeat(assignment.worker[rows], assignment.count[rows])
    return destination


def discretise_values(values: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    """Replace each value by one of few representatives, so that sums stay nearly equal.

    The values are normalised by the smallest one. Representatives are the multiples of R = ``degree``, the linear half,
    and below R the powers of 2, the exponential half. Each value has two candidates, the representative just below and
    the one just above. The values are taken in descending order. For each, that candidate is chosen which brings the
    accumulated deviation Σ (x − φ(x)) back towards 0.

    Guarantees
    ----------
    * A value is off by less than the distance of its two candidates. This is R for normalised values above R, and at
      most the value itself below R.
    * The accumulated deviation of every prefix, the n largest values for each n, is below R times the smallest value,
      in either direction.

    Time O(n log n).

    Parameters
    ----------
    values : float64[n]
        The values, each at least 0. Zeros stay zeros.
    degree : int
        R, a power of 2. With 1 whole multiples of the smallest value are kept exactly. Larger: fewer and coarser
        representatives. The paper tries 1 to 256, and finds that load estimates stay within 1 %.

    Returns
    -------
    float64[n]
        The representative of each value.

    Notes
    -----
    Theorem 3 claims that the total deviation always ends at 0. It doesn't: with R = 4, values of 3 and 1 are
    represented by 2 and 1. The bound above can be proved. With many small values the deviation does get back to 0.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, section 4.2, figure 6(b).

    Examples
    --------
    Ten keys of 38 in all are represented by 8, 4, 2 and 1. The sum of their ten representatives is 39:

    >>> phi = discretise_values(np.array([8.0, 7, 6, 5, 4, 3, 2, 1, 1, 1]), 4)
    >>> phi.tolist(), float(phi.sum())
    ([8.0, 4.0, 8.0, 8.0, 4.0, 2.0, 2.0, 1.0, 1.0, 1.0], 39.0)

    """
    order = np.argsort(-values, kind="stable")
    order = order[: np.count_nonzero(values)]
    phi = np.zeros(len(values))
    if len(order):
        unit = values[order[-1]]
        phi[order] = _find_representatives(values[order] / unit, float(degree)) * unit
    return phi


@kernel
def _find_representatives(descending: NDArray[np.float64], degree: float) -> NDArray[np.float64]:
    phi = np.empty(len(descending))
    deviation = 0.0
    for i in range(len(descending)):
        x = descending[i]
        if x >= degree:
            below = np.floor(x / degree) * degree
            above = below + degree
        else:
            below = 2.0 ** np.floor(np.log2(x))
            above = 2 * below
        phi[i] = above if deviation > 0 and x > below else below
        deviation += x - phi[i]
    return phi
