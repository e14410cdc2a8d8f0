"""How long the batches of a topology would take: a simple model of time, and what it advises.

The time of a batch of n tuples is ::

    fixed + routed · n + state · touched + merged + max(busiest, cpu · total / cores)

* ``busiest`` is the work of the worker that has most of it, and ``total`` the work of all workers (s).
* ``cpu`` is the share of the work that is CPU. That share of all workers' work goes through the cores. The rest is
  waiting, for a server or a disk. All workers wait side by side, because each has a task of its own.
* ``touched`` is the (key, worker) pairs in the batch, so each replica of a key costs time.
* ``merged`` is there only if a work has states and the grouping may split keys.

The last term is a bound from below: no schedule ends before the busiest worker, or before the cores have done all CPU
work. If tasks are started in any order, it takes at most twice as long (Graham, *Bounds on Multiprocessing Timing
Anomalies*, SIAM J. Appl. Math. 17(2), 1969).

``CostConstants`` has the constants, and where each was measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from unskew.apps.cli.simulation.batches import BatchLoad
from unskew.grouping.measures import dist_cost

#: The label of the grouping that others are compared with.
KEY = "KEY"
#: The least speedup that is worth a grouping.
LEAST_GAIN = 1.1
_LITTLE = 0.3  # of a batch's time
_NEAR = 0.9  # of the best speedup: of those that reach it, the one with fewest replicas is recommended
_NOISE = 0.2  # of the fixed cost, as evidence/speed/README.md has it for all figures
_TAILS = 0.05, 0.95  # of the batches, which an interval leaves out on either side


@dataclass(frozen=True)
class CostConstants:
    """What a batch costs beside the tuples' work. The defaults were measured in mode LOCAL on two shared cores."""

    fixed: float = 0.4  #: A batch's fixed cost (evidence/speed/README.md, "Where the limit is": some 0.4 s).
    #: Reading, splitting and routing a tuple, and counting it (evidence/speed/README.md, "Throughput of the topology":
    #: 444 ns a tuple, the stages as batch queries).
    routed: float = 0.444e-6
    #: A state that the batch reads and writes (evidence/speed/operators.md, "What a state costs in Spark": 3.6 µs, for
    #: 100,000 keys that are all touched).
    state: float = 3.6e-6
    #: What a batch takes longer if its keys' states at several workers are merged. It is paid only by a work with
    #: states, under a grouping that may split keys (evidence/speed/operators.md, "One very hot key": 73 to 102 ms in
    #: the column *merge* of all groupings that keep up).
    merged: float = 0.09


@dataclass(frozen=True)
class TupleCost:
    """What a tuple costs its worker."""

    ms: float  #: The mean cost.
    spread: float = 0.0  #: float, ms: How far the true mean may be from ``ms``, either way. 0: the cost is given.
    cpu: float = 0.0  #: The share of it that is CPU: 0 to 1, and more if the work has several threads.
    states: bool = False  #: Whether the work has states.

    @property
    def ends(self) -> tuple[float, float]:
        """The factors that make the least and the greatest likely cost of ``ms``."""
        return (1 - self.spread / self.ms, 1 + self.spread / self.ms) if self.ms else (1.0, 1.0)


@dataclass(frozen=True)
class BatchTimeModel:
    """How long batches take."""

    prices: CostConstants  #: The cost beside the work.
    cost: TupleCost  #: Of whose work batches consist.
    cores: int  #: The cores on which all workers compute.

    def seconds(self, batch: BatchLoad, *, splits: bool, work: float = 1.0, fixed: float = 1.0) -> float:
        """The time of a batch (s) of a grouping that may split keys or not.

        ``work`` and ``fixed`` are factors of the work and of the fixed cost, for the ends of an interval.
        """
        prices = self.prices
        around = fixed * prices.fixed + prices.routed * batch.tuples + prices.state * batch.touched
        merged = prices.merged if splits and self.cost.states else 0.0
        return around + merged + work * self.work_seconds(batch)

    def work_seconds(self, batch: BatchLoad) -> float:
        """The time for which workers work (s)."""
        return max(batch.busiest, self.cost.cpu * batch.total / self.cores)


