"""WIKIPEDIA_CLICKSTREAM: how often readers came from one page to another, in one month."""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.producers.dataset import Block, Published
from unskew.producers.generators.scale import Scaled, scaled
from unskew.producers.generators.titles import titles
from unskew.producers.messages import clickstream

if TYPE_CHECKING:
    from unskew.grouping.streams import KeyStream

RECORDS, ARTICLES = 25_973_000, 4_400_000
# Of these many articles of Zipf's law with this exponent, RECORDS draws see ARTICLES.
_SUPPORT, _Z = 4_575_000, 0.6
_MAIN_PAGE = "Main_Page"

#: Type → its share of the records, and the tail of its clicks: exponent and largest n of a power law from 10 on. The
#: exponents give the published mean (77, 573 and 60 clicks); the largest n are those of the busiest pairs known.
KINDS = {
    "link": (15.6e6 / RECORDS, 1.104427, 3e6),
    "external": (9.6e6 / RECORDS, 0.867830, 3e8),
    "other": (0.773e6 / RECORDS, 1.173723, 3e6),
}
#: Pairs of fewer clicks are not published.
FEWEST = 10
#: Where external visits come from, and their shares.
OUTSIDE = {"other-search": 0.591, "other-empty": 0.365, "other-internal": 0.027, "other-external": 0.017}


class Clickstream(Scaled):
    """``{"prev","curr","type","n"}`` messages with the statistics of the English Wikipedia's November 2017.

    26 M pairs of 4.4 M articles: 60 % links, 37 % from outside, 3 % other; these have 18 %, 81 % and 1 % of the 6.7 G
    clicks, as n is heavy-tailed. Origin, destination and n are drawn independently, so a pair may occur twice, which
    real files don't have.

    Parameters
    ----------
    scale, records, seed
        See ``Scaled``; what is scaled are the records and the articles.

    References
    ----------
    Wikimedia blog, 16 January 2018: "New monthly dataset shows where people fall into Wikipedia rabbit holes". The
    shares of OUTSIDE are those of March 2020's clicks.

    """

    name = "WIKIPEDIA_CLICKSTREAM"
    summary = "clicks from page to page in a month: 26 M pairs, 60 % links, 37 % from outside, heavy-tailed n"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(RECORDS, scale, records, seed)
        self.published = Published("Wikimedia: November 2017", scaled(RECORDS, scale), scaled(ARTICLES, scale))
        self._articles = scaled(_SUPPORT, scale)

    @cached_property
    def _stream(self) -> "KeyStream":
        from unskew.grouping.streams import zipf

        return zipf(_Z, self._articles)

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        n = self.chunk
        kind = rng.choice(len(KINDS), n, p=[share for share, _, _ in KINDS.values()]).astype(np.int32)
        outside = rng.choice(len(OUTSIDE), n, p=list(OUTSIDE.values()))
        articles = self._stream.draw(rng, 2 * first, 2 * n)
        clicks = _clicks(rng.random(n), kind)

        # The origins of external visits get the codes behind the articles'.
        coded = pa.array(articles).dictionary_encode()
        named = titles(coded.dictionary.to_numpy(), _MAIN_PAGE)
        names = pa.concat_arrays([named, pa.array(OUTSIDE)])
        codes = coded.indices.to_numpy()
        prev = np.where(kind == list(KINDS).index("external"), len(named) + outside, codes[:n]).astype(np.int32)
        return clickstream(
            pa.DictionaryArray.from_arrays(pa.array(prev), names),
            pa.DictionaryArray.from_arrays(pa.array(codes[n:]), named),
            pa.DictionaryArray.from_arrays(pa.array(kind), pa.array(KINDS)),
            clicks,
        )


def _clicks(uniform: NDArray[np.float64], kind: NDArray[np.int32]) -> NDArray[np.int64]:
    """Draws of the power laws, cut off at their largest n and rounded down, from numbers of [0, 1)."""
    exponent = np.array([exponent for _, exponent, _ in KINDS.values()])[kind]
    largest = np.array([largest for _, _, largest in KINDS.values()])[kind]
    rest = 1 - uniform * (1 - (FEWEST / largest) ** exponent)
    return (FEWEST * rest ** (-1 / exponent)).astype(np.int64)
