"""The workers, which serve the sources' tuples, first in, first out.

``FifoWorkers`` execute all that they get. ``ForwardingWorkers`` pass on a waiting tuple if its key has another owner
when its turn comes. The compiled queues compute when each tuple is finished, and how many wait.
"""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.interface import Grouping
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.simulator.workload import Speeds, Workload


class FifoWorkers:
    """W workers and their queues, which execute all tuples that they get.

    Attributes
    ----------
    count : int
        W.
    assigned : int32[n]
        The worker of each tuple, written by the sources.
    finishes, services : float64[n], ms
        When each tuple served so far is finished, and its service time.
    moved : int
        The number of keys whose owner changed.
    forward_count : int
        How often a tuple was passed on to another worker so far.

    """

    moved = 0
    forward_count = 0

    def __init__(self, workload: Workload, speeds: Speeds) -> None:
        self._workload, self._speeds = workload, speeds
        n, self.count = len(workload), speeds.factors.shape[1]
        self.assigned, self.finishes, self.services = np.empty(n, np.int32), np.full(n, np.nan), np.empty(n)
        self._queues = new_queues(n, self.count)

    def serve(self, start: int, stop: int, until: float) -> None:
        """Take the tuples [start, stop), which arrive by ``until`` (ms), and serve up to that time."""
        workload, here = self._workload, slice(start, stop)
        self.services[here] = service_times(
            start, self.assigned[here], workload.costs[here], self._speeds.factors, self._speeds.starts
        )
        serve_tuples(
            self._queues, start, self.assigned[here], workload.arrivals[here], self.services[here], self.finishes[here]
        )

    def waiting(self, now: float) -> NDArray[np.int64]:
        """The waiting tuples at each worker: int64[W]. ``now`` is the ``until`` of the last ``serve_tuples``."""
        return count_waiting(self._queues, self.finishes, now)

    def on_plan(self, router: Grouping, seen: int) -> None:
        """Handle a new plan that the routers have adopted after ``seen`` tuples."""

    def occupy(self, now: float, times: NDArray[np.float64]) -> None:
        """Keep each worker busy with moving state for ``times`` (float64[W], ms).

        From ``now`` on, or when the worker has finished its tuples.
        """
        free = self._queues.free
        free[:] = np.where(times > 0, np.maximum(free, now) + times, free)

    def is_final(self) -> bool:
        """Whether no later plan can affect the tuples taken so far."""
        return True


class ForwardingWorkers(FifoWorkers):
    """Workers that pass on a tuple if its key has another owner when its turn comes."""

    def __init__(self, workload: Workload, speeds: Speeds, router: Grouping) -> None:
        super().__init__(workload, speeds)
        self._forwarded = np.zeros(1, np.int64)
        given = workload.keys.codes, workload.arrivals, workload.costs, speeds.factors, speeds.starts
        self._stage = ServiceTrace(*given, self.assigned, self.services, self.finishes, self._forwarded)
        self._busy = np.zeros(self.count, np.bool_)
        self._owners = self._find_owners(router)

    def serve(self, start: int, stop: int, until: float) -> None:
        advance_workers(self._stage, self._queues, self._busy, self._owners, start, stop, until)
        self.forward_count = int(self._forwarded[0])

    def waiting(self, now: float) -> NDArray[np.int64]:
        return self._queues.length.copy()

    def on_plan(self, router: Grouping, seen: int) -> None:
        owners = self._find_owners(router)
        known = np.bincount(self._workload.keys.codes[:seen], minlength=len(owners)) > 0
        self.moved += int(np.count_nonzero(known & (owners != self._owners)))
        self._owners = owners

    def occupy(self, now: float, times: NDArray[np.float64]) -> None:
        return  # only tuples are passed on: partial results stay at former owners until the merge at the end

    def is_final(self) -> bool:
        return not self._busy.any()

    def _find_owners(self, router: Grouping) -> NDArray[np.int32]:
        owners = router.owners(self._workload.keys)
        assert owners is not None, f"{router.name} forwards, so it must name its keys' owners"
        return owners


NONE = -1


class WorkerQueues(NamedTuple):
    """Each worker's queue: a linked list of tuples' numbers in the stream."""

    following: NDArray[np.int32]  # [n], the tuple after this one at its worker
    head: NDArray[np.int32]  # [W], the worker's first tuple that isn't known to be finished
    tail: NDArray[np.int32]  # [W]
    length: NDArray[np.int64]  # [W], tuples from head on
    free: NDArray[np.float64]  # [W], when the worker has finished its last tuple, ms


def new_queues(n: int, workers: int) -> WorkerQueues:
    """Empty queues for n tuples to come."""
    return WorkerQueues(
        np.full(n, NONE, np.int32),
        np.full(workers, NONE, np.int32),
        np.full(workers, NONE, np.int32),
        np.zeros(workers, np.int64),
        np.zeros(workers),
    )


