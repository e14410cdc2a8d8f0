"""Divides a stream between sources, and routes their parts.

A part has no more distinct keys than tuples, like a router's batch in a topology (``Substreams``).
"""

from collections.abc import Callable, Iterator
from time import thread_time_ns

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.grouping.arguments import check_choice
from unskew.grouping.feedback import Reports
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.interface import Grouping
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys
from unskew.grouping.planned import BatchGrouping
from unskew.grouping.simulator.workload import Workload

SPLITS = ("even", "key")


def divide_by_key(keys: Keys, seed: int, sources: int) -> NDArray[np.int32]:
    """The source of each tuple, int32[n], by a hash of its key."""
    return choose_homes(keys.hashes, hash_function(seed, 1 << 21), sources)[keys.codes]


class Sources:
    """S sources with a router each, or one for all if the scheme is ``shared`` or ``batched``.

    ``nanoseconds`` is the CPU time spent on routing so far.
    """

    def __init__(self, make: Callable[[], Grouping], workload: Workload, sources: int, split: str) -> None:
        check_choice("split", split, SPLITS)
        first = make()
        count = 1 if first.shared else sources
        routers = 1 if first.batched else count
        self.routers = [first.at_source(0), *(make().at_source(source) for source in range(1, routers))]
        self._count = count
        self._workload = workload
        self._substreams = Substreams(workload.keys)
        self._source = None
        if split == "key" and count > 1:
            self._source = divide_by_key(workload.keys, first.seed, count)
        if len(workload):
            first.fit(workload.keys)
            # Compiles, so that only routing is measured.
            trial = make()
            trial.fit(workload.keys)
            trial.route(self._substreams.part(slice(0, 1)), times=0, costs=0.0)
        self.nanoseconds = 0

    def route(self, start: int, stop: int, assigned: NDArray[np.int32]) -> None:
        """Route the tuples [start, stop) into ``assigned`` [n]."""
        workload = self._workload
        if isinstance(self.routers[0], BatchGrouping):
            self._route_batch(self.routers[0], start, stop, assigned)
            return
        for source, which in self._parts(start, stop):
            keys = self._substreams.part(which)
            times, costs = workload.arrivals[which].astype(np.int64), workload.costs[which]
            began = thread_time_ns()
            workers = self.routers[source].route(keys, times=times, costs=costs)
            self.nanoseconds += thread_time_ns() - began
            assigned[which] = workers

    def _route_batch(self, planner: BatchGrouping, start: int, stop: int, assigned: NDArray[np.int32]) -> None:
        """Route a batch: all sources count, and follow one plan."""
        own = [which for _, which in self._parts(start, stop)]
        parts = [self._substreams.part(which) for which in own]
        costs = [self._workload.costs[which] for which in own]
        began = thread_time_ns()
        routed = planner.route_together(parts, costs)
        self.nanoseconds += thread_time_ns() - began
        for which, workers in zip(own, routed, strict=True):
            assigned[which] = workers

    def reports(self) -> Reports:
        """The routers' reports, if any, by source."""
        return {s: report for s, router in enumerate(self.routers) if (report := router.report()) is not None}

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, slice | NDArray[np.int64]]]:
        """Each source with tuples in [start, stop), and their slice or numbers, ascending."""
        count = self._count
        if self._source is None:
            for first in range(start, min(start + count, stop)):
                yield first % count, slice(first, stop, count)
            return
        here = self._source[start:stop]
        order = start + np.argsort(here, kind="stable")
        ends = np.cumsum(np.bincount(here, minlength=count))
        for source in np.unique(here).tolist():
            yield source, order[ends[source - 1] if source else 0 : ends[source]]


class Substreams:
    """Selects parts of a stream of n tuples with K distinct keys.

    Time O(1) a tuple of the part. Memory: 4 · K bytes.
    """

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._position = np.full(len(keys.hashes), -1, np.int32)

    def part(self, which: slice | NDArray[np.int64]) -> Keys:
        """The part with the tuples of a slice or these numbers."""
        codes = self.keys.codes[which]
        if len(codes) >= len(self.keys.hashes):
            return Keys(codes, self.keys.hashes, self.keys.distinct)
        renumbered, used = _renumber_codes(np.ascontiguousarray(codes), self._position)
        return Keys(renumbered, self.keys.hashes[used], self.keys.distinct.take(pa.array(used)))


@kernel
def _renumber_codes(
    codes: NDArray[np.int32], position: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Renumber codes by first appearance: the new codes, and each one's old code. ``position`` is reset to −1."""
    renumbered, used = np.empty(len(codes), np.int32), np.empty(len(codes), np.int32)
    distinct = 0
    for i in range(len(codes)):
        code = codes[i]
        if position[code] < 0:
            position[code] = distinct
            used[distinct] = code
            distinct += 1
        renumbered[i] = position[code]
    for i in range(distinct):
        position[used[i]] = -1
    return renumbered, used[:distinct].copy()
