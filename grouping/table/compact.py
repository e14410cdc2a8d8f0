"""The compact representation of keys (section 4): those that are alike in everything a planner asks are one record."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.table.hlhe import discretise
from unskew.grouping.table.records import Placement, Records


def compact(keys: Records, degree: int) -> tuple[Records, NDArray[np.int64]]:
    """Group keys by their six-dimensional vector ``(d', d, d_h, v_c, v_S, #)``.

    ``d`` is the worker that has the keys, ``d_h`` the one that the hash function names, ``v_c`` and ``v_S`` their
    discretised cost and memory, ``#`` how many they are. ``d'``, the worker that they'll go to, is what planning
    finds out: a ``Placement`` says it, with one row for each part of a record that goes elsewhere.

    Parameters
    ----------
    keys : Records
        K keys, each a record of its own.
    degree : int
        R of the discretisation, see ``discretise``.

    Returns
    -------
    records : Records
        R ≤ K groups, in ascending order of (d, d_h, v_c, v_S).
    group : int64[K]
        The record of each key.

    """
    costs, cost = np.unique(discretise(keys.cost, degree), return_inverse=True)
    memories, memory = np.unique(discretise(keys.memory, degree), return_inverse=True)
    pairs, pair = np.unique(keys.current.astype(np.int64) * keys.workers + keys.home, return_inverse=True)
    # In two steps, as the product of all four numbers needn't fit into an int64.
    triples, triple = np.unique(pair * len(costs) + cost, return_inverse=True)
    vectors, group, count = np.unique(triple * len(memories) + memory, return_inverse=True, return_counts=True)
    triple, memory = np.divmod(vectors, len(memories))
    pair, cost = np.divmod(triples[triple], len(costs))
    current, home = np.divmod(pairs[pair], keys.workers)
    return (
        Records(
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


def expand(placement: Placement, group: NDArray[np.int64], psi: NDArray[np.float64]) -> NDArray[np.int32]:
    """Name the keys that a placement of groups moves.

    Of a record's keys, those that ψ selects first move, by the planner's order of moving; the others stay.

    Parameters
    ----------
    placement : Placement
        Of records that ``compact`` made.
    group : int64[K]
        As ``compact`` gave it.
    psi : float64[K]
        ψ of the keys themselves, by their complete statistics: keys of the largest value first.

    Returns
    -------
    int32[K]
        F': the worker of each key.

    """
    stays = placement.worker == placement.records.current[placement.record]
    rows = np.lexsort((np.arange(len(stays)), stays, placement.record))
    keys = np.lexsort((-psi, group))
    destination = np.empty(len(group), np.int32)
    destination[keys] = np.repeat(placement.worker[rows], placement.count[rows])
    return destination
