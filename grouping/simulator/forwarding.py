"""Queues whose waiting tuples can move: when its turn comes, a tuple goes on to its key's present owner."""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.simulator.queues import Queues, append, pop


class Stage(NamedTuple):
    """The stream that the workers serve, and what has become of it."""

    codes: NDArray[np.int32]  # [n]
    arrivals: NDArray[np.float64]  # [n], ms
    costs: NDArray[np.float64]  # [n], ms
    factors: NDArray[np.float64]  # [P, W]
    starts: NDArray[np.int64]  # [P]
    workers: NDArray[np.int32]  # [n], where each tuple is, at last who executed it
    services: NDArray[np.float64]  # [n], ms, set when it starts
    finishes: NDArray[np.float64]  # [n], ms, set when it starts
    forwarded: NDArray[np.int64]  # [1], how often a tuple was passed on


@kernel
def advance(
    stage: Stage,
    queues: Queues,
    busy: NDArray[np.bool_],
    owners: NDArray[np.int32],
    first: int,
    stop: int,
    until: float,
) -> None:
    """Let the tuples [first, stop) arrive, and everything happen that happens up to ``until``.

    Passing a tuple on takes no time. O(log W) an event.

    ``busy`` [W] says which workers execute something (until ``queues.free``), ``owners`` [K] who owns each key now; the
    tuples are routed already (``stage.workers``).
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
            append(queues, worker, arriving)
            arriving += 1
        while not busy[worker] and queues.length[worker]:
            i = pop(queues, worker)
            owner = int(owners[stage.codes[i]]) + 0
            if owner != worker:
                stage.forwarded[0] += 1
                stage.workers[i] = owner
                if busy[owner]:
                    append(queues, owner, i)
                    continue
            # An idle owner has nothing waiting: it can start at once.
            phase = np.searchsorted(stage.starts, i, side="right") - 1
            stage.services[i] = stage.costs[i] * stage.factors[phase, owner]
            queues.free[owner] = stage.finishes[i] = now + stage.services[i]
            busy[owner] = True
            heappush(ends, (queues.free[owner], owner))
