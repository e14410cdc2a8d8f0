"""WIKIPEDIA_PAGEVIEWS: the pages that Wikipedia's readers visit on one day."""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from unskew.producers.dataset import Block, Published
from unskew.producers.generators.clock import times_of_day
from unskew.producers.generators.scale import Scaled, scaled
from unskew.producers.generators.titles import titles
from unskew.producers.messages import WIKI_URL, pageview
from unskew.producers.rendering import joined

if TYPE_CHECKING:
    from unskew.grouping.streams import KeyStream

#: The paper's WP: messages, pages, and the share of the most frequent one.
RECORDS, PAGES, P1 = 22_000_000, 2_900_000, 0.0932
# Of these many pages of Zipf's law with this exponent, RECORDS visits see PAGES.
_SUPPORT, _Z = 3_282_000, 0.8
_MAIN_PAGE = "Main_Page"
_START, _DAY = 1_200_009_600, 86_400  # 11 January 2008


class Pageviews(Scaled):
    """``{"timestamp","page"}`` messages with the statistics of the PKG paper's WP: 22 M, 2.9 M keys, p1 = 9.32 %.

    The main page has the share p1 and all others follow Zipf's law. (One Zipf law for all would not do: with this p1,
    22 M draws never see 2.9 M keys unless it goes on to 10 times as many.)

    Parameters
    ----------
    scale, records, seed
        See ``Scaled``; what is scaled are the records and the pages, while p1 stays.

    References
    ----------
    Nasir et al.: Partial Key Grouping, Table I.

    """

    name = "WIKIPEDIA_PAGEVIEWS"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(RECORDS, scale, records, seed)
        self._pages = scaled(_SUPPORT, scale)
        self.published = Published("PKG, Table I: WP", scaled(RECORDS, scale), scaled(PAGES, scale), P1)
        self.summary = f"visits of Wikipedia's pages on one day: 22 M, 2.9 M keys, p1 = {100 * P1:.2f} % (PKG's WP)"

    @cached_property
    def _stream(self) -> "KeyStream":
        from unskew.grouping.streams import Weighted

        weights = np.arange(self._pages, dtype=np.float64)
        weights[1:] **= -_Z
        weights[0] = weights[1:].sum() * P1 / (1 - P1)
        return Weighted(weights)

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        ranks = self._stream.draw(rng, first, self.chunk)
        coded = pa.array(ranks).dictionary_encode()
        named = joined(WIKI_URL, titles(coded.dictionary.to_numpy(), _MAIN_PAGE))
        seconds = times_of_day(first, self.chunk, self.records or 0, _START, _DAY)
        return pageview(seconds, pa.DictionaryArray.from_arrays(coded.indices, named))
