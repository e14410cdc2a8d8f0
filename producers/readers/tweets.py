"""Tweets as JSON, one a line: Twitter's API v1.1 and v2, as streams and archives have them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from unskew.producers import messages
from unskew.producers.readers.fields import Parsed
from unskew.producers.readers.lines import Lines

# What a stream says besides tweets.
_NOTICES = ("limit", "delete", "scrub_geo", "status_withheld", "user_withheld", "disconnect", "warning", "heartbeat")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LATEST = 10**15  # ms since the epoch, in the year 33658


@dataclass(frozen=True, slots=True)
class Tweet:
    """What is needed of a tweet: its text, hashtags, cashtags (without their signs), and time in ms."""

    text: str
    hashtags: list[str]
    cashtags: list[str]
    milliseconds: int


def tweet_hashtags(lines: Lines) -> Parsed:
    """A message for each tweet with hashtags; tweets without and notices give none."""
    tweets, rejected = _tweets(lines)
    tagged = [tweet for tweet in tweets if tweet.hashtags]
    hashtags = pa.array([tweet.hashtags for tweet in tagged], pa.list_(pa.string()))
    times = np.array([tweet.milliseconds for tweet in tagged], np.int64)
    return Parsed(messages.election(pa.array([tweet.text for tweet in tagged], pa.string()), hashtags, times), rejected)


def tweet_cashtags(lines: Lines) -> Parsed:
    """A message for each cashtag of each tweet, in upper case, as tickers are."""
    tweets, rejected = _tweets(lines)
    found = [(tweet.milliseconds // 1000, cashtag.upper()) for tweet in tweets for cashtag in tweet.cashtags]
    seconds = np.array([second for second, _ in found], np.int64)
    return Parsed(messages.ticker(seconds, pa.array([cashtag for _, cashtag in found], pa.string())), rejected)


def _tweets(lines: Lines) -> tuple[list[Tweet], list[tuple[int, str, bytes]]]:
    tweets: list[Tweet] = []
    rejected: list[tuple[int, str, bytes]] = []
    for at, number in enumerate(lines.numbers.tolist()):
        line = lines[at]
        try:
            tweet = _tweet(orjson.loads(line))
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
    """Why it isn't one."""


def _tweet(document: Any) -> Tweet | None:
    """The tweet in a line's document; None for a notice."""
    if not isinstance(document, dict):
        raise _NotATweetError("not an object")
    if "data" in document:
        return _read(document["data"], document["data"], "tag", "cashtags")
    if "text" not in document and "full_text" not in document:
        if any(notice in document for notice in _NOTICES):
            return None
        raise _NotATweetError("neither a tweet nor a notice")
    if "timestamp_ms" not in document and _is_iso(document.get("created_at", "")):  # v2 without its envelope
        return _read(document, document, "tag", "cashtags")
    # v1.1: the beginning of a long tweet is in `text`, all of it and of its entities in `extended_tweet`.
    return _read(document, document.get("extended_tweet") or document, "text", "symbols")


def _read(document: dict[str, Any], whole: dict[str, Any], tag: str, cash: str) -> Tweet:
    text = whole.get("full_text") or document.get("full_text") or document.get("text")
    if not isinstance(text, str):
        raise _NotATweetError("no text")
    entities = whole.get("entities") or {}
    hashtags, cashtags = ([_checked(entity[tag]) for entity in entities.get(kind) or ()] for kind in ("hashtags", cash))
    return Tweet(text, hashtags, cashtags, _milliseconds(document))


def _checked(tag: Any) -> str:
    if not isinstance(tag, str):
        raise TypeError
    return tag


def _milliseconds(document: dict[str, Any]) -> int:
    if "timestamp_ms" in document:
        milliseconds = int(document["timestamp_ms"])
    elif "created_at" in document:
        milliseconds = round(_moment(document["created_at"]).timestamp() * 1000)
    else:
        raise _NotATweetError("no time")
    if not 0 <= milliseconds < _LATEST:
        raise ValueError
    return milliseconds


def _moment(text: str) -> datetime:
    """``2013-11-08T12:00:00.000Z`` (v2) or ``Fri Nov 08 12:00:00 +0000 2013`` (v1.1)."""
    if not _is_iso(text):
        _, month, day, clock, zone, year = text.split()
        text = f"{year}-{_MONTHS.index(month) + 1:02}-{day}T{clock}{zone}"
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_iso(text: str) -> bool:
    return text[4:5] == "-"
