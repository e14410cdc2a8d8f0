"""The formats that the world publishes the datasets in: lines in, messages out."""

from collections.abc import Callable

import numpy as np

from unskew.producers import messages
from unskew.producers.readers.fields import Fields, Parsed
from unskew.producers.readers.files import Format
from unskew.producers.readers.lines import Lines
from unskew.producers.readers.tweets import tweet_cashtags, tweet_hashtags

_CLICKSTREAM = ("prev", "curr", "type", "n")


def tickers(lines: Lines) -> Parsed:
    """``timestamp<TAB>ticker``, the timestamp in seconds."""
    fields = Fields(lines, b"\t", ("timestamp", "ticker"))
    fields.require_seconds("timestamp")
    fields.require_text("ticker")
    return Parsed(messages.ticker(fields.seconds("timestamp"), fields.text("ticker")), fields.rejected)


def pageviews(lines: Lines) -> Parsed:
    """``timestamp<TAB>page``, the timestamp in seconds."""
    fields = Fields(lines, b"\t", ("timestamp", "page"))
    fields.require_seconds("timestamp")
    fields.require_text("page")
    return Parsed(messages.pageview(fields.seconds("timestamp"), fields.text("page")), fields.rejected)


def wikibench(lines: Lines) -> Parsed:
    """``counter timestamp url flag``: the traces of wikibench.eu, seconds with a fraction."""
    fields = Fields(lines, b" ", ("counter", "timestamp", "url", "flag"))
    fields.require_seconds("timestamp")
    fields.require_text("url")
    return Parsed(messages.pageview(fields.seconds("timestamp"), fields.text("url")), fields.rejected)


def hourly_pageviews(lines: Lines) -> Parsed:
    """``project page n bytes``: Wikimedia's ``pageviews-YYYYMMDD-HHMMSS.gz``. The page may be ``-`` or empty."""
    fields = Fields(lines, b" ", ("project", "page", "n", "bytes"))
    fields.require_text("project")
    fields.require_digits("n")
    fields.require_digits("bytes")
    block = messages.pageviews_by_lang(
        fields.text("project").dictionary_encode(), fields.text("page"), fields.digits("n"), fields.digits("bytes")
    )
    return Parsed(block, fields.rejected)


def clickstream(lines: Lines) -> Parsed:
    """``prev<TAB>curr<TAB>type<TAB>n``: Wikimedia's ``clickstream-enwiki-YYYY-MM.tsv.gz``, with or without a header."""
    if len(lines) and lines.numbers[0] == 1 and lines[0] == "\t".join(_CLICKSTREAM).encode():
        lines = lines.only(np.arange(len(lines)) > 0)
    fields = Fields(lines, b"\t", _CLICKSTREAM)
    fields.require_text("curr")
    fields.require_digits("n")
    block = messages.clickstream(
        fields.text("prev"), fields.text("curr"), fields.text("type").dictionary_encode(), fields.digits("n")
    )
    return Parsed(block, fields.rejected)


def _tickers_or_tweets(begin: bytes) -> Format:
    return tweet_cashtags if begin.startswith(b"{") else tickers


def _pageviews_or_trace(begin: bytes) -> Format:
    return pageviews if b"\t" in begin else wikibench


#: Source type → the format of a file, by its first line.
FORMATS: dict[str, Callable[[bytes], Format]] = {
    "TWITTER_TICKER": _tickers_or_tweets,
    "TWITTER_ELECTION": lambda _: tweet_hashtags,
    "WIKIPEDIA_PAGEVIEWS": _pageviews_or_trace,
    "WIKIPEDIA_PAGEVIEWS_BY_LANG": lambda _: hourly_pageviews,
    "WIKIPEDIA_CLICKSTREAM": lambda _: clickstream,
}
