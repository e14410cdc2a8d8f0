"""Following a routing table scheme through a workload, and sweeps of one parameter over several schemes."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reproduction.mixed.workload import Workload
from unskew.grouping import create, encode, parameters
from unskew.grouping.table.controller import TableController
from unskew.grouping.table.lookup import look_up
from unskew.grouping.table.records import overload, sum_at
from unskew.grouping.table.router import TableRouter
from unskew.grouping.table.window import empty_window

#: READJ is run with σ for so many tracked keys each, and the best result is reported, as the paper does.
TRACKED = (50, 200, 800, 2000)
#: Keys, and their c(k) and S(k, w).
Totals: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Case:
    """One setting of all parameters; the defaults are Table 2's (see ``reproduction.mixed.setting``).

    Attributes
    ----------
    workload : Workload
        K, z, f and the seed.
    workers : int
        N_D.
    options : dict
        The schemes' own parameters; each takes those that it has.

    """

    workload: Workload = field(default_factory=Workload)
    workers: int = 15
    options: dict[str, Any] = field(
        default_factory=lambda: {"theta_max": 0.08, "table_max": 3000, "window": 1, "beta": 1.5}
    )

    def at(self, **changed: Any) -> Self:
        """The case with some parameters changed, whosever they are."""
        ours = {name: changed.pop(name) for name in ("workers",) if name in changed}
        theirs = {f.name: changed.pop(f.name) for f in fields(Workload) if f.name in changed}
        return replace(self, workload=replace(self.workload, **theirs), options={**self.options, **changed}, **ours)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of following a scheme, over the intervals after the first plan.

    Attributes
    ----------
    milliseconds : float
        Median CPU time from the statistics to the plan.
    migration : float
        State that moved at an interval's end, in % of all state: the mean.
    table : float
        Entries of the routing table: the mean.
    theta : float
        The highest load above the mean load after the plan, in %: the mean.
    tables : tuple of int
        Entries of the routing table after each interval, the first too.

    """

    milliseconds: float
    migration: float
    table: float
    theta: float
    tables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One scheme at one value of what is swept; ``window`` is w."""

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
    options = {name: value for name, value in case.options.items() if name in parameters(scheme)}
    router = create(scheme, case.workers, **options)
    assert isinstance(router, TableRouter)
    controller, window = router.controller(), empty_window()
    hashes = np.sort(encode(np.arange(case.workload.keys)).hashes)
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
    share = 0.0 if migration is None else migration.share
    return seconds, share, len(controller.table_keys), overload(sum_at(worker, cost, router.workers))
