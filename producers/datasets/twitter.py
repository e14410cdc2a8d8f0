"""Twitter's datasets, generated.

TWITTER_TICKER has the stocks that tweets mention in a month; some are hot for a week. TWITTER_ELECTION has the hashtags
of an election day, when the news makes a hashtag hot within minutes.
"""

from functools import cached_property
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.grouping.streams import KeyStream, WeightedStream, zipf
from unskew.kafka.json_columns import join_columns
from unskew.producers.datasets.interface import Block, KeyField, PublishedStatistics, ScaledDataset, scale_size
from unskew.producers.datasets.mock_values import make_titles, times_of_day
from unskew.producers.messages import hashtag_keys, make_election_messages, make_ticker_messages
from unskew.producers.readers import formats

#: The paper's CT: messages, tickers, and the share of the most frequent one.
MENTIONS, TICKERS, P1 = 690_000, 2900, 0.0329
_MONTH, _DAYS, _WEEK = 1_383_264_000, 30, 7 * 86_400  # November 2013
# A ticker's popularity in a week is its rank's times exp(N(0, σ²)); a part of this factor is kept from week to week.
_SIGMA, _KEPT = 1.0, 0.5
# The hottest of fewer tickers could not have a share as small as p1.
_FEWEST = 290


class Ticker(ScaledDataset):
    """``{"timestamp","ticker"}`` messages with the statistics of the PKG paper's CT: 690 k, 2.9 k keys, p1 = 3.29 %.

    Popularity follows Zipf's law times a lognormal factor. The factor changes from week to week, so that each week has
    its own top tickers. The exponent is such that the month's most frequent ticker has the share p1.

    Parameters
    ----------
    scale, records, seed
        See ``ScaledDataset``. The numbers of records and tickers are scaled, and p1 stays. The records are spread over
        the month. The seed also chooses which tickers are hot in which week.

    References
    ----------
    Nasir et al.: Partial Key Grouping, Table I and Figure 3.

    """

    name = "TWITTER_TICKER"
    key = KeyField(("ticker",))
    choose_format = staticmethod(formats.choose_ticker_format)
    summary = f"stocks in tweets of a month, others hot each week: 690 k, 2.9 k keys, p1 = {100 * P1:.2f} % (PKG's CT)"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(MENTIONS, scale, records, seed)
        self.published = PublishedStatistics(
            "PKG, Table I: CT", scale_size(MENTIONS, scale), scale_size(TICKERS, scale), P1
        )
        self._count = max(scale_size(TICKERS, scale), _FEWEST)

    @cached_property
    def names(self) -> pa.StringArray:
        """The tickers, the most popular first: real ones, then as many made-up ones as needed."""
        real = files("unskew.producers.datasets").joinpath("tickers.txt").read_text().split()
        made = [_invent_ticker(number) for number in range(max(0, self._count - len(real)))]
        return pa.array([*real, *made][: self._count])

    @cached_property
    def _weeks(self) -> list[KeyStream]:
        return [WeightedStream(row) for row in weekly_shares(self._count, self.seed)]

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        seconds = times_of_day(first, self.chunk, self.records or 0, _MONTH, _DAYS * 86_400)
        week = (seconds - _MONTH) // _WEEK
        codes = np.concatenate(
            [self._weeks[at].draw(rng, first, int((week == at).sum())) for at in range(week[0], week[-1] + 1)]
        )
        return make_ticker_messages(
            seconds, pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), self.names)
        )


def weekly_shares(tickers: int, seed: int) -> NDArray[np.float64]:
    """Each ticker's share in each week, float64[weeks, k]. Over the month, the largest share is p1."""
    lengths = np.diff(np.append(np.arange(0, _DAYS * 86_400, _WEEK), _DAYS * 86_400)) / (_DAYS * 86_400)
    rng = np.random.default_rng((seed, tickers))
    noise = rng.standard_normal((len(lengths), tickers))
    for at in range(1, len(lengths)):
        noise[at] = _KEPT * noise[at - 1] + np.sqrt(1 - _KEPT**2) * noise[at]
    ranks = np.log(np.arange(1, tickers + 1))

    def of(exponent: float) -> NDArray[np.float64]:
        weights = np.exp(_SIGMA * noise - exponent * ranks)
        return weights / weights.sum(axis=1, keepdims=True)

    low, high = 0.0, 3.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if (lengths @ of(middle)).max() < P1 else (low, middle)
    return of(high)


