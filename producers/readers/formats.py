"""The formats in which the datasets are published: makes messages from lines.

Fields with a separator are read whole columns at a time. Tweets are JSON, one a line, of Twitter's API v1.1 and v2, as
in its streams and archives. ``unskew.producers.datasets.registry`` says which dataset has which format.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from unskew.producers import messages
from unskew.producers.datasets.interface import Block
from unskew.producers.readers.files import Format
from unskew.producers.readers.lines import LineFields, Lines, ParsedLines

_CLICKSTREAM = ("prev", "curr", "type", "n")


def parse_tickers(lines: Lines) -> ParsedLines:
    """``timestamp<TAB>ticker``, the timestamp in seconds."""
    return _parse_timed_texts(
        LineFields(lines, b"\t", ("timestamp", "ticker")), "ticker", messages.make_ticker_messages
    )


def parse_pageviews(lines: Lines) -> ParsedLines:
    """``timestamp<TAB>page``, the timestamp in seconds."""
    return _parse_timed_texts(LineFields(lines, b"\t", ("timestamp", "page")), "page", messages.make_pageview_messages)


def parse_wikibench(lines: Lines) -> ParsedLines:
    """``counter timestamp url flag``: the traces of wikibench.eu. The timestamp is in seconds with a fraction."""
    fields = LineFields(lines, b" ", ("counter", "timestamp", "url", "flag"))
    return _parse_timed_texts(fields, "url", messages.make_pageview_messages)


def _parse_timed_texts(fields: LineFields, name: str, make: Callable[..., Block]) -> ParsedLines:
    """Messages of the times (s) and of the texts of a field."""
    fields.require_seconds("timestamp")
    fields.require_text(name)
    return ParsedLines(make(fields.seconds("timestamp"), fields.text(name)), fields.rejected)


def parse_hourly_pageviews(lines: Lines) -> ParsedLines:
    """``project page n bytes``: Wikimedia's ``pageviews-YYYYMMDD-HHMMSS.gz``. The page may be ``-`` or empty."""
    fields = LineFields(lines, b" ", ("project", "page", "n", "bytes"))
    fields.require_text("project")
    fields.require_digits("n")
    fields.require_digits("bytes")
    block = messages.make_pageview_by_lang_messages(
        fields.text("project").dictionary_encode(), fields.text("page"), fields.digits("n"), fields.digits("bytes")
    )
    return ParsedLines(block, fields.rejected)


def parse_clickstream(lines: Lines) -> ParsedLines:
    """``prev<TAB>curr<TAB>type<TAB>n``: Wikimedia's ``clickstream-enwiki-YYYY-MM.tsv.gz``, with or without a header."""
    if len(lines) and lines.numbers[0] == 1 and lines[0] == "\t".join(_CLICKSTREAM).encode():
        lines = lines.only(np.arange(len(lines)) > 0)
    fields = LineFields(lines, b"\t", _CLICKSTREAM)
    fields.require_text("curr")
    fields.require_digits("n")
    block = messages.make_clickstream_messages(
        fields.text("prev"), fields.text("curr"), fields.text("type").dictionary_encode(), fields.digits("n")
    )
    return ParsedLines(block, fields.rejected)


def choose_ticker_format(begin: bytes) -> Format:
    """The format of a file of tickers whose first line is ``begin``."""
    return parse_tweet_cashtags if begin.startswith(b"{") else parse_tickers


def choose_pageview_format(begin: bytes) -> Format:
    """The format of a file of page views whose first line is ``begin``."""
    return parse_pageviews if b"\t" in begin else parse_wikibench


# The notices that a stream sends besides tweets.
_NOTICES = ("limit", "delete", "scrub_geo", "status_withheld", "user_withheld", "disconnect", "warning", "heartbeat")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LATEST = 10**15  # ms since the epoch, in the year 33658


@dataclass(frozen=True, slots=True)
class Tweet:
    """The parts of a tweet that go into messages. Hashtags and cashtags are without # and $. The time is in ms."""

    text: str
    hashtags: list[str]
    cashtags: list[str]
    milliseconds: int


def parse_tweet_hashtags(lines: Lines) -> ParsedLines:
    """A message for each tweet with hashtags. Other tweets and notices give none."""
    tweets, rejected = _parse_tweets(lines)
    tagged = [tweet for tweet in tweets if tweet.hashtags]
    hashtags = pa.array([tweet.hashtags for tweet in tagged], pa.list_(pa.string()))
    times = np.array([tweet.milliseconds for tweet in tagged], np.int64)
    texts = pa.array([tweet.text for tweet in tagged], pa.string())
    return ParsedLines(messages.make_election_messages(texts, hashtags, times), rejected)


