"""The workers: they serve what the sources send, each first in, first out."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.interface import Grouping
from unskew.grouping.simulator.forwarding import Stage, advance
from unskew.grouping.simulator.queues import new_queues, serve, service_times, wait_at
from unskew.grouping.simulator.workload import Speeds, Workload


class Crew(Protocol):
    """W workers.

    Attributes
    ----------
    assigned : int32[n]
        The worker of each tuple; the sources write here.
    finishes, services : float64[n], ms
        Of the tuples served so far.
    moved : int
        Keys whose owner changed.

    """

    assigned: NDArray[np.int32]
    finishes: NDArray[np.float64]
    services: NDArray[np.float64]
    moved: int

    @property
    def forwarded(self) -> int:
        """Tuples passed on so far."""
        ...

    def serve(self, start: int, stop: int, until: float) -> None:
        """Take the tuples [start, stop), which arrive up to ``until`` (ms)."""
        ...

    def waiting(self, now: float) -> NDArray[np.int64]:
        """Tuples that wait at each worker, int64[W]; ``now`` is the ``until`` of the last ``serve``."""
        ...

    def adopted(self, router: Grouping, seen: int) -> None:
        """The routers have a new plan; ``seen`` tuples have come so far."""
        ...

    def occupy(self, now: float, times: NDArray[np.float64]) -> None:
        """Keep the workers busy with moving state from ``now`` on, after what they have: float64[W], ms."""
        ...

    def done(self) -> bool:
        """Nothing that a plan could change is left of the tuples taken."""
        ...


class Fifo:
    """Workers that execute what they are sent."""

    moved = 0

    def __init__(self, load: Workload, speeds: Speeds) -> None:
        self._load, self._speeds = load, speeds
        n = len(load)
        self.assigned, self.finishes, self.services = np.empty(n, np.int32), np.empty(n), np.empty(n)
        self._queues = new_queues(n, speeds.factors.shape[1])

    def serve(self, start: int, stop: int, until: float) -> None:
        load, here = self._load, slice(start, stop)
        self.services[here] = service_times(
            start, self.assigned[here], load.costs[here], self._speeds.factors, self._speeds.starts
        )
        serve(self._queues, start, self.assigned[here], load.arrivals[here], self.services[here], self.finishes[here])

    def waiting(self, now: float) -> NDArray[np.int64]:
        return wait_at(self._queues, self.finishes, now)

    def adopted(self, router: Grouping, seen: int) -> None:
        return

    def occupy(self, now: float, times: NDArray[np.float64]) -> None:
        free = self._queues.free
        free[:] = np.where(times > 0, np.maximum(free, now) + times, free)

    def done(self) -> bool:
        return True

    @property
    def forwarded(self) -> int:
        return 0


class Forwarding:
    """Workers that look, before they execute a tuple, whether its key is still theirs, and pass it on if it isn't."""

    def __init__(self, load: Workload, speeds: Speeds, router: Grouping) -> None:
        self._load = load
        n, workers = len(load), speeds.factors.shape[1]
        self.assigned, self.finishes, self.services = np.empty(n, np.int32), np.full(n, np.nan), np.empty(n)
        self._forwarded = np.zeros(1, np.int64)
        self._stage = Stage(
            load.keys.codes, load.arrivals, load.costs, speeds.factors, speeds.starts,
            self.assigned, self.services, self.finishes, self._forwarded,
        )  # fmt: skip
        self._queues = new_queues(n, workers)
        self._busy = np.zeros(workers, np.bool_)
        self._owners = self._owners_of(router)
        self.moved = 0

    def serve(self, start: int, stop: int, until: float) -> None:
        advance(self._stage, self._queues, self._busy, self._owners, start, stop, until)

    def waiting(self, now: float) -> NDArray[np.int64]:
        return self._queues.length.copy()

    def adopted(self, router: Grouping, seen: int) -> None:
        owners = self._owners_of(router)
        known = np.bincount(self._load.keys.codes[:seen], minlength=len(owners)) > 0
        self.moved += int(np.count_nonzero(known & (owners != self._owners)))
        self._owners = owners

    def occupy(self, now: float, times: NDArray[np.float64]) -> None:
        # Only tuples are passed on: what a key's former owners hold stays there until it is merged at the end.
        return

    def done(self) -> bool:
        return not self._busy.any()

    @property
    def forwarded(self) -> int:
        return int(self._forwarded[0])

    def _owners_of(self, router: Grouping) -> NDArray[np.int32]:
        owners = router.owners(self._load.keys)
        assert owners is not None, f"{router.name} forwards, so it must name its keys' owners"
        return owners
