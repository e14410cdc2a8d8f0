"""Streams like those of the PKG paper's Table I, and routing alone: the paper's measure needs no queues.

The streams have the messages, keys and p1 that are published; the shapes of their distributions are assumed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evidence.papers.page import Sizing
from unskew.grouping import create, encode_keys, streams
from unskew.grouping.keys import Keys
from unskew.grouping.measures import imbalance_fraction
from unskew.grouping.simulator import Workload
from unskew.grouping.simulator.outcome import count_loads
from unskew.grouping.simulator.sources import Sources
from unskew.grouping.streams import KeyStream

# The TW trace (1.2 G words) isn't run whole: this many messages at scale 1.
_TWITTER = 60_000_000


@dataclass(frozen=True, slots=True)
class Dataset:
    """One dataset as the paper describes it."""

    symbol: str
    messages: int
    keys: int
    p1: float

    def stream(self, settings: Sizing) -> KeyStream:
        """The generator: a Zipf law with this p1 for WP and TW, drifting ranks for CT, the lognormals as they are."""
        if self.symbol == "LN1":
            return streams.lognormal(1.789, 2.366)
        if self.symbol == "LN2":
            return streams.lognormal(2.245, 1.133)
        keys = max(1000, round(self.keys * self.size(settings) / self.messages))
        if self.symbol == "CT":
            # Popular tickers change from week to week: each Zipf rank goes to the next key four times in the month, so
            # the hottest key is hottest for a week, then second, third, fourth; its share of all is 0.6 of the first.
            return streams.DriftingStream(
                streams.matched(self.p1 / 0.6, keys), keys, every=self.size(settings) // 4, step=-1
            )
        return streams.matched(self.p1, keys)

    def size(self, settings: Sizing) -> int:
        """Messages at this scale."""
        full = min(self.messages, _TWITTER)
        return settings.of(full, least=min(full, 200_000))

    def draw(self, settings: Sizing) -> Keys:
        """The messages' keys."""
        return encode_keys(self.stream(settings).take(0, self.size(settings), seed=settings.seed))


WP = Dataset("WP", 22_000_000, 2_900_000, 0.0932)
TW = Dataset("TW", 1_200_000_000, 31_000_000, 0.0267)
CT = Dataset("CT", 690_000, 2_900, 0.0329)
LN1 = Dataset("LN1", 10_000_000, 16_000, 0.1471)
LN2 = Dataset("LN2", 10_000_000, 1_100, 0.0701)


def share_of_first(keys: Keys) -> float:
    """The p1 that a drawn stream has."""
    return float(np.bincount(keys.codes).max() / len(keys))


@dataclass(frozen=True, slots=True)
class Spread:
    """Where m messages went.

    ``final``, ``average``: I(m) / m, and the mean of I(t) over all t, over m. ``assigned`` (int32[m]): The worker of
    each message.
    """

    final: float
    average: float
    assigned: NDArray[np.int32]


def route(name: str, keys: Keys, workers: int, *, sources: int = 1, seed: int = 0, **options: Any) -> Spread:
    """Route the messages, dealt evenly to the sources."""
    m = len(keys)
    load = Workload(keys, np.arange(m, dtype=np.float64), np.ones(m))
    senders = Sources(lambda: create(name, workers, seed=seed, **options), load, sources, "even")
    assigned = np.empty(m, np.int32)
    senders.route(0, m, assigned)
    loads, average = count_loads(assigned, np.array([m]), workers)
    return Spread(imbalance_fraction(loads[-1]), average / m, assigned)


def route_in_batches(name: str, keys: NDArray[np.int64], workers: int, seed: int) -> NDArray[np.int32]:
    """The worker of each message of one source, in ten batches: PLANNED plans each of them, with what it remembers."""
    router = create(name, workers, seed=seed)
    return np.concatenate([router.route(batch) for batch in np.array_split(keys, 10)])
