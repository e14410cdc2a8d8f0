"""Mixed routing: a small routing table over a hash function."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import UsageError
from unskew.grouping.arguments import check_integer, check_number
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.table.assignment import Assignment, KeyRecords, look_up
from unskew.grouping.table.controller import TableController
from unskew.grouping.table.reports import KeyMonitor


class TableRouter(Grouping):
    """Send a key to the worker of its routing table entry, or home if it has no entry (Equation 1).

    Schemes differ in planning the table (``priority`` and ``assign``, functions of the records alone). Without a plan,
    a router routes like KEY.

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

    @abstractmethod
    def priority(self, records: KeyRecords) -> NDArray[np.float64]:
        """ψ, the order of keys for migration: float64[R], the largest first."""

    @abstractmethod
    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        """Plan the keys' workers, so that no load is above ``limit`` (L_max) if possible."""

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

    def controller(self) -> TableController:
        return TableController(self, self._identity())

    def _identity(self) -> str:
        parameters = f"theta_max={self.theta_max} window={self.window} degree={self.degree}"
        return f"{super()._identity()} {parameters} report_keys={self.report_keys}"
