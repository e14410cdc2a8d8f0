"""Planners' input and output: records of keys, where they are and should go, and the plan that moves them.

A planner turns ``KeyRecords`` into an ``Assignment``, from which ``plan_migration`` makes the new routing table and the
list of moving keys. ``look_up`` is the assignment function F: routing table first, then hash (Equation 1).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.state import Value

# Loads are sums of floats in changing order: exceeding a limit by less than this part of it doesn't count.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class KeyRecords:
    """R keys according to the last intervals, or R groups of keys with equal attributes."""

    #: float64[R]: c(k) of each of the record's keys: its computation cost in the last interval, in tuples or ms.
    cost: NDArray[np.float64]
    #: float64[R]: S(k, w) of each key: the size of its state over the last w intervals.
    memory: NDArray[np.float64]
    #: int32[R]: F(k): the worker that has the key.
    current: NDArray[np.int32]
    #: int32[R]: h(k): the hash function's worker.
    home: NDArray[np.int32]
    #: int64[R]: The number of keys in the record, 1 unless it is a group.
    count: NDArray[np.int64]
    #: N_D, the number of workers.
    workers: int
    #: float64[W], or 0: The load of each worker's other keys, which no report names, so they can't be moved.
    rest: "NDArray[np.float64] | float" = 0.0

    def __len__(self) -> int:
        return len(self.cost)

    def loads(self) -> NDArray[np.float64]:
        """L(d) of each worker with the keys' present workers: float64[W]."""
        return sum_by_position(self.current, self.cost * self.count, self.workers) + self.rest

    def total(self) -> float:
        """All workers' load."""
        return float(self.cost @ self.count + np.sum(self.rest))

    def limit(self, theta_max: float) -> float:
        """L_max = (1 + θmax)·L̄, the load above which a worker is overloaded."""
        return (1 + theta_max) * self.total() / self.workers * (1 + _ROUNDING)

    def gamma(self, beta: float) -> NDArray[np.float64]:
        """γ(k, w) = c(k)^β / S(k, w), the migration priority: float64[R], 0 for a key without cost."""
        gamma = np.zeros(len(self))
        with np.errstate(divide="ignore"):
            np.divide(self.cost**beta, self.memory, out=gamma, where=self.cost > 0)
        return gamma


@dataclass(frozen=True, slots=True)
class Assignment:
    """A planner's assignment: one row per (record, worker), with every key of every record."""

    records: KeyRecords  #: The planned records.
    record: NDArray[np.int64]  #: int64[E]: The record of each row.
    worker: NDArray[np.int32]  #: int32[E]: The worker that gets the row's keys (F').
    count: NDArray[np.int64]  #: int64[E]: How many of the record's keys go to that worker.

    def loads(self) -> NDArray[np.float64]:
        """L(d) of each worker after the move: float64[W]."""
        records = self.records
        return sum_by_position(self.worker, records.cost[self.record] * self.count, records.workers) + records.rest

    def table(self) -> int:
        """N_A', the number of entries that the routing table needs: the keys that aren't at home."""
        return int(self.count[self.worker != self.records.home[self.record]].sum())

    def migration(self) -> float:
        """M(w, F, F'), the size of the state that moves (Equation 2)."""
        moved = self.worker != self.records.current[self.record]
        return float(self.records.memory[self.record[moved]] @ self.count[moved])


def max_overload(loads: NDArray[np.float64]) -> float:
    """The largest (L(d) − L̄) / L̄ of all workers, or 0 without load.

    The paper's θ(d) is |L(d) − L̄| / L̄. But underloaded workers only mirror overloaded ones, and phase II considers
    only the latter.
    """
    mean = loads.mean()
    return float(loads.max() / mean - 1) if mean > 0 else 0.0


