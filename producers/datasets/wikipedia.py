"""Wikipedia's datasets, generated.

WIKIPEDIA_PAGEVIEWS has the visits of pages in one day. WIKIPEDIA_PAGEVIEWS_BY_LANG has the views of each page of each
language in an hour. WIKIPEDIA_CLICKSTREAM has the clicks from each page to another in a month.
"""

from functools import cache, cached_property
from importlib.resources import files

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.grouping.streams import KeyStream, WeightedStream, zipf
from unskew.kafka.json_columns import join_columns
from unskew.producers.datasets.interface import Block, KeyField, PublishedStatistics, ScaledDataset, scale_size
from unskew.producers.datasets.mock_values import make_titles, times_of_day
from unskew.producers.messages import (
    WIKI_URL,
    before_dot,
    make_clickstream_messages,
    make_pageview_by_lang_messages,
    make_pageview_messages,
    without_url,
)
from unskew.producers.readers import formats

_MAIN_PAGE = "Main_Page"

#: The PKG paper's WP: messages, pages, and the share of the most frequent one.
VISITS, PAGES, P1 = 22_000_000, 2_900_000, 0.0932
# So many pages follow Zipf's law with this exponent, so that VISITS visits see PAGES of them.
_PAGE_SUPPORT, _VISITS_Z = 3_282_000, 0.8
_START, _DAY = 1_200_009_600, 86_400  # 11 January 2008


class Pageviews(ScaledDataset):
    """``{"timestamp","page"}`` messages with the statistics of the PKG paper's WP: 22 M, 2.9 M keys, p1 = 9.32 %.

    The main page has the share p1, and all others follow Zipf's law. One Zipf law for all pages would not do: with this
    p1, 22 M draws see 2.9 M keys only if there are 10 times as many.

    Parameters
    ----------
    scale, records, seed
        See ``ScaledDataset``. The numbers of records and pages are scaled, and p1 stays.

    References
    ----------
    Nasir et al.: Partial Key Grouping, Table I.

    """

    name = "WIKIPEDIA_PAGEVIEWS"
    key = KeyField(("page",), rule=without_url)
    choose_format = staticmethod(formats.choose_pageview_format)

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(VISITS, scale, records, seed)
        self._pages = scale_size(_PAGE_SUPPORT, scale)
        self.published = PublishedStatistics(
            "PKG, Table I: WP", scale_size(VISITS, scale), scale_size(PAGES, scale), P1
        )
        self.summary = f"visits of Wikipedia's pages on one day: 22 M, 2.9 M keys, p1 = {100 * P1:.2f} % (PKG's WP)"

    @cached_property
    def _stream(self) -> KeyStream:
        weights = np.arange(self._pages, dtype=np.float64)
        weights[1:] **= -_VISITS_Z
        weights[0] = weights[1:].sum() * P1 / (1 - P1)
        return WeightedStream(weights)

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        ranks = self._stream.draw(rng, first, self.chunk)
        coded = pa.array(ranks).dictionary_encode()
        named = join_columns(WIKI_URL, make_titles(coded.dictionary.to_numpy(), _MAIN_PAGE))
        seconds = times_of_day(first, self.chunk, self.records or 0, _START, _DAY)
        return make_pageview_messages(seconds, pa.DictionaryArray.from_arrays(coded.indices, named))


HOURLY_COUNTS = 5_000_000
#: The published shares of the most viewed languages.
SHARES = {"en": 0.47, "es": 0.072, "ja": 0.071, "ru": 0.059, "de": 0.054, "fr": 0.042}
# The other languages share the rest by a power law of their rank; the largest of them is below French.
_REST = 1.0
#: The shares of the desktop and mobile sites of Wikipedia and of Wiktionary, its most viewed sister.
_SITES = {"": 0.48, ".m": 0.50, ".d": 0.01, ".m.d": 0.01}
_PAGES, _PAGES_Z = 2_000_000, 0.8
# Most pages are viewed once or twice in an hour, few very often.
_VIEWS, _VIEWS_Z = 100_000, 2.5


class PageviewsByLang(ScaledDataset):
    """``{"lang","page","n","m"}`` messages with the published shares of the languages: English 47 %, Spanish 7.2 % …

    How often a page is viewed does not depend on its language. So a language has the same share of the records (the
    load) as of the views (the counts).

    Parameters
    ----------
    scale, records, seed
        See ``ScaledDataset``. The scale 1 stands for 5 M records, about an hour's, and 2 M pages.

    References
    ----------
    The Signpost, 1 April 2013, on the Wikimedia Foundation's report card: the shares of the six most viewed Wikipedias.

    """

    name = "WIKIPEDIA_PAGEVIEWS_BY_LANG"
    key = KeyField(("lang",), "n", before_dot)
    choose_format = staticmethod(lambda _: formats.parse_hourly_pageviews)
    summary = "views of pages in an hour, keyed by language: English 47 %, Spanish 7.2 %, Japanese 7.1 %, …"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(HOURLY_COUNTS, scale, records, seed)
        self.published = PublishedStatistics("The Signpost: March 2013", p1=SHARES["en"])
        self._pages = scale_size(_PAGES, scale)

    @cached_property
    def _streams(self) -> tuple[KeyStream, KeyStream, KeyStream]:
        projects = np.outer(load_language_shares(), list(_SITES.values())).ravel()
        return WeightedStream(projects), zipf(_PAGES_Z, self._pages), zipf(_VIEWS_Z, _VIEWS)

    @cached_property
    def _projects(self) -> pa.StringArray:
        return pa.array([language + site for language in load_languages() for site in _SITES])

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        projects, pages, views = (stream.draw(rng, first, self.chunk) for stream in self._streams)
        page = pa.array(pages).dictionary_encode()
        return make_pageview_by_lang_messages(
            pa.DictionaryArray.from_arrays(pa.array(projects.astype(np.int32)), self._projects),
            pa.DictionaryArray.from_arrays(page.indices, make_titles(page.dictionary.to_numpy(), _MAIN_PAGE)),
            views + 1,
            np.zeros(self.chunk, np.int64),  # the column is no longer filled in real files
        )


