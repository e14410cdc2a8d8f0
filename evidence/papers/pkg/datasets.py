"""Streams like those of the PKG paper's Table I, and their routing, without queues.

The streams have the messages, keys and p1 that are published; the shapes of their distributions are assumed.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evidence.papers.page import Sizing
from unskew.grouping import create, encode_keys, streams
from unskew.grouping.keys import Keys
from unskew.grouping.simulator import FeedbackTiming, SimulationOutcome, make_workload, simulate
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


def route(
    name: str,
    keys: Keys,
    workers: int,
    *,
    sources: int = 1,
    seed: int = 0,
    feedback: FeedbackTiming | None = None,
    samples: int = 1,
    **options: Any,
) -> SimulationOutcome:
    """Route the messages, one a millisecond, dealt evenly to the sources; workers serve them at once."""
    load = make_workload(keys, np.arange(len(keys), dtype=np.float64), 0.0)
    made = partial(create, name, workers, seed=seed, **options)
    return simulate(made, load, sources=sources, feedback=feedback, samples=samples)


def route_in_batches(name: str, keys: NDArray[np.int64], workers: int, seed: int) -> NDArray[np.int32]:
    """The worker of each message of one source, in ten batches: PLANNED plans each of them, with what it remembers."""
    router = create(name, workers, seed=seed)
    return np.concatenate([router.route(batch) for batch in np.array_split(keys, 10)])


def explain_count(paper: int | None, ours: float) -> str | None:
    """Whether ours is within a tenth of the paper's, if it has one; "a": it isn't, for the reason in the notes."""
    if paper is None:
        return None
    return "agree" if abs(ours - paper) <= 0.1 * paper else "a"