@dataclass(frozen=True)
class SimulatedBatches:
    """The batches of a stream under one grouping."""

    grouping: str  #: The grouping's name, and W.
    workers: int
    clock: BatchTimeModel  #: How long batches take.
    splits: bool  #: Whether the grouping may split keys.
    batches: Sequence[BatchLoad]  #: One at least.
    replicas: int  #: The (key, worker) pairs of the whole stream, and its distinct keys.
    keys: int

    def seconds(self, *, work: float = 1.0, fixed: float = 1.0) -> NDArray[np.float64]:
        """The time of each batch (s), as ``BatchTimeModel.seconds`` has it."""
        of = self.clock.seconds
        return np.array([of(batch, splits=self.splits, work=work, fixed=fixed) for batch in self.batches])

    @property
    def replication(self) -> float:
        """Workers a key."""
        return dist_cost(self.replicas, self.keys)

    @property
    def straggling(self) -> float:
        """The largest load of a batch ÷ the mean load: the mean over the batches."""
        return float(np.mean([batch.most * self.workers / batch.tuples for batch in self.batches]))


@dataclass(frozen=True)
class Range:
    """An expected value, and where it lies in nine batches of ten, whichever end the uncertain costs are at."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Prediction:
    """How long a stream takes under one grouping, beside KEY."""

    course: SimulatedBatches  #: The batches.
    batch: Range  #: The time of a batch: the mean, and where it lies.
    speedup: Range  #: KEY's time divided by the grouping's: of the whole stream, and of its batches.

    @staticmethod
    def of(course: SimulatedBatches, key: SimulatedBatches) -> "Prediction":
        """The prediction for a grouping, from its course and KEY's over the same batches.

        The interval has two parts. The times of batches vary, because their keys do: the lowest and the highest
        twentieth are left out. The costs are uncertain: the lowest and the highest value over all four ends are taken,
        those of the tuples' cost (``TupleCost.spread``), and a fixed cost that is a fifth lower or higher.
        """
        times, ratios = [], []
        for work, fixed in product(course.clock.cost.ends, (1 - _NOISE, 1 + _NOISE)):
            own, other = (each.seconds(work=work, fixed=fixed) for each in (course, key))
            times.append(np.quantile(own, _TAILS))
            ratios.append(np.quantile(other / own, _TAILS))
        own, other = course.seconds(), key.seconds()
        batch, speedup = float(own.mean()), float(other.sum() / own.sum())
        return Prediction(course, _make_range(batch, times), _make_range(speedup, ratios))


def _make_range(value: float, ends: Iterable[NDArray[np.float64]]) -> Range:
    """A value and its interval, which has the value in it."""
    lows, highs = zip(*ends, strict=True)
    return Range(value, min(value, *map(float, lows)), max(value, *map(float, highs)))


def recommend_grouping(predictions: Mapping[str, Prediction]) -> str | None:
    """The label of the grouping to choose. None: no grouping is worth it.

    A grouping is worth it if even the low end of its speedup is at least ``LEAST_GAIN``. Of those whose speedup is
    within a tenth of the best, the one with fewest replicas is chosen.
    """
    worth = {label: each for label, each in predictions.items() if each.speedup.low >= LEAST_GAIN}
    least = _NEAR * max((each.speedup.value for each in worth.values()), default=0.0)
    near = {label: each for label, each in worth.items() if each.speedup.value >= least}
    return min(near, key=lambda label: (near[label].course.replicas, -near[label].speedup.value), default=None)


def describe_recommendation(predictions: Mapping[str, Prediction], key: SimulatedBatches) -> str:
    """One line: which grouping to choose (``recommend_grouping``), or why none. ``key`` has KEY's batches."""
    label = recommend_grouping(predictions)
    if label is None:
        best = max((each.speedup.value for each in predictions.values()), default=1.0)
        most = f"no grouping is expected to be more than {max(1.0, best):.2f} times as fast"
        return f"Don't: {_explain_no_gain(key)}; {most}."
    chosen, before = predictions[label], float(key.seconds().mean())
    return (
        f"Choose {label}: a batch takes {chosen.batch.value:.3g} s instead of {before:.3g} s, "
        f"{chosen.speedup.value:.2f} times as fast ({chosen.speedup.low:.2f} to {chosen.speedup.high:.2f}), "
        f"with {chosen.course.replication:.2f} workers a key. (Work that keeps nothing by key needs none: "
        f"repartition({key.workers}) is SHUFFLE.)"
    )


def _explain_no_gain(key: SimulatedBatches) -> str:
    """Why there is nothing to gain over KEY."""
    cost, cores = key.clock.cost, key.clock.cores
    busiest, total = (sum(getattr(batch, name) for batch in key.batches) for name in ("busiest", "total"))
    if busiest < LEAST_GAIN * total / key.workers:
        return "KEY is even enough"
    if busiest < LEAST_GAIN * cost.cpu * total / cores:
        return f"the work of all workers keeps {cores} core{'s' * (cores > 1)} busy with KEY already"
    if sum(map(key.clock.work_seconds, key.batches)) < _LITTLE * key.seconds().sum():
        return "the tuples' work is little beside the rest of a batch"
    return "KEY is nearly even enough"
