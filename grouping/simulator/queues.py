"""First-in-first-out queues of W workers, compiled: when does each tuple finish, how many wait."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel

NONE = -1


class Queues(NamedTuple):
    """Tuples by their number in the stream, each worker's in a linked list."""

    following: NDArray[np.int32]  # [n], the tuple after this one at its worker
    head: NDArray[np.int32]  # [W], the worker's first tuple that isn't done, as far as is known
    tail: NDArray[np.int32]  # [W]
    length: NDArray[np.int64]  # [W], tuples from head on
    free: NDArray[np.float64]  # [W], when the worker has nothing left to do, ms


def new_queues(n: int, workers: int) -> Queues:
    """Empty queues for n tuples to come."""
    return Queues(
        np.full(n, NONE, np.int32),
        np.full(workers, NONE, np.int32),
        np.full(workers, NONE, np.int32),
        np.zeros(workers, np.int64),
        np.zeros(workers),
    )


@kernel
def append(queues: Queues, worker: int, i: int) -> None:
    """Put tuple i at the end of a worker's queue."""
    if queues.length[worker]:
        queues.following[queues.tail[worker]] = i
    else:
        queues.head[worker] = i
    queues.tail[worker] = i
    queues.length[worker] += 1


@kernel
def pop(queues: Queues, worker: int) -> int:
    """Take the first tuple off a worker's queue that isn't empty."""
    i = queues.head[worker]
    queues.head[worker] = queues.following[i]
    queues.following[i] = NONE
    queues.length[worker] -= 1
    return int(i)


@kernel
def serve(
    queues: Queues,
    first: int,
    workers: NDArray[np.int32],
    arrivals: NDArray[np.float64],
    services: NDArray[np.float64],
    finishes: NDArray[np.float64],
) -> None:
    """Queue the tuples ``first``, ``first + 1``, … of these workers, arrivals and service times; set their finishes.

    With queues that are first in, first out, a finish is known on arrival (Lindley): the later of arrival and the
    worker's last finish, plus the service time. O(1) a tuple.
    """
    for i in range(len(workers)):
        worker = workers[i]
        finishes[i] = queues.free[worker] = max(arrivals[i], queues.free[worker]) + services[i]
        append(queues, worker, first + i)


@kernel
def wait_at(queues: Queues, finishes: NDArray[np.float64], now: float) -> NDArray[np.int64]:
    """How many tuples wait at each worker, the one being executed not among them: int64[W]. O(W) and O(1) a tuple.

    ``finishes`` is of the whole stream; ``now`` never goes back.
    """
    waiting = np.empty(len(queues.head), np.int64)
    for worker in range(len(queues.head)):
        while queues.length[worker] and finishes[queues.head[worker]] <= now:
            pop(queues, worker)
        waiting[worker] = max(0, queues.length[worker] - 1)
    return waiting


@kernel
def service_times(
    first: int,
    workers: NDArray[np.int32],
    costs: NDArray[np.float64],
    factors: NDArray[np.float64],
    starts: NDArray[np.int64],
) -> NDArray[np.float64]:
    """What the tuples from number ``first`` on take: cost · factor of the phase and worker, float64[n], ms."""
    services = np.empty(len(workers))
    phase = np.searchsorted(starts, first, side="right") - 1
    for i in range(len(workers)):
        while phase + 1 < len(starts) and starts[phase + 1] <= first + i:
            phase += 1
        services[i] = costs[i] * factors[phase, workers[i]]
    return services
