"""A simulation's input: tuples with a key, an arrival and a cost, and workers' speeds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.grouping.arguments import check_costs, check_number
from unskew.grouping.keys import KeyArray, Keys, encode_keys


@dataclass(frozen=True, slots=True)
class Workload:
    """n tuples in order of arrival."""

    keys: Keys  #: The keys of the tuples.
    arrivals: NDArray[np.float64]  #: float64[n], ms, ascending: When each tuple reaches its source.
    costs: NDArray[np.float64]  #: float64[n], ms: Each tuple's service time at a worker with factor 1.

    def __len__(self) -> int:
        return len(self.keys)


def make_workload(keys: KeyArray, arrivals: ArrayLike, costs: ArrayLike = 1.0) -> Workload:
    """Create a workload. ``costs`` may be one for all tuples.

    Raises ``ValueError`` if lengths differ, arrivals decrease, or a cost is negative, above 1e100 or not a number.
    """
    encoded = encode_keys(keys)
    n = len(encoded)
    times = np.asarray(arrivals, np.float64)
    service = np.broadcast_to(np.asarray(costs, np.float64), (n,)) if np.ndim(costs) == 0 else np.asarray(costs, float)
    if times.shape != (n,) or service.shape != (n,):
        raise ValueError(f"{n} keys, arrivals of shape {times.shape}, costs of shape {service.shape}; valid: alike")
    if n and not (np.diff(times) >= 0).all():
        raise ValueError("arrivals go back in time; sort the tuples by arrival")
    check_costs(service)
    return Workload(encoded, np.ascontiguousarray(times), np.ascontiguousarray(service))


def make_arrivals(
    load: float, costs: float | NDArray[np.float64], n: int, workers: int, *, seed: int | None = None
) -> NDArray[np.float64]:
    """Arrivals of n tuples that keep W workers busy ``load`` of the time: float64[n], ms.

    The time between tuples is mean cost / (W · load), or with a ``seed`` exponentially distributed with that mean. Load
    1 is what W workers can just sustain.
    """
    between = float(np.mean(costs)) / (workers * check_number("load", load, 0, above=True))
    if seed is None:
        return np.arange(n, dtype=np.float64) * between
    return np.random.default_rng(seed).exponential(between, n).cumsum()


@dataclass(frozen=True, slots=True)
class Speeds:
    """Workers' speeds: a tuple takes its cost times the factor of its worker and phase."""

    #: float64[P, W]: The factors of each phase: with 2, a worker takes twice a tuple's cost.
    factors: NDArray[np.float64]
    starts: NDArray[np.int64]  #: int64[P], ascending from 0: The number of the tuple with which each phase begins.

    @staticmethod
    def constant(factors: ArrayLike) -> "Speeds":
        """A constant factor for each worker."""
        return Speeds(np.atleast_2d(np.asarray(factors, np.float64)), np.zeros(1, np.int64))

    @staticmethod
    def drifting(first: ArrayLike, last: ArrayLike, n: int, *, phases: int = 100) -> "Speeds":
        """Factors from ``first`` to ``last`` over n tuples, in even steps."""
        share = np.linspace(0, 1, phases)[:, None]
        factors = np.asarray(first, np.float64) * (1 - share) + np.asarray(last, np.float64) * share
        return Speeds(factors, np.arange(phases) * n // phases)
