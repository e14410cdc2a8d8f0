"""Least-Load Fit Decreasing (Algorithm 1): phases II and III of every rebalancing, compiled.

The paper's steps, and why they are fast here:

    foreach k in C in descending order of c(k):
        foreach d in D in ascending order of L(d):
            if Adjust(k, d): assign k to d; break

    Adjust(k, d): TRUE if L(d) + c(k) ≤ L_max, or if there is an exchangeable set E, chosen by ψ, with
        (i) E ⊆ the keys of d;  (ii) c(k') < c(k) for all k' in E;  (iii) L(d) + c(k) − Σ c(k') ≤ L_max
        (then the keys of E are disassociated from d and added to C)

* What E adds to C is smaller than k, and k is the largest of C: so C is worked off in one pass over the keys by cost,
  and no key is assigned twice.
* Once a key is too large for E it stays so. So E is always the next part of d's keys by ψ, and each worker's keys
  are walked once in all.
* Whether there is an E needs only the sum of d's keys smaller than k, which is kept up to date.

So after the sorts it takes O(R) and O(W) for each key that moves.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel


class _Fit(NamedTuple):
    """The workers while keys move. An entry is a record, or the part of one that phase I left on a worker."""

    cost: NDArray[np.float64]  # [E], of each key
    left: NDArray[np.int64]  # [E], keys still on their worker
    waiting: NDArray[np.int64]  # [E], keys in the candidate set C
    load: NDArray[np.float64]  # [W], L(d)
    smaller: NDArray[np.float64]  # [W], sum of its keys that are smaller than the candidate at hand
    queue: NDArray[np.int64]  # [E], entries by worker, each worker's by ψ
    head: NDArray[np.int64]  # [W], its first entry in the queue that may still be taken
    end: NDArray[np.int64]  # [W], past its last entry


@kernel
def fit(
    cost: NDArray[np.float64],
    worker: NDArray[np.int32],
    count: NDArray[np.int64],
    by_cost: NDArray[np.int64],
    by_psi: NDArray[np.int64],
    rest: NDArray[np.float64],
    limit: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Take keys from overloaded workers and assign them anew.

    Of each of E entries: the cost of its keys, the worker that has them after phase I, how many they are; then the
    entries in descending order of cost, and in the order in which ψ selects them (costs of 0 last); the load that each
    of W workers has beside them, float64[W], which stays; L_max.

    Returns the keys of each entry that stay, int64[E], and the others, one a row in the order in which they were
    assigned: the entry, int64[M], and the worker, int32[M].
    """
    state = _begin(cost, worker, count, by_psi, rest)
    pending = _prepare(state, rest, limit)
    alone = limit - float(rest.min())
    most = count.sum()
    entries, assigned, moves = np.empty(most, np.int64), np.empty(most, np.int32), 0
    i = 0
    while pending > 0 and i < len(by_cost):
        c = float(cost[by_cost[i]])
        j = i
        while j < len(by_cost) and cost[by_cost[j]] == c:
            # Equal keys aren't smaller ones: from here on they're too large for an exchangeable set.
            state.smaller[worker[by_cost[j]]] -= c * state.left[by_cost[j]]
            j += 1
        for entry in by_cost[i:j]:
            for _ in range(state.waiting[entry]):
                d, displaced = _choose(state, c, limit, alone)
                state.load[d] += c
                entries[moves], assigned[moves] = entry, d
                moves += 1
                pending += displaced - 1
        i = j
    return state.left, entries[:moves].copy(), assigned[:moves].copy()


