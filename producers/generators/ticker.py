"""TWITTER_TICKER: the stocks that tweets mention in a month, some hot for a week."""

from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.producers.dataset import Block, Published
from unskew.producers.generators.clock import times_of_day
from unskew.producers.generators.scale import Scaled, scaled
from unskew.producers.messages import ticker

if TYPE_CHECKING:
    from unskew.grouping.streams import KeyStream

#: The paper's CT.
RECORDS, TICKERS, P1 = 690_000, 2900, 0.0329
_START, _DAYS, _WEEK = 1_383_264_000, 30, 7 * 86_400  # November 2013
# A ticker's popularity in a week is its own times exp(N(0, σ²)); from a week to the next a part of that is kept.
_SIGMA, _KEPT = 1.0, 0.5
# Of fewer, the hottest of a month could not have a share as small as p1.
_FEWEST = 290


class Ticker(Scaled):
    """``{"timestamp","ticker"}`` messages with the statistics of the PKG paper's CT: 690 k, 2.9 k keys, p1 = 3.29 %.

    Popularity follows Zipf's law times a lognormal factor that changes from week to week, so that each week has its own
    top tickers. The exponent is the one that gives the month's most frequent ticker the share p1.

    Parameters
    ----------
    scale, records, seed
        See ``Scaled``; what is scaled are the records, spread over the month, and the tickers, while p1 stays. The seed
        chooses which tickers are hot when, too.

    References
    ----------
    Nasir et al.: Partial Key Grouping, Table I and Figure 3.

    """

    name = "TWITTER_TICKER"
    summary = f"stocks in tweets of a month, others hot each week: 690 k, 2.9 k keys, p1 = {100 * P1:.2f} % (PKG's CT)"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(RECORDS, scale, records, seed)
        self.published = Published("PKG, Table I: CT", scaled(RECORDS, scale), scaled(TICKERS, scale), P1)
        self._count = max(scaled(TICKERS, scale), _FEWEST)

    @cached_property
    def names(self) -> pa.StringArray:
        """The tickers, the most popular first: real ones, then as many made-up ones as are needed."""
        real = files("unskew.producers.generators").joinpath("tickers.txt").read_text().split()
        made = [_made_up(number) for number in range(max(0, self._count - len(real)))]
        return pa.array([*real, *made][: self._count])

    @cached_property
    def _weeks(self) -> "list[KeyStream]":
        from unskew.grouping.streams import Weighted

        return [Weighted(row) for row in weekly_shares(self._count, self.seed)]

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        seconds = times_of_day(first, self.chunk, self.records or 0, _START, _DAYS * 86_400)
        week = (seconds - _START) // _WEEK
        codes = np.concatenate(
            [self._weeks[at].draw(rng, first, int((week == at).sum())) for at in range(week[0], week[-1] + 1)]
        )
        return ticker(seconds, pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), self.names))


def weekly_shares(tickers: int, seed: int) -> NDArray[np.float64]:
    """Each ticker's share in each week, float64[weeks, k]; over the month the largest is p1."""
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


def _made_up(number: int) -> str:
    """Five letters, which no real ticker in the list has."""
    return "".join(chr(ord("A") + number // 26**place % 26) for place in range(5))