@cache
def load_languages() -> tuple[str, ...]:
    """The codes of the languages that have a Wikipedia; the most viewed come first."""
    return tuple(files("unskew.producers.datasets").joinpath("languages.txt").read_text().split())


def load_language_shares() -> NDArray[np.float64]:
    """Each language's share of the views, float64[k]."""
    published = np.array(list(SHARES.values()))
    rest = np.arange(1, len(load_languages()) - len(published) + 1) ** -_REST
    return np.concatenate([published, rest / rest.sum() * (1 - published.sum())])


PAIRS, ARTICLES = 25_973_000, 4_400_000
# So many articles follow Zipf's law with this exponent, so that PAIRS draws see ARTICLES of them.
_ARTICLE_SUPPORT, _ARTICLES_Z = 4_575_000, 0.6

#: Type → its share of the records, and the tail of its clicks: exponent and largest n of a power law from 10 on. The
#: exponents give the published mean (77, 573 and 60 clicks); the largest n are those of the busiest pairs known.
KINDS = {
    "link": (15.6e6 / PAIRS, 1.104427, 3e6),
    "external": (9.6e6 / PAIRS, 0.867830, 3e8),
    "other": (0.773e6 / PAIRS, 1.173723, 3e6),
}
#: Pairs with fewer clicks are not published.
FEWEST = 10
#: The origins of external visits, and their shares.
OUTSIDE = {"other-search": 0.591, "other-empty": 0.365, "other-internal": 0.027, "other-external": 0.017}


class Clickstream(ScaledDataset):
    """``{"prev","curr","type","n"}`` messages with the statistics of the English Wikipedia's November 2017.

    There are 26 M pairs of 4.4 M articles: 60 % links, 37 % from outside, 3 % other. They have 18 %, 81 % and 1 % of
    the 6.7 G clicks, because n is heavy-tailed. Origin, destination and n are drawn independently, so a pair may occur
    twice. In the real files none does.

    Parameters
    ----------
    scale, records, seed
        See ``ScaledDataset``. The numbers of records and articles are scaled.

    References
    ----------
    Wikimedia blog, 16 January 2018: "New monthly dataset shows where people fall into Wikipedia rabbit holes". The
    shares of clicks from outside are those of March 2020.

    """

    name = "WIKIPEDIA_CLICKSTREAM"
    key = KeyField(("curr",), "n")
    choose_format = staticmethod(lambda _: formats.parse_clickstream)
    summary = "clicks from page to page in a month: 26 M pairs, 60 % links, 37 % from outside, heavy-tailed n"

    def __init__(self, *, scale: float = 1.0, records: int | None = None, seed: int = 0) -> None:
        super().__init__(PAIRS, scale, records, seed)
        self.published = PublishedStatistics(
            "Wikimedia: November 2017", scale_size(PAIRS, scale), scale_size(ARTICLES, scale)
        )
        self._articles = scale_size(_ARTICLE_SUPPORT, scale)

    @cached_property
    def _stream(self) -> KeyStream:
        return zipf(_ARTICLES_Z, self._articles)

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        n = self.chunk
        kind = rng.choice(len(KINDS), n, p=[share for share, _, _ in KINDS.values()]).astype(np.int32)
        outside = rng.choice(len(OUTSIDE), n, p=list(OUTSIDE.values()))
        articles = self._stream.draw(rng, 2 * first, 2 * n)
        clicks = _draw_clicks(rng.random(n), kind)

        # The origins of external visits get the codes behind the articles'.
        coded = pa.array(articles).dictionary_encode()
        named = make_titles(coded.dictionary.to_numpy(), _MAIN_PAGE)
        names = pa.concat_arrays([named, pa.array(OUTSIDE)])
        codes = coded.indices.to_numpy()
        prev = np.where(kind == list(KINDS).index("external"), len(named) + outside, codes[:n]).astype(np.int32)
        return make_clickstream_messages(
            pa.DictionaryArray.from_arrays(pa.array(prev), names),
            pa.DictionaryArray.from_arrays(pa.array(codes[n:]), named),
            pa.DictionaryArray.from_arrays(pa.array(kind), pa.array(KINDS)),
            clicks,
        )


def _draw_clicks(uniform: NDArray[np.float64], kind: NDArray[np.int32]) -> NDArray[np.int64]:
    """Draws of the power laws, cut off at their largest n and rounded down, from numbers of [0, 1)."""
    exponent = np.array([exponent for _, exponent, _ in KINDS.values()])[kind]
    largest = np.array([largest for _, _, largest in KINDS.values()])[kind]
    rest = 1 - uniform * (1 - (FEWEST / largest) ** exponent)
    return (FEWEST * rest ** (-1 / exponent)).astype(np.int64)