@kernel
def append_tuple(queues: WorkerQueues, worker: int, i: int) -> None:
    """Append tuple i to a worker's queue."""
    if queues.length[worker]:
        queues.following[queues.tail[worker]] = i
    else:
        queues.head[worker] = i
    queues.tail[worker] = i
    queues.length[worker] += 1


@kernel
def pop_tuple(queues: WorkerQueues, worker: int) -> int:
    """Remove the first tuple of a worker's queue, which must not be empty."""
    i = queues.head[worker]
    queues.head[worker] = queues.following[i]
    queues.following[i] = NONE
    queues.length[worker] -= 1
    return int(i)


@kernel
def serve_tuples(
    queues: WorkerQueues,
    first: int,
    workers: NDArray[np.int32],
    arrivals: NDArray[np.float64],
    services: NDArray[np.float64],
    finishes: NDArray[np.float64],
) -> None:
    """Queue the tuples ``first``, ``first + 1``, … at these workers, and set their finishes.

    In FIFO queues, a finish is known on arrival (Lindley): the later of the arrival and the worker's last finish, plus
    the service time. Time O(1) a tuple.
    """
    for i in range(len(workers)):
        worker = workers[i]
        finishes[i] = queues.free[worker] = max(arrivals[i], queues.free[worker]) + services[i]
        append_tuple(queues, worker, first + i)


@kernel
def count_waiting(queues: WorkerQueues, finishes: NDArray[np.float64], now: float) -> NDArray[np.int64]:
    """The tuples that wait at each worker, without the one in execution: int64[W]. Time O(W), and O(1) a tuple.

    ``finishes`` is of the whole stream. ``now`` must not decrease between calls.
    """
    waiting = np.empty(len(queues.head), np.int64)
    for worker in range(len(queues.head)):
        while queues.length[worker] and finishes[queues.head[worker]] <= now:
            pop_tuple(queues, worker)
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
    """The service times of tuples from ``first`` on: cost · factor of phase and worker, float64[n], ms."""
    services = np.empty(len(workers))
    phase = np.searchsorted(starts, first, side="right") - 1
    for i in range(len(workers)):
        while phase + 1 < len(starts) and starts[phase + 1] <= first + i:
            phase += 1
        services[i] = costs[i] * factors[phase, workers[i]]
    return services


class ServiceTrace(NamedTuple):
    """The stream that the workers serve, and its tuples' execution."""

    codes: NDArray[np.int32]  # [n]
    arrivals: NDArray[np.float64]  # [n], ms
    costs: NDArray[np.float64]  # [n], ms
    factors: NDArray[np.float64]  # [P, W]
    starts: NDArray[np.int64]  # [P]
    workers: NDArray[np.int32]  # [n], each tuple's worker, in the end the one that executed it
    services: NDArray[np.float64]  # [n], ms, set when the tuple starts
    finishes: NDArray[np.float64]  # [n], ms, set when the tuple starts
    forwarded: NDArray[np.int64]  # [1], how often a tuple was passed on


@kernel
def advance_workers(
    stage: ServiceTrace,
    queues: WorkerQueues,
    busy: NDArray[np.bool_],
    owners: NDArray[np.int32],
    first: int,
    stop: int,
    until: float,
) -> None:
    """Let the tuples [first, stop) arrive and the workers serve, up to ``until`` (ms).

    Passing on takes no time. Time O(log W) an event.

    ``busy`` [W] says which workers execute a tuple, until ``queues.free``. ``owners`` [K] are the keys' present owners.
    The tuples are already routed (``stage.workers``).
    """
    ends = [(queues.free[worker], worker) for worker in range(len(busy)) if busy[worker]]
    heapify(ends)
    arriving = first
    while True:
        arrival = stage.arrivals[arriving] if arriving < stop else np.inf
        end = ends[0][0] if ends else np.inf
        now = min(arrival, end)
        if now > until or now == np.inf:
            return
        if end <= arrival:
            worker = heappop(ends)[1]
            busy[worker] = False
        else:
            worker = int(stage.workers[arriving]) + 0  # numba: an int64, as on the heap
            append_tuple(queues, worker, arriving)
            arriving += 1
        while not busy[worker] and queues.length[worker]:
            i = pop_tuple(queues, worker)
            owner = int(owners[stage.codes[i]]) + 0
            if owner != worker:
                stage.forwarded[0] += 1
                stage.workers[i] = owner
                if busy[owner]:
                    append_tuple(queues, owner, i)
                    continue
            # An idle owner can start at once.
            phase = np.searchsorted(stage.starts, i, side="right") - 1
            stage.services[i] = stage.costs[i] * stage.factors[phase, owner]
            queues.free[owner] = stage.finishes[i] = now + stage.services[i]
            busy[owner] = True
            heappush(ends, (queues.free[owner], owner))