def parse_tweet_cashtags(lines: Lines) -> ParsedLines:
    """A message for each cashtag of each tweet, in upper case as tickers are."""
    tweets, rejected = _parse_tweets(lines)
    found = [(tweet.milliseconds // 1000, cashtag.upper()) for tweet in tweets for cashtag in tweet.cashtags]
    seconds = np.array([second for second, _ in found], np.int64)
    tickers = pa.array([cashtag for _, cashtag in found], pa.string())
    return ParsedLines(messages.make_ticker_messages(seconds, tickers), rejected)


def _parse_tweets(lines: Lines) -> tuple[list[Tweet], list[tuple[int, str, bytes]]]:
    tweets: list[Tweet] = []
    rejected: list[tuple[int, str, bytes]] = []
    for at, number in enumerate(lines.numbers.tolist()):
        line = lines[at]
        try:
            tweet = _parse_tweet(orjson.loads(line))
        except orjson.JSONDecodeError:
            rejected.append((number, "not JSON", line))
        except _NotATweetError as error:
            rejected.append((number, str(error), line))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            rejected.append((number, "not what a tweet should be", line))
        else:
            if tweet is not None:
                tweets.append(tweet)
    return tweets, rejected


class _NotATweetError(Exception):
    """Why a document is no tweet."""


def _parse_tweet(document: Any) -> Tweet | None:
    """The tweet in a line's document; None for a notice."""
    if not isinstance(document, dict):
        raise _NotATweetError("not an object")
    if "data" in document:
        return _read_tweet(document["data"], document.get("includes") or {}, "tag", "cashtags")
    if "text" not in document and "full_text" not in document:
        if any(notice in document for notice in _NOTICES):
            return None
        raise _NotATweetError("neither a tweet nor a notice")
    if "timestamp_ms" not in document and _is_iso(document.get("created_at", "")):  # v2 without its envelope
        return _read_tweet(document, {}, "tag", "cashtags")
    return _read_tweet(document, {}, "text", "symbols")


def _read_tweet(document: dict[str, Any], includes: dict[str, Any], tag: str, cash: str) -> Tweet:
    # A retweet's own text and entities are cut.
    original = document.get("retweeted_status") or _find_retweet(document, includes) or document
    # So are a long tweet's. All of it is in `extended_tweet` (v1.1), or in `note_tweet` (v2).
    whole = original.get("extended_tweet") or original.get("note_tweet") or original
    text = whole.get("full_text") or whole.get("text") or original.get("text")
    if not isinstance(text, str):
        raise _NotATweetError("no text")
    entities = whole.get("entities") or original.get("entities") or {}
    hashtags, cashtags = (
        [_check_tag(entity[tag]) for entity in entities.get(kind) or ()] for kind in ("hashtags", cash)
    )
    return Tweet(text, hashtags, cashtags, _read_time(document))


def _find_retweet(document: dict[str, Any], includes: dict[str, Any]) -> dict[str, Any] | None:
    """The tweet that a tweet of v2 repeats, if the line includes it."""
    ids = [each.get("id") for each in document.get("referenced_tweets") or () if each.get("type") == "retweeted"]
    return next((tweet for tweet in includes.get("tweets") or () if tweet.get("id") in ids), None)


def _check_tag(tag: Any) -> str:
    if not isinstance(tag, str):
        raise TypeError
    return tag


def _read_time(document: dict[str, Any]) -> int:
    if "timestamp_ms" in document:
        milliseconds = int(document["timestamp_ms"])
    elif "created_at" in document:
        milliseconds = round(_parse_time(document["created_at"]).timestamp() * 1000)
    else:
        raise _NotATweetError("no time")
    if not 0 <= milliseconds < _LATEST:
        raise ValueError
    return milliseconds


def _parse_time(text: str) -> datetime:
    """``2013-11-08T12:00:00.000Z`` (v2) or ``Fri Nov 08 12:00:00 +0000 2013`` (v1.1)."""
    if not _is_iso(text):
        _, month, day, clock, zone, year = text.split()
        text = f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{clock}{zone}"
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_iso(text: str) -> bool:
    return text[4:5] == "-"
