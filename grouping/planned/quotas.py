"""Quotas: how much of each key's load a source sends to which worker, so that all sources carry out one plan exactly.

A key's load is a line from 0 to its load. Each source owns a stretch of the line, in the order of the sources. The plan
cuts the line into parts, one for each worker. A source goes along its own stretch and sends each tuple to the worker
whose part it has reached.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.planned.assignment import Assigned
from unskew.grouping.planned.counts import Counts, Merged
from unskew.grouping.planned.replicas import Present

#: The costs of tuples that all cost 1: an empty array, contiguous and read-only like arrays of costs.
NO_COSTS = np.empty(0)
NO_COSTS.flags.writeable = False
HOME = -1  # the quota of a key that has none: all of it goes to its home


class Quotas(NamedTuple):
    """The q quotas of one source, with c parts in all.

    Attributes
    ----------
    keys : uint64[k]
        The keys that have a quota, ascending. The first k quotas are theirs.
    tails : int64[W]
        The quota of each home's tail, or ``HOME``.
    starts : float64[q]
        Where the source's stretch begins.
    firsts : int64[q + 1]
        The parts of quota i are those from ``firsts[i]`` to ``firsts[i + 1]``. There is at least one.
    workers : int32[c]
        The worker of each part.
    ends : float64[c]
        Where each part ends.

    """

    keys: NDArray[np.uint64]
    tails: NDArray[np.int64]
    starts: NDArray[np.float64]
    firsts: NDArray[np.int64]
    workers: NDArray[np.int32]
    ends: NDArray[np.float64]


@kernel
def along(
    codes: NDArray[np.int32],
    costs: NDArray[np.float64],
    homes: NDArray[np.int32],
    quota: NDArray[np.int64],
    quotas: Quotas,
) -> NDArray[np.int32]:
    """Route tuples by quotas: each goes to the worker of the part in which it begins.

    Parameters
    ----------
    codes : int32[n]
        The key of each tuple.
    costs : float64[n] or [0]
        The load of each tuple. If empty, each load is 1.
    homes : int32[k]
        The home of each key.
    quota : int64[k]
        The quota of each key, or ``HOME``.
    quotas : Quotas
        The quotas of the source.

    """
    routes = np.empty(len(codes), np.int32)
    at, part = quotas.starts.copy(), quotas.firsts[:-1].copy()
    workers, ends, firsts = quotas.workers, quotas.ends, quotas.firsts
    cost = 1.0
    for i in range(len(codes)):
        code = codes[i]
        of = quota[code]
        if of == HOME:
            routes[i] = homes[code]
            continue
        while part[of] < firsts[of + 1] - 1 and at[of] >= ends[part[of]]:
            part[of] += 1
        routes[i] = workers[part[of]]
        if len(costs):
            cost = costs[i]
        at[of] += cost
    return routes


def loads_of(batch: Merged, present: Present, assigned: Assigned) -> NDArray[np.float64]:
    """The load, float64[W], that a batch brings to each worker."""
    m, workers = len(batch.keys), len(batch.tails)
    stays = np.ones(m + workers, np.bool_)
    stays[assigned.item] = False
    only = present.workers[present.starts[:-1]][stays[:m]]  # a key that stays has one replica
    loads = np.where(stays[m:], batch.tails, 0.0)
    np.add.at(loads, only, batch.loads[stays[:m]])
    np.add.at(loads, assigned.worker, assigned.amount)
    return loads


def quotas_of(
    counts: Sequence[Counts], batch: Merged, present: Present, homes: NDArray[np.int32], assigned: Assigned
) -> list[Quotas]:
    """The quotas of each source, from a batch's present replicas and the new assignment."""
    m = len(batch.keys)
    item, worker, amount = assigned.where(assigned.amount > 0)
    cut = np.unique(item[item >= m]) - m  # the workers whose tails are cut
    stays = np.ones(m, np.bool_)
    stays[assigned.item[assigned.item < m]] = False
    only = present.workers[present.starts[:-1]]
    # A key with one replica needs a quota if that isn't its home; or if it could be taken for a part of a cut tail.
    named = np.flatnonzero(stays & ((only != homes) | np.isin(homes, cut)))
    items = np.concatenate([item, named])
    order = np.argsort(items, kind="stable")
    items, first, number = np.unique(items[order], return_index=True, return_counts=True)
    workers = np.concatenate([worker, only[named]])[order]
    amounts = np.concatenate([amount, batch.loads[named]])[order]
    ends = np.concatenate([np.cumsum(part) for part in np.split(amounts, first[1:])])
    before_of_tails, quotas = np.zeros(len(cut)), []
    for part, at, before in zip(counts, batch.at, batch.before, strict=True):
        own = np.isin(at, items)
        which = np.searchsorted(items, np.concatenate([at[own], m + cut]))
        firsts = np.concatenate([[0], np.cumsum(number[which])])
        rows = np.arange(firsts[-1]) + np.repeat(first[which] - firsts[:-1], number[which])
        tails = np.full(len(part.tails), HOME, np.int64)
        tails[cut] = own.sum() + np.arange(len(cut))
        starts = np.concatenate([before[own], before_of_tails])
        quotas.append(Quotas(part.keys[own], tails, starts, firsts, workers[rows], ends[rows]))
        before_of_tails = before_of_tails + part.tails[cut]
    return quotas
