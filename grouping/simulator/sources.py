"""The sources: how the stream's tuples come to them, and what their routers make of them."""

from collections.abc import Callable, Iterator
from time import thread_time_ns

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.hashing import function, homes
from unskew.grouping.interface import Grouping
from unskew.grouping.simulator.feedback import Reports
from unskew.grouping.simulator.substream import Substreams
from unskew.grouping.simulator.workload import Workload

SPLITS = ("even", "key")


class Sources:
    """S sources with a router each, or one for all where the scheme says so (``Grouping.shared``).

    Attributes
    ----------
    routers : list of Grouping
    nanoseconds : int
        CPU time spent on routing so far.

    """

    def __init__(self, make: Callable[[], Grouping], load: Workload, sources: int, split: str) -> None:
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}; valid: {', '.join(SPLITS)}")
        first = make()
        count = 1 if first.shared else sources
        self.routers = [first.at_source(0), *(make().at_source(source) for source in range(1, count))]
        self._load = load
        self._substreams = Substreams(load.keys)
        self._source = None
        if split == "key" and count > 1:
            self._source = homes(load.keys.hashes, function(first.seed, 1 << 21), count)[load.keys.codes]
        if len(load):
            first.foresee(load.keys)
            # Compiles, so that the time measured is routing's.
            trial = make()
            trial.foresee(load.keys)
            trial.route(self._substreams.part(slice(0, 1)), times=0, costs=0.0)
        self.nanoseconds = 0

    def route(self, start: int, stop: int, assigned: NDArray[np.int32]) -> None:
        """Route the tuples [start, stop) into their places of ``assigned``."""
        load = self._load
        for source, which in self._parts(start, stop):
            keys = self._substreams.part(which)
            times, costs = load.arrivals[which].astype(np.int64), load.costs[which]
            began = thread_time_ns()
            workers = self.routers[source].route(keys, times=times, costs=costs)
            self.nanoseconds += thread_time_ns() - began
            assigned[which] = workers

    def reports(self) -> Reports:
        """What the routers have to report."""
        return {s: report for s, router in enumerate(self.routers) if (report := router.report()) is not None}

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, slice | NDArray[np.int64]]]:
        """Each source that has any of the tuples [start, stop), and which: a slice or their numbers, ascending."""
        count = len(self.routers)
        if self._source is None:
            for first in range(start, min(start + count, stop)):
                yield first % count, slice(first, stop, count)
            return
        here = self._source[start:stop]
        order = start + np.argsort(here, kind="stable")
        ends = np.cumsum(np.bincount(here, minlength=count))
        for source in np.unique(here).tolist():
            yield source, order[ends[source - 1] if source else 0 : ends[source]]
