"""The simulation of a stream: what each grouping does with it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping import add_sources, create
from unskew.grouping.keys import Keys
from unskew.grouping.simulator import (
    FeedbackTiming,
    SimulationOutcome,
    Speeds,
    Workload,
    class_costs,
    make_arrivals,
    make_workload,
    simulate,
)

#: The windows of a stream's second half in which loads are measured: what lasts, without what a scheme has to learn.
WINDOWS = 10


class Contestant(NamedTuple):
    """A grouping with some of its parameters."""

    label: str
    grouping: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Simulation:
    """A stream, its sources and the speeds of workers: the same for all groupings and all numbers of workers."""

    keys: Keys  #: The keys of the n tuples.
    times: NDArray[np.int64] | None  #: The arrival of each tuple (ms). None: even, or by ``poisson``.
    costs: Sequence[float]  #: The cost of a tuple (ms). Several costs: one for each class of keys.
    #: How many times a tuple's cost each worker takes, repeated over the workers. If there are factors for the end,
    #: speeds drift from the first to these.
    factors: Sequence[float]
    factors_end: Sequence[float] | None
    load: float  #: The share of the workers' capacity that the tuples need, if ``times`` is None.
    poisson: bool  #: Whether the times between arrivals are drawn at random.
    seed: int  #: The seed of the draws and of the hash functions.
    sources: int  #: S, the number of sources.
    feedback: FeedbackTiming  #: How often workers report, and when a plan takes effect.
    settings: dict[str, Any] = field(default_factory=dict)  #: Of ``simulate``: split, window, samples.

    def outcomes(self, contestants: Iterable[Contestant], workers: int) -> dict[str, SimulationOutcome]:
        """Label → the outcome of the simulation with this number of workers.

        Raises ``ValueError`` or ``TypeError`` if a grouping, or the simulator, has no such parameter, or one is out of
        range.
        """
        offered, speeds = self._workload(workers), self._speeds(workers)
        settings = {**self.settings, "batch": self.settings.get("batch") or self._fit_batch(offered)}
        found: dict[str, SimulationOutcome] = {}
        for label, grouping, options in contestants:
            own = add_sources(grouping, self.sources, options)
            router = partial(create, grouping, workers, seed=self.seed, **own)
            found[label] = simulate(
                router, offered, sources=self.sources, speeds=speeds, feedback=self.feedback, **settings
            )
        return found

    def _workload(self, workers: int) -> Workload:
        costs = class_costs(self.keys, self.costs, seed=self.seed)
        arrivals = self.times
        if arrivals is None:
            seed = self.seed if self.poisson else None
            arrivals = make_arrivals(self.load, costs, len(self.keys), workers, seed=seed)
        return make_workload(self.keys, arrivals, costs)

    def _fit_batch(self, offered: Workload) -> int | None:
        """The tuples of a planned batch: about an interval's, so that each measured window consists of whole batches.

        None: the stream has times of its own, so batches last an interval.
        """
        if self.times is not None or len(offered) < 2 * WINDOWS:
            return None
        window = len(offered) / (2 * WINDOWS)
        in_interval = len(offered) * self.feedback.interval / max(1.0, offered.arrivals[-1] - offered.arrivals[0])
        return round(window / max(1, round(window / in_interval)))

    def _speeds(self, workers: int) -> Speeds:
        start = np.resize(self.factors, workers)
        if self.factors_end is None:
            return Speeds.constant(start)
        return Speeds.drifting(start, np.resize(self.factors_end, workers), len(self.keys))
