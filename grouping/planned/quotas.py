"""Quotas: how much of each key's load a source sends to which worker, so that all sources follow one plan exactly.

A key's or bucket's load is a line from 0 to its load. Each source owns a stretch of it, in the order of the sources.
The plan cuts the line into parts, one per worker. A source goes along its stretch, in a bucket key by key, and sends
each tuple to the worker whose part it has reached. So it needs only the parts that its stretch reaches.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.planned.assignment import ReplicaAssignment
from unskew.grouping.planned.counts import BatchCounts, SourceCounts, bucket_homes
from unskew.grouping.planned.replicas import CurrentReplicas, find_positions

#: Tuples that all cost 1: an empty array, contiguous and read-only like arrays of costs.
NO_COSTS = np.empty(0)
NO_COSTS.flags.writeable = False
NONE = -1  # the quota of a key without one


class Quotas(NamedTuple):
    """The q quotas of one source, with c parts in all."""

    keys: NDArray[np.uint64]  #: uint64[q]: The buckets and keys with a quota, ascending.
    starts: NDArray[np.float64]  #: float64[q]: Where the source's stretch begins.
    #: int64[q + 1]: The parts of quota i, at least one, are those from ``firsts[i]`` to ``firsts[i + 1]``: the parts of
    #: the line that the source's stretch reaches.
    firsts: NDArray[np.int64]
    workers: NDArray[np.int32]  #: int32[c]: The worker of each part.
    ends: NDArray[np.float64]  #: float64[c]: Where each part ends.

    def get_parts(self, quota: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The worker of each part of a quota, and its load, if the source's stretch is the whole line."""
        rows = slice(self.firsts[quota], self.firsts[quota + 1])
        return self.workers[rows], np.diff(self.ends[rows], prepend=0)

    def of(self, keys: NDArray[np.uint64], buckets: NDArray[np.uint64], number: int) -> NDArray[np.int64]:
        """The quota of each key, or else of its bucket, or else ``NONE``. There are ``number`` buckets."""
        first = int(np.searchsorted(self.keys, np.uint64(number)))
        shared = np.full(number, NONE)
        shared[self.keys[:first].astype(np.int64)] = np.arange(first)
        own, alone = find_positions(self.keys[first:], keys)
        return np.where(alone, first + own, shared[buckets.astype(np.int64)])


def locate_cuts(
    codes: NDArray[np.int32],
    costs: NDArray[np.float64],
    keys: NDArray[np.uint64],
    cut: NDArray[np.int64],
    quota: NDArray[np.int64],
    quotas: Quotas,
) -> NDArray[np.float64]:
    """Where each cut key begins on its quota's line: float64[c]. Parameters: see ``route_by_quotas``.

    A bucket's keys follow each other in order of hashes. So a cut splits only one of them.
    """
    loads = _sum_loads(codes, costs, cut, len(keys))
    order = np.lexsort((keys[cut], quota))
    before = np.cumsum(loads[order]) - loads[order]
    _, first, number = np.unique(quota[order], return_index=True, return_counts=True)
    begin = np.empty(len(quota))
    begin[order] = quotas.starts[quota[order]] + before - np.repeat(before[first], number)
    return begin


@kernel
def _sum_loads(
    codes: NDArray[np.int32], costs: NDArray[np.float64], which: NDArray[np.int64], k: int
) -> NDArray[np.float64]:
    """The loads of some of k keys."""
    at = np.full(k, NONE)
    for i in range(len(which)):
        at[which[i]] = i
    loads = np.zeros(len(which))
    for i in range(len(codes)):
        if at[codes[i]] != NONE:
            loads[at[codes[i]]] += costs[i] if len(costs) else 1.0
    return loads


@kernel
def route_by_quotas(
    codes: NDArray[np.int32],
    costs: NDArray[np.float64],
    worker: NDArray[np.int32],
    cut: NDArray[np.int64],
    quota: NDArray[np.int64],
    begin: NDArray[np.float64],
    quotas: Quotas,
) -> NDArray[np.int32]:
    """Route each tuple to the worker of the part in which it begins.

    Parameters
    ----------
    codes : int32[n]
        The key of each tuple.
    costs : float64[n] or [0]
        The load of each tuple; 1 if empty.
    worker : int32[k]
        The worker of each key with only one.
    cut : int64[c]
        The other keys.
    quota : int64[c]
        The quota of each of these.
    begin : float64[c]
        Where each of these begins on its quota's line.
    quotas : Quotas
        The source's quotas.

    """
    routes = np.empty(len(codes), np.int32)
    at, part, last = np.empty(len(worker)), np.full(len(worker), NONE), np.empty(len(worker), np.int64)
    for i in range(len(cut)):
        code, first = cut[i], quotas.firsts[quota[i]]
        last[code] = quotas.firsts[quota[i] + 1] - 1
        while first < last[code] and begin[i] >= quotas.ends[first]:
            first += 1
        at[code], part[code] = begin[i], first
    cost = 1.0
    for i in range(len(codes)):
        code = codes[i]
        if part[code] == NONE:
            routes[i] = worker[code]
            continue
        if len(costs):
            cost = costs[i]
        # (A tuple without cost stays where its key is.)
        while cost > 0 and part[code] < last[code] and at[code] >= quotas.ends[part[code]]:
            part[code] += 1
        routes[i] = quotas.workers[part[code]]
        at[code] += cost
    return routes


