"""READJ: a baseline that moves or swaps the heaviest keys step by step."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_number
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.table.assignment import Assignment, KeyRecords, sum_by_position
from unskew.grouping.table.router import TableRouter


class Readj(TableRouter):
    """Track heavy keys, and while a worker is overloaded do the best of all moves and swaps of them.

    Keys that are no longer tracked go home. A move takes a tracked key to any worker, and a swap exchanges two keys of
    different workers. The best step lowers the variance of the loads most, and of equal ones migrates the least state.
    The plan ends when no worker is overloaded or nothing lowers the variance.

    Guarantees
    ----------
    * Only tracked keys have entries in the table, so it has at most W/σ of them.
    * Each step lowers the variance. No bound on the result is known.

    Time O(T² + T·W) a step, for T tracked keys. There are as many steps as keys that move, or a few times that. Memory:
    W/σ entries a router.

    Parameters
    ----------
    theta_max, window, report_keys
        See ``TableRouter``.
    sigma : float, default 0.005
        σ ≥ 0. Keys of at least this share of the mean load are tracked. Smaller: more keys to choose from and better
        balance, but the time of a plan grows with the square of their number. The authors search for the best σ in each
        experiment.

    Notes
    -----
    This is the baseline as the routing table paper describes it ("considers all possible swaps to find the best move
    alleviating the workload imbalance"). The original balances three resources, and the gain of a move weighs balance
    against migration. Here there is one resource, and migration only decides between equals.

    Section 6 says that it "always tries to move back the keys to their original destination" first. Here keys do that
    as soon as they are no longer tracked. If all keys did, the baseline would be weaker than necessary. With the
    paper's defaults a plan would move 19 % of the state instead of 8 % and take 20 times as long, for the same balance.

    The original measures imbalance by the spread between the highest and the lowest load, whose minimisation gets stuck
    when two workers share the highest load and two the lowest, which it tends to cause. So this scheme minimises the
    variance.

    References
    ----------
    Fang et al., *Parallel Stream Processing Against Workload Skewness and Variance*, sections 5 and 6; after Gedik,
    *Partitioning functions for stateful data parallelism in stream processing*, VLDB Journal 23 (2014).

    Examples
    --------
    ``unskew.grouping.papers`` compares the scheme with others on six keys.

    """

    name = "READJ"
    short = "readj"

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        theta_max: float = 0.08,
        window: int = 5,
        sigma: float = 0.005,
        report_keys: int | None = 30_000,
    ) -> None:
        super().__init__(workers, seed=seed, theta_max=theta_max, window=window, degree=None, report_keys=report_keys)
        self.sigma = check_number("sigma", sigma, 0)

    def assign(self, records: KeyRecords, limit: float) -> Assignment:
        least = self.sigma * records.total() / records.workers
        tracked = np.flatnonzero(records.cost >= least)
        current = records.current[tracked]
        worker = records.home.copy()
        worker[tracked] = current
        load = sum_by_position(worker, records.cost, records.workers) + records.rest
        keys = _TrackedKeys(records.cost[tracked], records.memory[tracked], current, current.astype(np.int64), load)
        _readjust_keys(keys, limit)
        worker[tracked] = keys.worker
        return Assignment(records, np.arange(len(records)), worker, records.count)

    def _identity(self) -> str:
        return f"{super()._identity()} sigma={self.sigma}"


class _TrackedKeys(NamedTuple):
    """The tracked keys and the workers' loads during planning."""

    cost: NDArray[np.float64]  # [T]
    memory: NDArray[np.float64]  # [T]
    current: NDArray[np.int32]  # [T], the worker of the key's state
    worker: NDArray[np.int64]  # [T], the planned worker
    load: NDArray[np.float64]  # [W]


class _Readjustment(NamedTuple):
    """A move (other < 0) or a swap, with gain and migration; none if key < 0."""

    gain: float
    migration: float
    key: int
    other: int
    to: int


_ROUNDING = 1e-9  # far above a load's relative error


@kernel
def _readjust_keys(keys: _TrackedKeys, limit: float) -> None:
    """Move tracked keys until no load is above the limit, or nothing helps any more."""
    cost, worker, load = keys.cost, keys.worker, keys.load
    while load.max() > limit:
        best = _best_swap(keys, _best_move(keys))
        if best.key < 0:
            break
        at, moved = worker[best.key], cost[best.key]
        if best.other >= 0:
            moved -= cost[best.other]
            worker[best.other] = at
        worker[best.key] = best.to
        load[at] -= moved
        load[best.to] += moved


@kernel
def _best_move(keys: _TrackedKeys) -> _Readjustment:
    """The best of all moves that lower the variance."""
    best = _Readjustment(0.0, 0.0, -1, -1, -1)
    for key in range(len(keys.cost)):
        at = int(keys.worker[key])
        for to in range(len(keys.load)):
            gain = _compute_gain(keys, at, to, keys.cost[key])
            if gain > 0 and gain >= best.gain:
                migration = _compute_migration(keys, key, at, to)
                if gain > best.gain or migration < best.migration:
                    best = _Readjustment(gain, migration, key, -1, to)
    return best


@kernel
def _best_swap(keys: _TrackedKeys, best: _Readjustment) -> _Readjustment:
    """The best of ``best`` and all swaps that lower the variance."""
    for key in range(len(keys.cost)):
        at = int(keys.worker[key])
        for other in range(key + 1, len(keys.cost)):
            to = int(keys.worker[other])
            gain = _compute_gain(keys, at, to, keys.cost[key] - keys.cost[other])
            if gain > 0 and gain >= best.gain:
                migration = _compute_migration(keys, key, at, to) + _compute_migration(keys, other, to, at)
                if gain > best.gain or migration < best.migration:
                    best = _Readjustment(gain, migration, key, other, to)
    return best


@kernel
def _compute_gain(keys: _TrackedKeys, at: int, to: int, moved: float) -> float:
    """Half of the decrease of Σ L(d)² if ``moved`` goes from one worker to another; at most 0 if they are the same.

    Possible rounding errors aren't gains, or equal keys would be moved to and fro for ever.
    """
    beyond = keys.load[at] - keys.load[to] - moved
    return moved * beyond if abs(beyond) > _ROUNDING * max(keys.load[at], keys.load[to]) else 0.0


@kernel
def _compute_migration(keys: _TrackedKeys, key: int, at: int, to: int) -> float:
    """The additional migration if a key is planned for the worker ``to`` instead of ``at``."""
    return keys.memory[key] * float(int(to != keys.current[key]) - int(at != keys.current[key]))
