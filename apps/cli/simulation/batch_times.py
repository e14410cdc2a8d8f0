"""How long a stream's batches would take with each grouping: routed batch by batch, in bounded memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from unskew.apps.cli.simulation.batches import BatchLoad, SimulatedRouters
from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.apps.cli.simulation.simulation import Contestant
from unskew.apps.cli.simulation.time_model import KEY, BatchTimeModel, CostConstants, SimulatedBatches, TupleCost
from unskew.grouping import Grouping, add_sources, create, encode_keys
from unskew.grouping.keys import Keys
from unskew.grouping.simulator import class_costs

_MOST = 1_000_000  # tuples of a batch by default: its arrays must fit into the memory
_LONGEST = 1e15  # s of a stream: schemes that use time get int64 ms
_COMPUTES = 0.5  # share of CPU from which on the cores, not the workers, limit what a second of work is


@dataclass(frozen=True)
class BatchTiming:
    """A stream, its sources and what its tuples cost: the same for all groupings and all numbers of workers."""

    stream: StreamSpec  #: The stream. Drifting speeds reach the end after as many tuples as it may have at most.
    cost: TupleCost  #: What a tuple costs: the mean over all classes of keys.
    costs: Sequence[float]  #: The cost of a tuple (ms) of each class of keys.
    cores: int  #: The cores on which all workers compute.
    prices: CostConstants  #: What a batch costs beside the tuples' work.
    factors: Sequence[float]  #: As ``Simulation`` has them.
    factors_end: Sequence[float] | None
    sources: int  #: S.
    split: str  #: How tuples are spread over the sources: ``even``, or by ``key``.
    batch: int | None  #: The tuples of a batch. None: a second of all workers' work, at most a million.
    seed: int  #: The seed of the hash functions.

    def courses(self, contestants: Iterable[Contestant], workers: int) -> dict[str, SimulatedBatches]:
        """Label → the batches under that grouping, with this number of workers. KEY is always one of them, the first.

        Raises ``ValueError`` or ``TypeError`` if a grouping has no such parameter, or one is out of range, or it must
        know the whole stream beforehand, or the stream has no tuples, or takes too long.
        """
        every = [Contestant(KEY, KEY, {}), *contestants]
        routers = {
            label: SimulatedRouters(self._maker(name, workers, own), self.sources, self.split)
            for label, name, own in every
        }
        clock = BatchTimeModel(self.prices, self.cost, self.cores)
        batches = self._route_batches(routers, clock, workers)
        if not batches[KEY]:
            raise ValueError("the stream has no tuples")
        keys = routers[KEY].replicas  # one worker each
        return {
            label: SimulatedBatches(
                router.name, workers, clock, not router.keeps, batches[label], router.replicas, keys
            )
            for label, router in routers.items()
        }

    def size(self, workers: int) -> int:
        """The tuples of a batch."""
        if self.batch is not None:
            return self.batch
        if not self.cost.ms:
            return _MOST
        busy = min(workers, self.cores) if self.cost.cpu > _COMPUTES else workers
        return min(_MOST, max(self.sources, round(1000 * busy / self.cost.ms)))

    def _maker(self, name: str, workers: int, options: Mapping[str, object]) -> Callable[[], Grouping]:
        return partial(create, name, workers, seed=self.seed, **add_sources(name, self.sources, options))

    def _route_batches(
        self, routers: Mapping[str, SimulatedRouters], clock: BatchTimeModel, workers: int
    ) -> dict[str, list[BatchLoad]]:
        """The batches by label. The next one begins when one has ended, which schemes that use time see."""
        batches: dict[str, list[BatchLoad]] = {label: [] for label in routers}
        now, done = dict.fromkeys(routers, 0.0), 0
        for block in self.stream.blocks(self.size(workers)):
            keys = encode_keys(block)
            costs, factors = self._costs(keys), self._factors(workers, done / self.stream.tuples)
            for label, router in routers.items():
                batches[label].append(router.batch(keys, costs, factors, round(1000 * now[label])))
                now[label] += clock.seconds(batches[label][-1], splits=not router.keeps)
                if not now[label] < _LONGEST:
                    valid = f"a stream of less than {_LONGEST:g} s by --cost, --factors and --fixed"
                    raise ValueError(f"the batches take {now[label]:.3g} s; valid: {valid}")
            done += len(keys)
        return batches

    def _costs(self, keys: Keys) -> NDArray[np.float64]:
        if len(self.costs) == 1:
            return np.full(len(keys), self.costs[0])
        return class_costs(keys, self.costs, seed=self.seed)

    def _factors(self, workers: int, progress: float) -> NDArray[np.float64]:
        start = np.resize(self.factors, workers)
        if self.factors_end is None:
            return start
        return start * (1 - progress) + np.resize(self.factors_end, workers) * progress