@kernel
def _begin(
    cost: NDArray[np.float64],
    worker: NDArray[np.int32],
    count: NDArray[np.int64],
    by_psi: NDArray[np.int64],
    rest: NDArray[np.float64],
) -> _Fit:
    workers = len(rest)
    load, end = rest.copy(), np.zeros(workers, np.int64)
    for entry in range(len(cost)):
        load[worker[entry]] += cost[entry] * count[entry]
        end[worker[entry]] += 1
    head = np.zeros(workers, np.int64)
    for d in range(1, workers):
        end[d] += end[d - 1]
        head[d] = end[d - 1]
    at, queue = head.copy(), np.empty(len(cost), np.int64)
    for entry in by_psi:
        queue[at[worker[entry]]] = entry
        at[worker[entry]] += 1
    return _Fit(cost, count.copy(), np.zeros(len(cost), np.int64), load, load.copy(), queue, head, end)


@kernel
def _prepare(state: _Fit, rest: NDArray[np.float64], limit: float) -> int:
    """Phase II: from each overloaded worker, disassociate keys by ψ until it isn't any more; how many in all."""
    candidates = 0
    for d in range(len(state.load)):
        while state.load[d] > limit and state.head[d] < state.end[d]:
            candidates += _take(state, d)
        state.smaller[d] = state.load[d] - rest[d]
    return candidates


@kernel
def _take(state: _Fit, d: int) -> int:
    """Move one key of the first entry of d's queue into C; 0 if it has none left, and then the next entry is first."""
    entry = state.queue[state.head[d]]
    if state.left[entry] == 0:
        state.head[d] += 1
        return 0
    state.left[entry] -= 1
    state.waiting[entry] += 1
    state.load[d] -= state.cost[entry]
    state.smaller[d] -= state.cost[entry]
    return 1


@kernel
def _choose(state: _Fit, c: float, limit: float, alone: float) -> tuple[int, int]:
    """The worker for a candidate of cost c, and how many keys it gives up for it.

    If the candidate doesn't overload any worker it doesn't overload the least loaded one. If no worker can take it,
    the least loaded one does; or, if it's above the limit by itself (with what the workers have beside, and can't give
    up: above ``alone``), one that is as good as empty then.
    """
    least = 0
    for d in range(1, len(state.load)):
        if state.load[d] < state.load[least]:
            least = d
    if state.load[least] + c <= limit:
        return least, 0
    while True:
        best = -1
        for d in range(len(state.load)):
            # (iii), with every key that there is
            if state.load[d] + c - state.smaller[d] <= limit and (best < 0 or state.load[d] < state.load[best]):
                best = d
        if best < 0:
            return _isolate(state, c) if c > alone else (least, 0)
        displaced = _exchange(state, best, c, limit)
        if displaced > 0:
            return best, displaced


@kernel
def _isolate(state: _Fit, c: float) -> tuple[int, int]:
    """The worker with the least load of keys that aren't smaller; it gives up all that are."""
    best = 0
    for d in range(1, len(state.load)):
        kept, least_kept = state.load[d] - state.smaller[d], state.load[best] - state.smaller[best]
        if kept < least_kept or (kept == least_kept and state.load[d] < state.load[best]):
            best = d
    displaced = 0
    while state.head[best] < state.end[best] and state.cost[state.queue[state.head[best]]] > 0:
        if state.cost[state.queue[state.head[best]]] < c:
            displaced += _take(state, best)
        else:
            state.head[best] += 1
    return best, displaced


@kernel
def _exchange(state: _Fit, d: int, c: float, limit: float) -> int:
    """Take an exchangeable set from d; its size, or 0 if there is none after all.

    ``smaller`` is a running sum of floats: it may promise a little more than there is, and then it's put right.
    """
    there, at = 0.0, state.head[d]
    while state.load[d] + c - there > limit and at < state.end[d]:
        entry = state.queue[at]
        if state.cost[entry] < c:
            there += state.cost[entry] * state.left[entry]
        at += 1
    if state.load[d] + c - there > limit:
        state.smaller[d] = there
        return 0
    displaced = 0
    while state.load[d] + c > limit and state.head[d] < state.end[d]:
        if state.cost[state.queue[state.head[d]]] < c:
            displaced += _take(state, d)
        else:
            state.head[d] += 1
    return displaced