def sum_by_position(at: NDArray[np.integer], values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Sum values by position (``at``, in [0, n)): float64[n]."""
    return np.bincount(at, values, n).astype(np.float64, copy=False)


def look_up(
    hashes: NDArray[np.uint64],
    home: NDArray[np.int32],
    table_keys: NDArray[np.uint64],
    table_workers: NDArray[np.int32],
) -> NDArray[np.int32]:
    """F(k) of each key. Time O(k log N_A).

    Parameters
    ----------
    hashes : uint64[k]
        The keys.
    home : int32[k]
        h(k), the worker that the hash function names.
    table_keys : uint64[N_A], ascending
        The keys of the routing table's entries.
    table_workers : int32[N_A]
        The workers of the routing table's entries.

    Returns
    -------
    int32[k]
        The worker of the key's entry, or the key's home if it has no entry.

    """
    if not len(table_keys):
        return home
    order = np.argsort(hashes)  # sorted look-ups take half the time or less
    at = np.empty(len(hashes), np.int64)
    at[order] = np.searchsorted(table_keys, hashes[order])
    at = np.minimum(at, len(table_keys) - 1)
    return np.where(table_keys[at] == hashes, table_workers[at], home)


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The controller's broadcast: F' as the routing table A', and Δ(F, F'), the keys to migrate."""

    #: uint64[N_A]: Hashes of the routing table's keys, ascending.
    table_keys: NDArray[np.uint64]
    #: int32[N_A]: The worker of each of them.
    table_workers: NDArray[np.int32]
    #: uint64[M]: Hashes of the keys in Δ(F, F'), ascending: all whose worker changes, also by expiry of entries
    #: (``expire_entries``).
    moved_keys: NDArray[np.uint64]
    #: int32[M]: The worker with each moved key's state.
    moved_from: NDArray[np.int32]
    #: int32[M]: The worker that gets it.
    moved_to: NDArray[np.int32]
    #: float64[M]: S(k, w), the size of each moved key's state.
    moved_sizes: NDArray[np.float64]
    #: The size of all keys' states.
    total_size: float

    @property
    def cost(self) -> float:
        """M(w, F, F'), the size of the state that moves (Equation 2)."""
        return float(self.moved_sizes.sum())

    @property
    def share(self) -> float:
        """The cost as a share of all state, the "migration cost" of the paper's figures."""
        return self.cost / self.total_size if self.total_size else 0.0

    def expire_entries(self, keys: NDArray[np.uint64], workers: NDArray[np.int32], home: NDArray[np.int32]) -> Self:
        """Send home the E keys (uint64[E]) whose entries expire.

        They were in no interval of the window, so their state has size 0.
        """
        moved_keys = np.append(self.moved_keys, keys)
        order = np.argsort(moved_keys)
        return replace(
            self,
            moved_keys=moved_keys[order],
            moved_from=np.append(self.moved_from, workers)[order],
            moved_to=np.append(self.moved_to, home)[order],
            moved_sizes=np.append(self.moved_sizes, np.zeros(len(keys)))[order],
        )

    def values(self) -> Mapping[str, Value]:
        """The values of the controller's plan (``unskew.grouping.feedback.Plan``)."""
        return {
            "table_keys": self.table_keys,
            "table_workers": self.table_workers,
            "moved_keys": self.moved_keys,
            "moved_from": self.moved_from,
            "moved_to": self.moved_to,
            "moved_sizes": self.moved_sizes,
            "moved": len(self.moved_keys),
            "migration": self.cost,
            "migration_share": self.share,
        }


def plan_migration(
    hashes: NDArray[np.uint64], keys: KeyRecords, destination: NDArray[np.int32], rest_size: float = 0.0
) -> MigrationPlan:
    """The plan that moves K keys to their destinations, int32[K].

    ``hashes`` (uint64[K]) are the keys' hashes, ascending, and ``keys`` has a record for each.

    ``rest_size`` is the size of the other keys' states, which no report names.
    """
    routed = destination != keys.home
    moved = destination != keys.current
    return MigrationPlan(
        hashes[routed],
        destination[routed],
        hashes[moved],
        keys.current[moved],
        destination[moved],
        keys.memory[moved],
        float(keys.memory.sum()) + rest_size,
    )
