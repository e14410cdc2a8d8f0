"""A stream as a topology takes it, batch by batch: what each worker would get of a batch, in bounded memory."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping import Grouping
from unskew.grouping.arguments import check_choice
from unskew.grouping.feedback_loop import FeedbackLoop, Interval, PlanState
from unskew.grouping.keys import Keys
from unskew.grouping.planned import BatchGrouping
from unskew.grouping.simulator.sources import SPLITS, Substreams, divide_by_key

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_GATHERED = 1 << 18  # replicas that are held before they are merged


class BatchLoad(NamedTuple):
    """What the workers get of a batch."""

    tuples: int  #: n, the tuples of the batch.
    #: The time at work (s) of the busiest worker, and of all of them together, if each had a core of its own.
    busiest: float
    total: float
    most: int  #: The tuples of the worker that has most of them.
    touched: int  #: The (key, worker) pairs in the batch: the states that it reads and writes.


class SimulatedRouters:
    """The routers of S sources, and the feedback from W workers after each batch, as in a topology.

    A plan that the feedback gives holds from the next batch on. A topology with states that move holds it one batch
    later. Memory: the routers' own, and 8 bytes for each replica.

    Parameters
    ----------
    make : () → Grouping
        Makes a new router.
    sources : int
        S. Schemes that are ``shared`` have one router for all of them, and ``batched`` ones have one planner.
    split : "even" or "key"
        How tuples are divided between the sources: in turn, or by the key's hash.

    Raises
    ------
    ValueError
        ``split`` is neither, or the scheme must know the whole stream before its first tuple.

    """

    def __init__(self, make: Callable[[], Grouping], sources: int, split: str = "even") -> None:
        first = make()
        if type(first).fit is not Grouping.fit:
            raise ValueError(f"{first.name} must know the whole stream beforehand, so its batches have no time")
        self._by_key = check_choice("split", split, SPLITS) == "key"
        self._count = 1 if first.shared else sources
        routers = 1 if first.batched else self._count
        self._routers = [first.at_source(0), *(make().at_source(source) for source in range(1, routers))]
        self._monitors = [monitor for _ in range(first.workers) if (monitor := first.monitor()) is not None]
        self._loop = FeedbackLoop(lambda _: make(), first.workers) if first.controller() is not None else None
        self._plans, self._number = PlanState(first.workers), 0
        self._replicas: list[NDArray[np.uint64]] = []
        self._workers, self._seed = first.workers, first.seed
        self.name, self.keeps = first.name, first.is_sticky or first.migrates_keys

    def batch(self, keys: Keys, costs: NDArray[np.float64], factors: NDArray[np.float64], now: int) -> BatchLoad:
        """Route a batch, and let the controller plan the next one, if there is a controller.

        Parameters
        ----------
        keys : Keys
            The batch's n ≥ 1 keys.
        costs : float64[n], ms
            How long each tuple takes a worker with factor 1.
        factors : float64[W]
            How many times as long each worker takes.
        now : int, ms
            The batch's time.

        """
        n = len(keys)
        assigned = self._route(keys, costs, now)
        services = costs * factors[assigned]
        loads = np.bincount(assigned, minlength=self._workers)
        work = np.bincount(assigned, weights=services, minlength=self._workers) / 1000
        pairs = np.unique(keys.codes.astype(np.int64) * self._workers + assigned)
        self._note(keys.hashes[pairs // self._workers] * _GOLDEN + (pairs % self._workers).astype(np.uint64))
        if self._loop is not None:
            self._plan(keys, assigned, services, work)
        return BatchLoad(n, float(work.max()), float(work.sum()), int(loads.max()), len(pairs))

    @property
    def replicas(self) -> int:
        """The (key, worker) pairs so far."""
        self._replicas = [np.unique(np.concatenate([np.empty(0, np.uint64), *self._replicas]))]
        return len(self._replicas[0])

    def _route(self, keys: Keys, costs: NDArray[np.float64], now: int) -> NDArray[np.int32]:
        n, parts = len(keys), Substreams(keys)
        of_sources = self._of_sources(keys)
        assigned = np.empty(n, np.int32)
        planner = self._routers[0]
        if isinstance(planner, BatchGrouping):
            routed = planner.route_together([parts.part(own) for own in of_sources], [costs[own] for own in of_sources])
        else:
            times = np.full(n, now, np.int64)
            routed = [
                router.route(parts.part(own), times=times[own], costs=costs[own])
                for router, own in zip(self._routers, of_sources, strict=True)
            ]
        for own, workers in zip(of_sources, routed, strict=True):
            assigned[own] = workers
        return assigned

    def _of_sources(self, keys: Keys) -> list[slice] | list[NDArray[np.int64]]:
        """The tuples of each source, ascending."""
        if not self._by_key or self._count == 1:
            return [slice(source, None, self._count) for source in range(self._count)]
        sources = divide_by_key(keys, self._seed, self._count)
        return [np.flatnonzero(sources == source) for source in range(self._count)]

    def _note(self, pairs: NDArray[np.uint64]) -> None:
        """Remember replicas. What is held is merged when it has doubled, so that a pair costs O(log) comparisons."""
        self._replicas.append(pairs)
        if sum(map(len, self._replicas[1:])) > max(_GATHERED, len(self._replicas[0])):
            _ = self.replicas

    def _plan(
        self, keys: Keys, assigned: NDArray[np.int32], services: NDArray[np.float64], work: NDArray[np.float64]
    ) -> None:
        assert self._loop is not None
        parts, reports = Substreams(keys), {}
        for worker, monitor in enumerate(self._monitors):
            own = np.flatnonzero(assigned == worker)
            if len(own):
                monitor.observe(parts.part(own), services[own])
            if (report := monitor.report()) is not None:
                reports[worker] = report
        of_sources = {s: found for s, router in enumerate(self._routers) if (found := router.report()) is not None}
        interval = Interval(self._number, reports, of_sources, len(keys), busy=work.tolist())
        before, self._plans = self._plans.active, self._loop.after(self._plans, interval)
        self._number += 1
        if self._plans.active is not None and self._plans.active is not before:
            for router in self._routers:
                router.adopt(self._plans.active)
