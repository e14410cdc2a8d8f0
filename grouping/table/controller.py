"""The controller of routing table schemes: makes a routing table and a migration plan from statistics."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.feedback import Controller, Queues, Reports
from unskew.grouping.state import Value
from unskew.grouping.table.assignment import (
    Assignment,
    KeyRecords,
    MigrationPlan,
    look_up,
    plan_migration,
    sum_by_position,
)
from unskew.grouping.table.compact import expand_groups, group_records
from unskew.grouping.table.reports import ReportWindow, empty_window


class TablePlanner(Protocol):
    """The part of a ``TableRouter`` that plans, for the controller."""

    workers: int
    theta_max: float
    window: int
    degree: int | None

    def home(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Each key's home."""
        ...

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        """Choose a worker for each record, so that no load is above the limit if possible."""
        ...

    def priority(self, records: KeyRecords) -> NDArray[np.float64]:
        """The order in which keys of a group are assigned: float64[R], the largest first."""
        ...


class TableController(Controller):
    """Plans a new routing table after an interval in which a worker's load is above L_max (section 4).

    It has every key that the workers reported in the last w intervals. Memory: 16 bytes per key and interval, and 8
    more for each key of the last interval.

    Parameters
    ----------
    scheme : TablePlanner
        The scheme. Its routing table isn't used, because the controller keeps the one that it planned.
    identity : str
        The routers' identity.

    Notes
    -----
    The paper leaves these cases open:

    * An entry whose key was in none of the last w intervals goes with the next plan. It has no state of the window to
      move, but it may have older state. So its key is among those that move, with size 0.
    * If a worker doesn't name a key (``KeyMonitor``), the key's load counts as the worker's and stays there. Entries of
      such keys don't expire. A key that is named in only some of the intervals seems smaller than it is.
    * A plan is made only if it lowers the load above L_max, Σ max(L(d) − L_max, 0). A key that is heavier than L_max
      can't be balanced, and would otherwise move from worker to worker in every interval.

    """

    state_fields = ("table_keys", "table_workers", "keys", "sizes", "intervals", "costs", "rest_sizes")

    def __init__(self, scheme: TablePlanner, identity: str) -> None:
        super().__init__(identity)
        self._scheme = scheme
        self.table_keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self.table_workers: NDArray[np.int32] = np.empty(0, np.int32)
        self.keys, self.sizes, self.intervals, self.costs = empty_window()
        #: The state sizes of keys that no report named, for each interval of the window.
        self.rest_sizes = np.empty(0)

    def _plan(self, reports: Reports, queues: Queues, sources: Reports | None) -> Mapping[str, Value] | None:
        window = ReportWindow(self.keys, self.sizes, self.intervals, self.costs)
        window = window.after((reports[worker] for worker in sorted(reports)), self._scheme.window)
        self.keys, self.sizes, self.intervals, self.costs = window
        rest = np.zeros((self._scheme.workers, 2))
        for worker, report in reports.items():
            rest[worker] = report["rest"]
        self.rest_sizes = np.append(self.rest_sizes, rest[:, 1].sum())[-self._scheme.window :]
        keys = self._add_table_keys(*window.totals(), rest[:, 0] > 0)
        migration = self.rebalance(*keys, rest[:, 0], float(self.rest_sizes.sum()))
        return None if migration is None else migration.values()

    def _add_table_keys(
        self,
        hashes: NDArray[np.uint64],
        cost: NDArray[np.float64],
        memory: NDArray[np.float64],
        silent: NDArray[np.bool_],
    ) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
        """Add the keys of table entries of workers that don't report all keys, so that the entries stay."""
        there = self.table_keys[silent[self.table_workers]]
        there = there[~np.isin(there, hashes, assume_unique=True)]
        at, nothing = np.searchsorted(hashes, there), np.zeros(len(there))
        return np.insert(hashes, at, there), np.insert(cost, at, nothing), np.insert(memory, at, nothing)

    def rebalance(
        self,
        hashes: NDArray[np.uint64],
        cost: NDArray[np.float64],
        memory: NDArray[np.float64],
        rest: NDArray[np.float64] | float = 0.0,
        rest_size: float = 0.0,
    ) -> MigrationPlan | None:
        """Plan for K keys with these costs and state sizes, all [K], with ascending hashes. None: no change.

        ``rest`` is each worker's load of other keys (float64[W]), and ``rest_size`` is the size of their states. The
        next call starts from this plan's routing table, as if all routers had adopted it.
        """
        scheme = self._scheme
        home = scheme.home(hashes)
        current = look_up(hashes, home, self.table_keys, self.table_workers)
        keys = KeyRecords(cost, memory, current, home, np.ones(len(hashes), np.int64), scheme.workers, rest)
        limit = keys.limit(scheme.theta_max)
        excess = _sum_excess(keys.loads(), limit)
        if excess <= 0:
            return None
        destination = self._assign(keys, limit)
        if _sum_excess(sum_by_position(destination, cost, scheme.workers) + rest, limit) >= excess:
            return None
        expired = ~np.isin(self.table_keys, hashes, assume_unique=True)
        forgotten, there = self.table_keys[expired], self.table_workers[expired]
        migration = plan_migration(hashes, keys, destination, rest_size).expire_entries(
            forgotten, there, scheme.home(forgotten)
        )
        self.table_keys, self.table_workers = migration.table_keys, migration.table_workers
        return migration

    def _assign(self, keys: KeyRecords, limit: float) -> NDArray[np.int32]:
        """F' of each key: int32[K]."""
        scheme = self._scheme
        if scheme.degree is None:
            assignment = scheme.assign(keys, limit)
            destination = np.empty(len(keys), np.int32)
            destination[assignment.record] = assignment.worker
            return destination
        records, group = group_records(keys, scheme.degree)
        return expand_groups(scheme.assign(records, records.limit(scheme.theta_max)), group, scheme.priority(keys))


def _sum_excess(loads: NDArray[np.float64], limit: float) -> float:
    """The load above the limit, over all workers."""
    return float(np.maximum(loads - limit, 0).sum())