def _invent_ticker(number: int) -> str:
    """A ticker of five letters; no real ticker in the list has five."""
    return "".join(chr(ord("A") + number // 26**digit % 26) for digit in range(5))


TWEETS, HASHTAGS = 2_000_000, 50_000
_ELECTION_DAY, _DAY = 1_478_563_200, 86_400  # 8 November 2016
_Z = 1.0
# How many hashtags a tweet has → the share of such tweets.
_HOW_MANY = {1: 0.6, 2: 0.25, 3: 0.15}
_EVENTS = 40


class Election(ScaledDataset):
    """``{"text","hashtags","timestamp"}`` messages of one day, with bursts.

    Most hashtags follow Zipf's law. In addition there are forty events in the day. An event raises a hashtag of a
    middle rank, within two to five minutes, to a share of up to a third. The share then halves every ten to forty
    minutes.

    Parameters
    ----------
    scale, records, seed
        See ``ScaledDataset``. The scale 1 stands for 50 k hashtags and 2 M tweets, which are spread over the day. The
        seed also chooses the events.

    """

    name = "TWITTER_ELECTION"
    key = KeyField(("hashtags",), several=True)
    choose_format = staticmethod(lambda _: formats.parse_tweet_hashtags)
    summary = "hashtags of an election day: bursts that come within minutes and cool; several keys a message"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(TWEETS, scale, records, seed)
        self._count = scale_size(HASHTAGS, scale)

    @cached_property
    def names(self) -> pa.StringArray:
        """The hashtags, the most frequent first: plausible ones, then made-up ones."""
        real = files("unskew.producers.datasets").joinpath("hashtags.txt").read_text(encoding="utf-8").split()
        made = make_titles(np.arange(1, max(1, self._count - len(real)) + 1), "").to_pylist()
        return pa.array([*real, *(name.replace("_", "") for name in made)][: self._count])

    @cached_property
    def _keys(self) -> tuple[pa.Array, NDArray[np.bool_]]:
        return hashtag_keys(self.names)

    @cached_property
    def events(self) -> "HashtagEvents":
        """The events of the day."""
        return HashtagEvents(self.seed, self._count)

    @cached_property
    def _stream(self) -> KeyStream:
        return zipf(_Z, self._count)

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        n = self.chunk
        seconds = times_of_day(first, n, self.records or 0, _ELECTION_DAY, _DAY)
        milliseconds = seconds * 1000 + rng.integers(0, 1000, n)
        milliseconds.sort()
        sizes = rng.choice(list(_HOW_MANY), n, p=list(_HOW_MANY.values()))
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        codes = self._stream.draw(rng, first, 3 * n)[: offsets[-1]]
        # The hashtag of the event that a tweet is about comes first.
        hot = self.events.hashtag(seconds - _ELECTION_DAY, rng.random(n))
        codes[offsets[:-1]] = np.where(hot >= 0, hot, codes[offsets[:-1]])

        flat = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), self.names)
        hashtags = pa.ListArray.from_arrays(pa.array(offsets), flat)
        return make_election_messages(_write_texts(hashtags), hashtags, milliseconds, self._keys)


class HashtagEvents:
    """The forty events of a day, each of which makes a hashtag hot.

    An event begins at a second of the day. Its weight rises to its peak, and then takes ``half_life`` (s) to fall by
    half. All tweets about no event have the weight 1 together. ``about`` is the rank of the event's hashtag.
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
        """The rank of the hashtag of a tweet at each moment, int64[n]; -1: the tweet is about no event.

        The moments ascend. ``uniform``, float64[n] in [0, 1), are the random numbers that decide.
        """
        moments, at = np.unique(seconds, return_inverse=True)
        upto = np.cumsum(self.weights(moments), axis=1)
        # An event's share is its weight in 1 + all events' weights.
        drawn = uniform * (1 + upto[at, -1])
        event = (upto[at] <= drawn[:, None]).sum(axis=1)
        return np.where(event < _EVENTS, self.about[np.minimum(event, _EVENTS - 1)], -1)


def _write_texts(hashtags: pa.ListArray) -> pa.Array:
    flat = hashtags.flatten()
    marked = join_columns("#", flat.dictionary).take(flat.indices)
    return pc.call_function("binary_join", [pa.ListArray.from_arrays(hashtags.offsets, marked), pa.scalar(" ")])