def sum_worker_loads(
    batch: BatchCounts, present: CurrentReplicas, assigned: ReplicaAssignment, workers: int
) -> NDArray[np.float64]:
    """The load, float64[W], that a batch brings to each worker."""
    stays = np.ones(len(batch.keys), np.bool_)
    stays[assigned.item] = False
    loads = np.zeros(workers)
    np.add.at(loads, present.workers[present.starts[:-1]][stays], batch.loads[stays])  # these have one replica
    np.add.at(loads, assigned.worker, assigned.amount)
    return loads


@kernel
def _accumulate_ends(amounts: NDArray[np.float64], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """Where each part ends on its line, which begins at the ``first`` part before it."""
    ends = amounts.copy()
    line = 0
    for row in range(1, len(ends)):
        if line + 1 < len(first) and row == first[line + 1]:
            line += 1
        else:
            ends[row] += ends[row - 1]
    return ends


@kernel
def _locate_stretches(
    line: NDArray[np.int64],
    begin: NDArray[np.float64],
    end: NDArray[np.float64],
    first: NDArray[np.int64],
    ends: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of the parts in which stretches of lines begin and end: int64[n] each.

    Line i has the parts from ``first[i]`` to ``first[i + 1]``, and stretch j is ``line[j]`` from ``begin[j]`` to
    ``end[j]``. A stretch ends in the part where its last tuple begins.
    """
    low, high = np.empty(len(line), np.int64), np.empty(len(line), np.int64)
    for j in range(len(line)):
        row, last = first[line[j]], first[line[j] + 1] - 1
        row = min(last, row + np.searchsorted(ends[row : last + 1], begin[j], side="right"))
        low[j] = row
        high[j] = min(last, row + np.searchsorted(ends[row : last + 1], end[j]))
    return low, high


def make_quotas(
    counts: Sequence[SourceCounts],
    batch: BatchCounts,
    buckets: NDArray[np.uint64],
    present: CurrentReplicas,
    assigned: ReplicaAssignment,
) -> list[Quotas]:
    """Each source's quotas, from a batch's present replicas and the new assignment.

    A quota has only the parts of its line that the source's stretch reaches. What goes home anyway needs no quota.
    """
    item, worker, amount = assigned.where(assigned.receives_load(batch.loads))
    stays = np.ones(len(batch.keys), np.bool_)
    stays[item] = False
    only = present.workers[present.starts[:-1]]
    # A key with one replica needs a quota if that isn't its home, or if its bucket has a quota.
    home = bucket_homes(buckets)
    away = only != home
    shared = batch.keys[(~stays | away) & (batch.keys == buckets)]
    named = np.flatnonzero(stays & (away | np.isin(buckets, shared)))
    items = np.concatenate([item, named])
    order = np.argsort(items, kind="stable")
    items, number = np.unique(items[order], return_counts=True)
    first = np.concatenate([[0], np.cumsum(number)])
    workers = np.concatenate([worker, only[named]])[order]
    amounts = np.concatenate([amount, batch.loads[named]])[order]
    ends = _accumulate_ends(amounts, first[:-1])
    line = np.full(len(batch.keys), NONE)
    line[items] = np.arange(len(items))
    quotas = []
    for part, at, before in zip(counts, batch.at, batch.before, strict=True):
        own = np.flatnonzero(line[at] != NONE)
        low, high = _locate_stretches(line[at[own]], before[own], before[own] + part.loads[own], first, ends)
        need = _select_quotas(part.keys[own], buckets[at[own]], (low < high) | (workers[low] != home[at[own]]))
        own, low, high = own[need], low[need], high[need]
        firsts = np.concatenate([[0], np.cumsum(high + 1 - low)])
        rows = np.arange(firsts[-1]) + np.repeat(low - firsts[:-1], high + 1 - low)
        quotas.append(Quotas(part.keys[own], before[own], firsts, workers[rows], ends[rows]))
    return quotas


def _select_quotas(keys: NDArray[np.uint64], buckets: NDArray[np.uint64], away: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which quotas a source needs: those that lead away from home, and those of keys whose bucket has one."""
    return away | np.isin(buckets, keys[away & (keys == buckets)])
