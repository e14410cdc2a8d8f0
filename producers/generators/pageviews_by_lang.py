"""WIKIPEDIA_PAGEVIEWS_BY_LANG: how often each page of each language was viewed, in one hour."""

from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.producers.dataset import Block, Published
from unskew.producers.generators.scale import Scaled, scaled
from unskew.producers.generators.titles import titles
from unskew.producers.messages import pageviews_by_lang

if TYPE_CHECKING:
    from unskew.grouping.streams import KeyStream

RECORDS = 5_000_000
#: The published shares of the most viewed languages.
SHARES = {"en": 0.47, "es": 0.072, "ja": 0.071, "ru": 0.059, "de": 0.054, "fr": 0.042}
# All others share the rest by a power law of their rank, the largest of them below French.
_REST = 1.0
#: Desktop and mobile site of Wikipedia, and of its most viewed sister, Wiktionary; their shares.
_SITES = {"": 0.48, ".m": 0.50, ".d": 0.01, ".m.d": 0.01}
_PAGES, _Z = 2_000_000, 0.8
# Most pages are viewed once or twice in an hour, few very often.
_VIEWS, _VIEWS_Z = 100_000, 2.5


class PageviewsByLang(Scaled):
    """``{"lang","page","n","m"}`` messages with the published shares of the languages: English 47 %, Spanish 7.2 % …

    Whether a record's page is much viewed does not depend on its language, so the languages' shares of the records
    (the load) and of the views (the counts) are the same.

    Parameters
    ----------
    scale, records, seed
        See ``Scaled``; 1 stands for 5 M records, about an hour's, and 2 M pages.

    References
    ----------
    The Signpost, 1 April 2013, on the Wikimedia Foundation's report card: shares of the six most viewed Wikipedias.

    """

    name = "WIKIPEDIA_PAGEVIEWS_BY_LANG"
    summary = "views of pages in an hour, keyed by language: English 47 %, Spanish 7.2 %, Japanese 7.1 %, …"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(RECORDS, scale, records, seed)
        self.published = Published("The Signpost: March 2013", p1=SHARES["en"])
        self._pages = scaled(_PAGES, scale)

    @cached_property
    def _streams(self) -> "tuple[KeyStream, KeyStream, KeyStream]":
        from unskew.grouping.streams import Weighted, zipf

        projects = np.outer(shares(), list(_SITES.values())).ravel()
        return Weighted(projects), zipf(_Z, self._pages), zipf(_VIEWS_Z, _VIEWS)

    @cached_property
    def _projects(self) -> pa.StringArray:
        return pa.array([language + site for language in languages() for site in _SITES])

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        projects, pages, views = (stream.draw(rng, first, self.chunk) for stream in self._streams)
        page = pa.array(pages).dictionary_encode()
        return pageviews_by_lang(
            pa.DictionaryArray.from_arrays(pa.array(projects.astype(np.int32)), self._projects),
            pa.DictionaryArray.from_arrays(page.indices, titles(page.dictionary.to_numpy(), "Main_Page")),
            views + 1,
            np.zeros(self.chunk, np.int64),  # the column is no longer filled in real files
        )


@cache
def languages() -> tuple[str, ...]:
    """The codes of the languages that have a Wikipedia, the most viewed first."""
    return tuple(files("unskew.producers.generators").joinpath("languages.txt").read_text().split())


def shares() -> NDArray[np.float64]:
    """Each language's share of the views, float64[k]."""
    published = np.array(list(SHARES.values()))
    rest = np.arange(1, len(languages()) - len(published) + 1) ** -_REST
    return np.concatenate([published, rest / rest.sum() * (1 - published.sum())])
