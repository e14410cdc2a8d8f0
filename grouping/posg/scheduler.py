"""POSG's scheduler, a source: the state machine of Figure 3 as compiled steps on plain arrays."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.least_loaded import build_heap, raise_least
from unskew.grouping.posg.sketch import estimate_cost

ROUND_ROBIN, SEND_ALL, WAIT_ALL, RUN = 0, 1, 2, 3
STATES = ("ROUND_ROBIN", "SEND_ALL", "WAIT_ALL", "RUN")
# Positions in `control`.
STATE, TURN, EPOCH = 0, 1, 2


class Scheduler(NamedTuple):
    """One scheduler's knowledge of k instances.

    Until an instance has sent matrices, they are 0. ``means`` is a tuple's mean cost there, the estimate for an item
    that the instance has never seen, for which W/F is 0/0, and which the paper leaves open.
    """

    control: NDArray[np.int64]  # [3], state, next instance of a round robin, epoch of the synchronisation
    known: NDArray[np.bool_]  # [k], has sent matrices
    frequencies: NDArray[np.int64]  # [k, r, c]
    works: NDArray[np.float64]  # [k, r, c]
    means: NDArray[np.float64]  # [k]
    estimated: NDArray[np.float64]  # [k], Ĉ, ms
    heap: NDArray[np.int32]  # [k], instances by Ĉ; in order only in WAIT_ALL and RUN


@kernel
def submit_tuple(scheduler: Scheduler, at: NDArray[np.int32], key: int) -> int:
    """Choose the instance for a tuple of this key (SUBMIT, UPDATEĈ of Listing III.2).

    ``at`` [K, r] are the cells of all keys. Time O(r + log k).
    """
    control = scheduler.control
    if control[STATE] == ROUND_ROBIN:
        op = control[TURN]
        control[TURN] = (op + 1) % len(scheduler.estimated)
    elif control[STATE] == SEND_ALL:
        # The next k tuples carry the requests, one per instance.
        op = control[TURN]
        scheduler.estimated[op] += _estimate_cost(scheduler, op, at, key)
        control[TURN] += 1
        if control[TURN] == len(scheduler.estimated):
            _enter_state(scheduler, WAIT_ALL)
    else:
        op = scheduler.heap[0]
        raise_least(scheduler.heap, scheduler.estimated, _estimate_cost(scheduler, op, at, key))
    return int(op)


@kernel
def receive_matrices(scheduler: Scheduler, op: int) -> None:
    """Enter SEND_ALL, because instance ``op`` has sent matrices.

    From ROUND_ROBIN only once all instances have sent some.
    """
    scheduler.known[op] = True
    if scheduler.control[STATE] != ROUND_ROBIN or scheduler.known.all():
        scheduler.control[TURN] = 0
        scheduler.control[EPOCH] += 1
        scheduler.control[STATE] = SEND_ALL


@kernel
def synchronise_accounts(scheduler: Scheduler, deltas: NDArray[np.float64]) -> None:
    """Correct the accounts by Ĉ += Δ when all replies of the epoch have come, and enter RUN (Figure 3.E)."""
    scheduler.estimated[:] += deltas
    _enter_state(scheduler, RUN)


@kernel
def mean_cost(frequencies: NDArray[np.int64], works: NDArray[np.float64]) -> float:
    """The mean cost of these matrices' tuples, or 0 if there are none."""
    count = frequencies[0].sum()
    return works[0].sum() / count if count else 0.0


@kernel
def _enter_state(scheduler: Scheduler, state: int) -> None:
    scheduler.control[STATE] = state
    scheduler.heap[:] = build_heap(scheduler.estimated)


@kernel
def _estimate_cost(scheduler: Scheduler, op: int, at: NDArray[np.int32], key: int) -> float:
    return estimate_cost(scheduler.frequencies, scheduler.works, op, at, key, scheduler.means[op])


@kernel
def submit_all(scheduler: Scheduler, codes: NDArray[np.int32], at: NDArray[np.int32]) -> NDArray[np.int32]:
    """``submit_tuple`` for n tuples: int32[n]. No message comes in between, so each long state has its own loop."""
    n, i = len(codes), 0
    workers = np.empty(n, np.int32)
    if scheduler.control[STATE] == ROUND_ROBIN:
        turn, k = scheduler.control[TURN], len(scheduler.estimated)
        while i < n:
            workers[i] = turn
            turn = turn + 1 if turn + 1 < k else 0
            i += 1
        scheduler.control[TURN] = turn
    while i < n and scheduler.control[STATE] == SEND_ALL:
        workers[i] = submit_tuple(scheduler, at, codes[i])
        i += 1
    if i < n:
        heap, estimated, means = scheduler.heap, scheduler.estimated, scheduler.means
        frequencies, works = scheduler.frequencies, scheduler.works
        heap[:] = build_heap(estimated)
        while i < n:
            op = heap[0]
            workers[i] = op
            raise_least(heap, estimated, estimate_cost(frequencies, works, op, at, codes[i], float(means[op])))
            i += 1
    return workers
