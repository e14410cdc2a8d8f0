"""Following a routing table scheme through the paper's synthetic workload, and sweeps of one parameter over schemes."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.grouping import create, encode_keys, get_parameters
from unskew.grouping.table.assignment import look_up, max_overload, sum_by_position
from unskew.grouping.table.reports import empty_window
from unskew.grouping.table.router import TableController, TableRouter

TUPLES_PER_KEY = 100


@dataclass(frozen=True)
class Workload:
    """Section 5, "Synthetic data". The defaults are those of Table 2 as far as they can be made out.

    ``keys``: K, size of the key domain. ``z``: Distribution skewness. ``f``: Fluctuation rate: between two intervals
    the load that hashing gives to some worker changes by f·L̄ at least. ``seed``: Everything random comes from it.
    """

    keys: int = 10_000
    z: float = 0.85
    f: float = 1.0
    seed: int = 0

    def intervals(self, home: NDArray[np.int32], workers: int) -> Iterator[NDArray[np.float64]]:
        """The tuples of each key, interval after interval without end: float64[K].

        ``home`` (int32[K]): h(k), the worker that the hash function names: swaps are between keys of different workers.
        ``workers``: N_D. The paper "keeps swapping frequencies between keys from different task instances until the
        change on workload is significant enough". Swaps of random keys don't get to f = 1 with thousands of keys. Here
        one worker, drawn anew each time, gets the frequencies of random *tuples'* keys of other workers in exchange for
        smaller ones of its own.
        """
        rng = np.random.default_rng(self.seed)
        share = np.arange(1, self.keys + 1) ** -self.z
        frequency = np.sort(rng.multinomial(TUPLES_PER_KEY * self.keys, share / share.sum()))[::-1].astype(np.float64)
        cumulated = np.cumsum(frequency)
        key = rng.permutation(self.keys)  # of each rank
        rank = np.argsort(key)  # of each key
        while True:
            yield frequency[rank]
            worker = rng.integers(workers)
            own = np.flatnonzero(home == worker)
            wanted = self.f * cumulated[-1] / workers if 0 < len(own) < self.keys else 0.0
            for _ in range(100 * self.keys):
                if wanted <= 0:
                    break
                heavy = int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right"))
                light = int(rank[rng.choice(own)])
                if home[key[heavy]] != worker and frequency[heavy] > frequency[light]:
                    wanted -= frequency[heavy] - frequency[light]
                    key[heavy], key[light] = key[light], key[heavy]
                    rank[key[heavy]], rank[key[light]] = heavy, light


#: READJ is run with σ for so many tracked keys each, and the best result is reported, as the paper does.
TRACKED = (50, 200, 800, 2000)
#: Keys, and their c(k) and S(k, w).
Totals: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Case:
    """One setting of all parameters; the defaults are Table 2's (see ``evidence.papers.mixed.setting``).

    ``workload``: K, z, f and the seed. ``workers``: N_D. ``options``: The schemes' own parameters; each takes those
    that it has.
    """

    workload: Workload = field(default_factory=Workload)
    workers: int = 15
    options: dict[str, Any] = field(
        default_factory=lambda: {"theta_max": 0.08, "table_max": 3000, "window": 1, "beta": 1.5}
    )

    def at(self, **changed: Any) -> Self:
        """The case with some parameters changed: of the workload, of the schemes, or ``workers``."""
        ours = {name: changed.pop(name) for name in ("workers",) if name in changed}
        theirs = {f.name: changed.pop(f.name) for f in fields(Workload) if f.name in changed}
        return replace(self, workload=replace(self.workload, **theirs), options={**self.options, **changed}, **ours)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A scheme's figures over the intervals after the first plan.

    ``milliseconds``: Median CPU time from the statistics to the plan. ``migration``: State that moved at an interval's
    end, in % of all state: the mean. ``table``: Entries of the routing table: the mean. ``theta``: The highest load
    above the mean load after the plan, in %: the mean. ``tables``: Entries of the routing table after each interval,
    the first too.
    """

    milliseconds: float
    migration: float
    table: float
    theta: float
    tables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One scheme at one value of the parameter that is swept; ``window`` is w."""

    value: Any
    window: int
    scheme: str
    outcome: Outcome


def sweep(case: Case, name: str, values: Sequence[Any], schemes: Sequence[str], intervals: int) -> list[Point]:
    """Each scheme at each value of a parameter, on the same workload."""
    points: list[Point] = []
    for value in values:
        here = case.at(**{name: value})
        points += [Point(value, here.options["window"], s, follow(s, here, intervals)) for s in schemes]
    return points


def follow(scheme: str, case: Case, intervals: int) -> Outcome:
    """Plan at the end of each interval, ``intervals`` times after the first; READJ with the best of σ."""
    if scheme == "READJ" and "sigma" not in case.options:
        cost = np.sort(next(case.workload.intervals(np.empty(0, np.int32), case.workers)))[::-1]
        sigmas = {cost[min(tracked, len(cost)) - 1] / cost.sum() * case.workers for tracked in TRACKED}
        tried = [follow(scheme, case.at(sigma=sigma), intervals) for sigma in sorted(sigmas)]
        bearable = 100 * case.options["theta_max"] + 0.01
        return min(tried, key=lambda outcome: (max(outcome.theta, bearable), outcome.migration))
    options = {name: value for name, value in case.options.items() if name in get_parameters(scheme)}
    router = create(scheme, case.workers, **options)
    assert isinstance(router, TableRouter)
    controller, window = router.controller(), empty_window()
    hashes = np.sort(encode_keys(np.arange(case.workload.keys)).hashes)
    plans: list[tuple[float, float, int, float]] = []
    for cost in islice(case.workload.intervals(router.home(hashes), case.workers), intervals + 1):
        seen = np.flatnonzero(cost)
        window = window.after([{"keys": hashes[seen], "costs": cost[seen], "sizes": cost[seen]}], router.window)
        plans.append(_plan(router, controller, window.totals()))
    times, migrations, tables, thetas = zip(*plans[1:], strict=True)
    return Outcome(
        1000 * statistics.median(times),
        100 * statistics.mean(migrations),
        statistics.mean(tables),
        100 * statistics.mean(thetas),
        tuple(plan[2] for plan in plans),
    )


def _plan(router: TableRouter, controller: TableController, totals: Totals) -> tuple[float, float, int, float]:
    """Seconds to plan, share of the state that moves, entries of the table and overload afterwards."""
    started = time.process_time()
    migration = controller.rebalance(*totals)
    seconds = time.process_time() - started
    keys, cost, _ = totals
    worker = look_up(keys, router.home(keys), controller.table_keys, controller.table_workers)
    share = 0.0 if migration is None else migration["migration_share"]
    return seconds, share, len(controller.table_keys), max_overload(sum_by_position(worker, cost, router.workers))
