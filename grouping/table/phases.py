"""The workflow of section 3 for LLFD, MINTABLE, MINMIG and MIXED: cleaning, preparing, assigning.

``Workflow.run`` does phase I (cleaning). Phases II and III are Least-Load Fit Decreasing (Algorithm 1), the compiled
``fit_least_load``. These are the paper's steps:

    foreach k in C in descending order of c(k):
        foreach d in D in ascending order of L(d):
            if Adjust(k, d): assign k to d; break

    Adjust(k, d): TRUE if L(d) + c(k) ≤ L_max.
        Also TRUE if there is an exchangeable set E, chosen by ψ, with

        (i) E ⊆ the keys of d;
        (ii) c(k') < c(k) for all k' in E;
        (iii) L(d) + c(k) − Σ c(k') ≤ L_max.

        Then the keys of E are disassociated from d and added to C.

They are fast here for three reasons:

* What E adds to C is smaller than k, and k is the largest of C. So C is processed in one pass over the keys by cost,
  and no key is assigned twice.
* Once a key is too large for E, it stays so. So E is always the next part of d's keys by ψ, and each worker's keys are
  visited only once.
* Whether there is an E depends only on the sum of d's keys smaller than k, which is kept up to date.

After the sorts this takes O(R) in all, and O(W) for each key that moves.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.table.assignment import Assignment, KeyRecords


class Workflow:
    """The three phases over one set of records. The records are sorted once for any number of trials.

    ``limit`` is L_max. ``psi``, float64[R], is ψ, the selection criterion of phases II and III: the largest values are
    first, and equal ones in the records' order.
    """

    def __init__(self, records: KeyRecords, limit: float, psi: NDArray[np.float64]) -> None:
        self.records = records
        self.limit = limit
        self._rest = np.full(records.workers, records.rest, np.float64)
        self._by_cost = np.argsort(-records.cost, kind="stable")
        self._by_psi = self._by_cost if psi is records.cost else np.argsort(-psi, kind="stable")
        routed = np.flatnonzero(records.current != records.home)
        #: The records with entries in the routing table, in order of η: smallest memory first.
        self._routed = routed[np.argsort(records.memory[routed], kind="stable")]
        self._entries = np.cumsum(records.count[self._routed])
        self.table = int(self._entries[-1]) if len(routed) else 0

    def run(self, back: int) -> Assignment:
        """Execute phases I to III: move ``back`` of the ``table`` entries home, then balance."""
        records = self.records
        worker, count = records.current.copy(), records.count
        by_cost, by_psi = self._by_cost, self._by_psi
        record = np.arange(len(records))
        whole = int(np.searchsorted(self._entries, back, side="right"))
        home = self._routed[:whole]
        worker[home] = records.home[home]
        part = back - int(self._entries[whole - 1]) if whole else back
        if part:
            # A group of which only a part goes home becomes two entries.
            split = self._routed[whole]
            count = np.append(count, part)
            count[split] -= part
            worker = np.append(worker, records.home[split])
            record = np.append(record, split)
            by_cost, by_psi = (
                np.insert(order, np.flatnonzero(order == split)[0] + 1, len(records)) for order in (by_cost, by_psi)
            )
        left, entry, assigned = fit_least_load(
            records.cost[record], worker, count, by_cost, by_psi, self._rest, self.limit
        )
        stay = np.flatnonzero(left)
        return Assignment(
            records,
            np.concatenate([record[stay], record[entry]]),
            np.concatenate([worker[stay], assigned]),
            np.concatenate([left[stay], np.ones(len(entry), np.int64)]),
        )


class _FitState(NamedTuple):
    """The workers while keys move. An entry is a record, or the part of it that phase I left on a worker."""

    cost: NDArray[np.float64]  # [E], of each key
    left: NDArray[np.int64]  # [E], keys still on their worker
    waiting: NDArray[np.int64]  # [E], keys in the candidate set C
    load: NDArray[np.float64]  # [W], L(d)
    smaller: NDArray[np.float64]  # [W], sum of its keys that are smaller than the candidate
    queue: NDArray[np.int64]  # [E], entries by worker, each worker's by ψ
    head: NDArray[np.int64]  # [W], its first available entry in the queue
    end: NDArray[np.int64]  # [W], past its last entry


@kernel
def fit_least_load(
    cost: NDArray[np.float64],
    worker: NDArray[np.int32],
    count: NDArray[np.int64],
    by_cost: NDArray[np.int64],
    by_psi: NDArray[np.int64],
    rest: NDArray[np.float64],
    limit: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Reassign keys of overloaded workers.

    Parameters
    ----------
    cost : float64[E]
        The cost of each key of an entry.
    worker : int32[E]
        The worker that has the entry's keys after phase I.
    count : int64[E]
        The entry's number of keys.
    by_cost : int64[E]
        The entries in descending order of cost.
    by_psi : int64[E]
        The entries in order of ψ, with costs of 0 last.
    rest : float64[W]
        The load of each worker besides the entries, which stays there.
    limit : float
        L_max.

    Returns
    -------
    left : int64[E]
        How many keys of each entry stay.
    entries : int64[M]
        The entry of each other key, in order of assignment.
    assigned : int32[M]
        The worker of each other key, in the same order.

    """
    state = _start_fit(cost, worker, count, by_psi, rest)
    pending = _prepare_workers(state, rest, limit)
    alone = limit - float(rest.min())
    most = count.sum()
    entries, assigned, moves = np.empty(most, np.int64), np.empty(most, np.int32), 0
    i = 0
    while pending > 0 and i < len(by_cost):
        c = float(cost[by_cost[i]])
        j = i
        while j < len(by_cost) and cost[by_cost[j]] == c:
            # Equal keys aren't smaller: from here on they are too large for an exchangeable set.
            state.smaller[worker[by_cost[j]]] -= c * state.left[by_cost[j]]
            j += 1
        for entry in by_cost[i:j]:
            for _ in range(state.waiting[entry]):
                d, displaced = _choose_worker(state, c, limit, alone)
                state.load[d] += c
                entries[moves], assigned[moves] = entry, d
                moves += 1
                pending += displaced - 1
        i = j
    return state.left, entries[:moves].copy(), assigned[:moves].copy()


