"""Mixed routing: a small routing table over a hash function, and the controller that plans it from statistics."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import UsageError
from unskew.grouping.arguments import check_integer, check_number
from unskew.grouping.feedback import Controller, Queues, Reports
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value
from unskew.grouping.table.assignment import Assignment, KeyRecords, look_up, plan_migration, sum_by_position
from unskew.grouping.table.compact import expand_groups, group_records
from unskew.grouping.table.phases import Workflow
from unskew.grouping.table.reports import KeyMonitor, ReportWindow, empty_window


class TableRouter(Grouping):
    """Send a key to the worker of its routing table entry, or home if it has no entry (Equation 1).

    Schemes differ in planning the table (``priority`` and ``assign``, functions of the records alone), by default
    as LLFD. Without a plan, a router routes like KEY.

    Parameters
    ----------
    theta_max : float
        θmax ≥ 0: the share of the mean load by which a worker may exceed it before keys move. Smaller: more balance and
        more migration. The default is the paper's, 0.08.
    window : int
        w ≥ 1, the number of intervals over which an operator keeps state. It determines what moving a key costs. The
        default is 5. The paper tries 1 to 20.
    degree : int, optional
        R of the compact representation (``table.compact.group_records``), a power of 2: plan with groups of keys. None:
        plan with the keys themselves.
    report_keys : int, optional
        How many keys all workers together name to the controller in an interval, at least 1. Each worker names its
        heaviest keys, at least one. Of the rest it reports only the sum, which stays (``KeyMonitor``). The reports take
        24 bytes a key and 1.3 kB a worker. With the default, 30,000, that is less than a megabyte for up to 200
        workers. Fewer: if a worker's heaviest key can't move and many light keys must, it loses them over several
        plans. None: all keys, as in the paper.

    """

    migrates_keys = True
    state_fields = ("table_keys", "table_workers")

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        theta_max: float = 0.08,
        window: int = 5,
        degree: int | None = None,
        report_keys: int | None = 30_000,
    ) -> None:
        super().__init__(workers, seed=seed)
        self.report_keys = None if report_keys is None else check_integer("report_keys", report_keys, 1)
        self.theta_max = check_number("theta_max", theta_max, 0)
        self.window = check_integer("window", window, 1)
        self.degree = None if degree is None else check_integer("degree", degree, 1)
        if self.degree is not None and self.degree & (self.degree - 1):
            raise UsageError(f"degree is {degree!r}; valid: a power of 2, or none to plan with the keys themselves")
        self.table_keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self.table_workers: NDArray[np.int32] = np.empty(0, np.int32)

    def priority(self, records: KeyRecords) -> NDArray[np.float64]:
        """ψ, the order of keys for migration: float64[R], the largest first."""
        return records.cost

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        """Plan the keys' workers, so that no load is above ``limit`` (L_max) if possible."""
        return Workflow(records, limit, self.priority(records)).run(back=0)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        return self.owners(keys)[keys.codes]

    def owners(self, keys: Keys) -> NDArray[np.int32]:
        return look_up(keys.hashes, self.home(keys.hashes), self.table_keys, self.table_workers)

    def home(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """h(k) of each key: int32[k]."""
        return choose_homes(hashes, hash_function(self.seed), self.workers)

    def moving_keys(self, other: Grouping, most: int | None = None) -> NDArray[np.uint64] | None:
        """The keys of either routing table whose owners differ.

        None if W or the seed differ, or if one of the tables has more than ``most`` entries.
        """
        if not isinstance(other, TableRouter) or (self.workers, self.seed) != (other.workers, other.seed):
            return None
        if most is not None and max(len(self.table_keys), len(other.table_keys)) > most:
            return None
        named = np.sort(np.concatenate([self.table_keys, other.table_keys]), kind="stable")  # merges sorted arrays
        named = named[np.append(True, named[1:] != named[:-1])[: len(named)]]
        home = self.home(named)
        here, there = (look_up(named, home, each.table_keys, each.table_workers) for each in (self, other))
        return named[here != there]

    def _adopt(self, values: Mapping[str, Any], *, missed: bool) -> None:
        """Adopt the plan's routing table, which is complete, so that missed plans don't matter."""
        self.table_keys = np.asarray(values["table_keys"], np.uint64)
        self.table_workers = np.asarray(values["table_workers"], np.int32)

    def internals(self) -> Mapping[str, Any]:
        """``table``: entries of the routing table."""
        return {"table": len(self.table_keys)}

    def monitor(self) -> KeyMonitor:
        return KeyMonitor(None if self.report_keys is None else max(1, self.report_keys // self.workers))

    def controller(self) -> "TableController":
        return TableController(self, self._identity())

    def _identity(self) -> str:
        parameters = f"theta_max={self.theta_max} window={self.window} degree={self.degree}"
        return f"{super()._identity()} {parameters} report_keys={self.report_keys}"


class TableController(Controller):
    """Plans a new routing table after an interval in which a worker's load is above L_max (section 4).

    It has every key that the workers reported in the last w intervals. Memory: 16 bytes per key and interval, and 8
    more for each key of the last interval. The scheme's own routing table isn't used, because the controller keeps the
    one that it planned. The paper leaves these cases open:

    * An entry whose key was in none of the last w intervals goes with the next plan. It has no state of the window to
      move, but it may have older state. So its key is among those that move, with size 0.
    * If a worker doesn't name a key (``KeyMonitor``), the key's load counts as the worker's and stays there. Entries of
      such keys don't expire. A key that is named in only some of the intervals seems smaller than it is.
    * A plan is made only if it lowers the load above L_max, Σ max(L(d) − L_max, 0). A key that is heavier than L_max
      can't be balanced, and would otherwise move from worker to worker in every interval.
    """

    state_fields = ("table_keys", "table_workers", "keys", "sizes", "intervals", "costs", "rest_sizes")

    def __init__(self, scheme: TableRouter, identity: str) -> None:
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
        return self.rebalance(*keys, rest[:, 0], float(self.rest_sizes.sum()))

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
    ) -> dict[str, Any] | None:
        """The values of a plan for K keys with these costs and state sizes, all [K], with ascending hashes. None: no
        change.

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
        forgotten = self.table_keys[expired], self.table_workers[expired], scheme.home(self.table_keys[expired])
        migration = plan_migration(hashes, keys, destination, rest_size, forgotten)
        self.table_keys, self.table_workers = migration["table_keys"], migration["table_workers"]
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
