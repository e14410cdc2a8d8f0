"""Planners' input and output: records of keys, where they are and should go, and the plan that moves them.

A planner turns ``KeyRecords`` into an ``Assignment``, from which ``plan_migration`` makes the new routing table and the
list of moving keys. ``look_up`` is the assignment function F: routing table first, then hash (Equation 1).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Loads are sums of floats in changing order: exceeding a limit by less than this part of it doesn't count.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class KeyRecords:
    """R keys according to the last intervals, or R groups of keys with equal attributes."""

    #: float64[R]: c(k) of each of the record's keys: its computation cost in the last interval, in tuples or ms.
    cost: NDArray[np.float64]
    memory: NDArray[np.float64]  #: float64[R]: S(k, w) of each key: the size of its state over the last w intervals.
    current: NDArray[np.int32]  #: int32[R]: F(k): the worker that has the key.
    home: NDArray[np.int32]  #: int32[R]: h(k): the hash function's worker.
    count: NDArray[np.int64]  #: int64[R]: The number of keys in the record, 1 unless it is a group.
    workers: int  #: N_D, the number of workers.
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
    """F(k) of each key, int32[k]: the worker of its entry in the routing table, or its home (``home``) if it has none.

    ``table_keys`` are the entries' keys, ascending, and ``table_workers`` their workers. Time O(k log N_A).
    """
    if not len(table_keys):
        return home
    order = np.argsort(hashes)  # sorted look-ups take half the time or less
    at = np.empty(len(hashes), np.int64)
    at[order] = np.searchsorted(table_keys, hashes[order])
    at = np.minimum(at, len(table_keys) - 1)
    return np.where(table_keys[at] == hashes, table_workers[at], home)


#: Keys of entries that expire, their workers and their homes: none.
_NO_ENTRIES = np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.int32)


def plan_migration(
    hashes: NDArray[np.uint64],
    keys: KeyRecords,
    destination: NDArray[np.int32],
    rest_size: float = 0.0,
    expired: tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int32]] = _NO_ENTRIES,
) -> dict[str, Any]:
    """The controller's broadcast: F' as the routing table A', and Δ(F, F'), the keys to migrate.

    Parameters
    ----------
    hashes : uint64[K], ascending
        The hashes of K keys.
    keys : KeyRecords
        A record for each of them.
    destination : int32[K]
        Where they go.
    rest_size : float
        The size of the other keys' states, which no report names.
    expired : uint64[E], int32[E], int32[E]
        Keys whose entries expire, their workers and their homes. They were in no interval of the window, so their state
        has size 0.

    Returns
    -------
    dict
        The values of a plan (``unskew.grouping.feedback.Plan``): the table's keys, ascending, and their workers; the
        keys whose worker changes, ascending, the worker with their state, the one that gets it, and its size S(k, w);
        how many these are, M(w, F, F'), the size of all that moves (Equation 2), and its share of all state, the
        "migration cost" of the paper's figures.

    """
    routed, moved = destination != keys.home, destination != keys.current
    moves = hashes[moved], keys.current[moved], destination[moved], keys.memory[moved]
    gone = *expired, np.zeros(len(expired[0]))
    moved_keys, moved_from, moved_to, moved_sizes = map(np.append, moves, gone)
    order = np.argsort(moved_keys)
    moved_sizes = moved_sizes[order]
    migration, total = float(moved_sizes.sum()), float(keys.memory.sum()) + rest_size
    return {
        "table_keys": hashes[routed],
        "table_workers": destination[routed],
        "moved_keys": moved_keys[order],
        "moved_from": moved_from[order],
        "moved_to": moved_to[order],
        "moved_sizes": moved_sizes,
        "moved": len(order),
        "migration": migration,
        "migration_share": migration / total if total else 0.0,
    }
