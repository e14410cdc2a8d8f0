"""Measures of balance and its cost, for the topology, the simulator and the papers' tables."""

from collections.abc import Iterable
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike


def sum_loads(parts: Iterable[ArrayLike]) -> np.ndarray:
    """The sum of loads, int64[W], where W is the greatest of the parts' numbers of workers.

    >>> sum_loads([[1, 2], [1, 1, 1]]).tolist()
    [2, 3, 1]
    """
    return np.array([sum(loads) for loads in zip_longest(*map(np.ravel, parts), fillvalue=0)], np.int64)


def load_shares(loads: ArrayLike) -> np.ndarray:
    """Each worker's share of the load in %, float64[W], also of idle ones. The shares are 0 if there is no load."""
    array = np.asarray(loads, dtype=np.float64)
    total = array.sum()
    return 100 * array / total if total else np.zeros_like(array)


def std_dev(loads: ArrayLike) -> float:
    """STD_DEV: population standard deviation of the workers' shares in % (*Dynamic Key Grouping*, "Metrics").

    >>> std_dev([10, 10, 10])
    0.0
    >>> std_dev([2, 0])
    50.0
    """
    return float(load_shares(loads).std())


def load_imbalance(loads: ArrayLike) -> float:
    """Maximum load − mean load, in the loads' unit (*The Power of Both Choices*, section II).

    >>> load_imbalance([7, 3, 2])
    3.0
    """
    array = np.asarray(loads, dtype=np.float64)
    return float(array.max() - array.mean())


def imbalance_fraction(loads: ArrayLike) -> float:
    """Imbalance as a fraction of the whole load, or 0 if there is no load.

    >>> imbalance_fraction([6, 2])
    0.25
    """
    total = float(np.sum(loads))
    return load_imbalance(loads) / total if total else 0.0


def straggler_ratio(loads: ArrayLike) -> float:
    """The slowest worker's load ÷ the mean load. The least is 1; it is also 1 if there is no load.

    >>> straggler_ratio([3, 1])
    1.5
    """
    array = np.asarray(loads, dtype=np.float64)
    mean = float(array.mean())
    return float(array.max()) / mean if mean else 1.0


def count_idle(loads: ArrayLike) -> int:
    """The number of workers without load.

    >>> count_idle([3, 0, 1, 0])
    2
    """
    return int(np.count_nonzero(np.asarray(loads) == 0))


def dist_cost(assignments: int, distinct_keys: int) -> float:
    """DIST_COST: the replicas of all keys ÷ the number of keys, or 0 if there are no keys.

    It is between 1, as with KEY, and W. The papers call it the replication factor.

    >>> dist_cost(assignments=6, distinct_keys=4)
    1.5
    """
    return assignments / distinct_keys if distinct_keys else 0.0


def fewest_replicas(counts: ArrayLike, workers: int, cap: float) -> int:
    """The fewest replicas of an assignment with no worker's load above ``cap`` times the mean.

    A key of share p needs at least ⌈p·W / cap⌉ workers, and at least one. The result is their sum over the keys.

    Parameters
    ----------
    counts : [K] or [n, K]
        The tuples of every key, or in n stretches of the stream: a key's greatest share counts. Keys without tuples
        don't.
    workers : int
        W.
    cap : float, at least 1
        The highest load allowed ÷ the mean load.

    Examples
    --------
    >>> fewest_replicas([80, 5, 5, 5, 5], workers=10, cap=1.1)
    12

    """
    array = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    shares = (array / np.maximum(1, array.sum(axis=1, keepdims=True))).max(axis=0, initial=0.0)
    return int(np.ceil(shares * workers / cap).sum())


def load_skew(loads: ArrayLike) -> float:
    """S of the DPA paper: (max load − ideal) / (all load − ideal), where ideal = all load / W.

    0 is even, and 1 means that one worker has all load. It is 0 without load or with only one worker.

    >>> load_skew([100, 0, 0, 0]), round(load_skew([64, 12, 12, 12]), 2)
    (1.0, 0.52)
    """
    array = np.asarray(loads, dtype=np.float64)
    total = float(array.sum())
    ideal = total / len(array)
    return (float(array.max()) - ideal) / (total - ideal) if total > ideal else 0.0
