"""TWITTER_ELECTION: the hashtags of an election day, when the news makes one hot within minutes."""

from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.producers.dataset import Block
from unskew.producers.generators.clock import times_of_day
from unskew.producers.generators.scale import Scaled, scaled
from unskew.producers.generators.titles import titles
from unskew.producers.hashtags import hashtag_keys
from unskew.producers.messages import election
from unskew.producers.rendering import joined

if TYPE_CHECKING:
    from unskew.grouping.streams import KeyStream

RECORDS, HASHTAGS = 2_000_000, 50_000
_START, _DAY = 1_478_563_200, 86_400  # 8 November 2016
_Z = 1.0
# How many hashtags a tweet has, and how often.
_HOW_MANY = {1: 0.6, 2: 0.25, 3: 0.15}
_EVENTS = 40


class Election(Scaled):
    """``{"text","hashtags","timestamp"}`` messages of one day, with bursts.

    Most hashtags follow Zipf's law. Besides, forty times that day something happens: a hashtag from the middle ranks
    rises within two to five minutes to a share of up to a third, and falls by half every ten to forty minutes.

    Parameters
    ----------
    scale, records, seed
        See ``Scaled``; 1 stands for 2 M tweets, spread over the day, and 50 k hashtags. The seed chooses the
        events too.

    """

    name = "TWITTER_ELECTION"
    summary = "hashtags of an election day: bursts that come within minutes and cool; several keys a message"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(RECORDS, scale, records, seed)
        self._count = scaled(HASHTAGS, scale)

    @cached_property
    def names(self) -> pa.StringArray:
        """The hashtags, the most frequent first: plausible ones, then made-up ones."""
        real = files("unskew.producers.generators").joinpath("hashtags.txt").read_text(encoding="utf-8").split()
        made = titles(np.arange(1, max(1, self._count - len(real)) + 1), "").to_pylist()
        return pa.array([*real, *(name.replace("_", "") for name in made)][: self._count])

    @cached_property
    def _keys(self) -> tuple[pa.Array, NDArray[np.bool_]]:
        return hashtag_keys(self.names)

    @cached_property
    def events(self) -> "Events":
        """What happens on the day."""
        return Events(self.seed, self._count)

    @cached_property
    def _stream(self) -> "KeyStream":
        from unskew.grouping.streams import zipf

        return zipf(_Z, self._count)

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        n = self.chunk
        seconds = times_of_day(first, n, self.records or 0, _START, _DAY)
        milliseconds = seconds * 1000 + rng.integers(0, 1000, n)
        milliseconds.sort()
        sizes = rng.choice(list(_HOW_MANY), n, p=list(_HOW_MANY.values()))
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        codes = self._stream.draw(rng, first, 3 * n)[: offsets[-1]]
        # What a tweet is about comes first.
        hot = self.events.hashtag(seconds - _START, rng.random(n))
        codes[offsets[:-1]] = np.where(hot >= 0, hot, codes[offsets[:-1]])

        flat = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), self.names)
        hashtags = pa.ListArray.from_arrays(pa.array(offsets), flat)
        return election(_texts(hashtags), hashtags, milliseconds, self._keys)


class Events:
    """Forty bursts of a day.

    Attributes
    ----------
    begin, rise, half_life : float64[40], s
        When each begins, how long it rises, and in what time it then falls by half.
    peak : float64[40]
        The weight at its height, beside 1 for all that is no event.
    about : int64[40]
        The rank of its hashtag.

    """

    def __init__(self, seed: int, hashtags: int) -> None:
        rng = np.random.default_rng((seed, _EVENTS))
        self.begin = np.sort(rng.uniform(0, _DAY, _EVENTS))
        self.rise = rng.uniform(120, 300, _EVENTS)
        self.half_life = rng.uniform(600, 2400, _EVENTS)
        self.peak = rng.uniform(0.05, 0.5, _EVENTS)
        self.about = rng.integers(min(20, hashtags - 1), min(2000, hashtags), _EVENTS)

    def weights(self, seconds: NDArray[np.int64]) -> NDArray[np.float64]:
        """Each event's weight at each moment of the day, float64[n, 40]."""
        since = seconds[:, None] - self.begin
        rising = np.clip(since / self.rise, 0, 1)
        falling = np.exp2(-np.maximum(since - self.rise, 0) / self.half_life)
        return self.peak * rising * falling

    def hashtag(self, seconds: NDArray[np.int64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """What the tweets of these moments (ascending) are about, decided by numbers of [0, 1); -1: no event."""
        moments, at = np.unique(seconds, return_inverse=True)
        upto = np.cumsum(self.weights(moments), axis=1)
        # An event's share is its weight in 1 + all events' weights.
        drawn = uniform * (1 + upto[at, -1])
        event = (upto[at] <= drawn[:, None]).sum(axis=1)
        return np.where(event < _EVENTS, self.about[np.minimum(event, _EVENTS - 1)], -1)


def _texts(hashtags: pa.ListArray) -> pa.Array:
    flat = hashtags.flatten()
    marked = joined("#", flat.dictionary).take(flat.indices)
    return pc.call_function("binary_join", [pa.ListArray.from_arrays(hashtags.offsets, marked), pa.scalar(" ")])
