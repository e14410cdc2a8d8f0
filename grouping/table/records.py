"""What a planner plans with: keys, or groups of alike keys, where they are, and where they should go."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Loads are sums of floats in changing order: what is above a limit by less than this part of it isn't above it.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Records:
    """R keys as the last intervals showed them; or R groups of keys that are alike in all of this.

    Attributes
    ----------
    cost : float64[R]
        c(k) of each key of the record: its computation cost in the last interval (tuples, or ms).
    memory : float64[R]
        S(k, w) of each key: the size of its state over the last w intervals.
    current : int32[R]
        F(k): the worker that has the key.
    home : int32[R]
        h(k): the worker that the hash function names.
    count : int64[R]
        Keys in the record: 1, unless it is a group.
    workers : int
        N_D, the number of workers.
    rest : float64[W], or 0
        The load of each worker's other keys: those that nobody names, and so none can move.

    """

    cost: NDArray[np.float64]
    memory: NDArray[np.float64]
    current: NDArray[np.int32]
    home: NDArray[np.int32]
    count: NDArray[np.int64]
    workers: int
    rest: "NDArray[np.float64] | float" = 0.0

    def __len__(self) -> int:
        return len(self.cost)

    def loads(self) -> NDArray[np.float64]:
        """L(d) of each worker as the keys are now: float64[W]."""
        return sum_at(self.current, self.cost * self.count, self.workers) + self.rest

    def total(self) -> float:
        """All workers' load."""
        return float(self.cost @ self.count + np.sum(self.rest))

    def limit(self, theta_max: float) -> float:
        """L_max = (1 + θmax)·L̄, the load above which a worker is overloaded."""
        return (1 + theta_max) * self.total() / self.workers * (1 + _ROUNDING)

    def gamma(self, beta: float) -> NDArray[np.float64]:
        """γ(k, w) = c(k)^β / S(k, w), the migration priority: float64[R]; a key without cost has none."""
        gamma = np.zeros(len(self))
        with np.errstate(divide="ignore"):
            np.divide(self.cost**beta, self.memory, out=gamma, where=self.cost > 0)
        return gamma


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a planner wants the keys: one row a (record, worker), which together hold every key of every record.

    Attributes
    ----------
    records : Records
        What was planned with.
    record : int64[E]
        Which record,
    worker : int32[E]
        goes to which worker (F'),
    count : int64[E]
        with how many of its keys.

    """

    records: Records
    record: NDArray[np.int64]
    worker: NDArray[np.int32]
    count: NDArray[np.int64]

    def loads(self) -> NDArray[np.float64]:
        """L(d) of each worker after the move: float64[W]."""
        records = self.records
        return sum_at(self.worker, records.cost[self.record] * self.count, records.workers) + records.rest

    def table(self) -> int:
        """N_A', the number of entries that the routing table needs: keys that aren't at home."""
        return int(self.count[self.worker != self.records.home[self.record]].sum())

    def migration(self) -> float:
        """M(w, F, F'), the size of the state that moves (Equation 2)."""
        moved = self.worker != self.records.current[self.record]
        return float(self.records.memory[self.record[moved]] @ self.count[moved])


def overload(loads: NDArray[np.float64]) -> float:
    """The largest (L(d) − L̄) / L̄ of all workers; 0 without load.

    The paper's θ(d) is |L(d) − L̄| / L̄; but an underloaded worker is only the other side of overloaded ones, and phase
    II looks at those alone.
    """
    mean = loads.mean()
    return float(loads.max() / mean - 1) if mean > 0 else 0.0


def sum_at(at: NDArray[np.integer], values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """The sum of the values at each of n places: float64[n]."""
    return np.bincount(at, values, n).astype(np.float64, copy=False)