@kernel
def _start_fit(
    cost: NDArray[np.float64],
    worker: NDArray[np.int32],
    count: NDArray[np.int64],
    by_psi: NDArray[np.int64],
    rest: NDArray[np.float64],
) -> _FitState:
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
    return _FitState(cost, count.copy(), np.zeros(len(cost), np.int64), load, load.copy(), queue, head, end)


@kernel
def _prepare_workers(state: _FitState, rest: NDArray[np.float64], limit: float) -> int:
    """Phase II: disassociate keys by ψ from each overloaded worker until it isn't any more. Return how many."""
    candidates = 0
    for d in range(len(state.load)):
        while state.load[d] > limit and state.head[d] < state.end[d]:
            candidates += _take_key(state, d)
        state.smaller[d] = state.load[d] - rest[d]
    return candidates


@kernel
def _take_key(state: _FitState, d: int) -> int:
    """Move a key of the first entry of d's queue into C (1), or if it has none left, go to the next entry (0)."""
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
def _choose_worker(state: _FitState, c: float, limit: float, alone: float) -> tuple[int, int]:
    """The worker for a candidate of cost c, and how many keys it gives up for it.

    If the candidate fits anywhere, it fits at the least loaded worker. If no worker can take it, the least loaded one
    does. But a candidate above ``alone``, which would exceed the limit even on a worker that has given up all its keys,
    goes to a worker that is then nearly empty.
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
            # (iii), with all keys
            if state.load[d] + c - state.smaller[d] <= limit and (best < 0 or state.load[d] < state.load[best]):
                best = d
        if best < 0:
            return _displace_smaller(state, c) if c > alone else (least, 0)
        displaced = _take_exchangeable(state, best, c, limit)
        if displaced > 0:
            return best, displaced


@kernel
def _displace_smaller(state: _FitState, c: float) -> tuple[int, int]:
    """The worker with the least load of keys not smaller than c, after giving up all smaller ones."""
    best = 0
    for d in range(1, len(state.load)):
        kept, least_kept = state.load[d] - state.smaller[d], state.load[best] - state.smaller[best]
        if kept < least_kept or (kept == least_kept and state.load[d] < state.load[best]):
            best = d
    displaced = 0
    while state.head[best] < state.end[best] and state.cost[state.queue[state.head[best]]] > 0:
        if state.cost[state.queue[state.head[best]]] < c:
            displaced += _take_key(state, best)
        else:
            state.head[best] += 1
    return best, displaced


@kernel
def _take_exchangeable(state: _FitState, d: int, c: float, limit: float) -> int:
    """Take an exchangeable set from d. Return its size, or 0 if there is none after all.

    ``smaller`` is a running sum of floats, which may slightly exceed the keys' sum, and is then corrected.
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
            displaced += _take_key(state, d)
        else:
            state.head[d] += 1
    return displaced


def smallest_table(records: KeyRecords, limit: float) -> Assignment:
    """Algorithm 2: move back all keys of the routing table, then assign by LLFD, highest computation cost first."""
    workflow = Workflow(records, limit, records.cost)
    return workflow.run(back=workflow.table)
