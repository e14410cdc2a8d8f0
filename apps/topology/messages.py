"""Output messages, in the original's format: ``{"key","messageId","timestamp","tags":{…},"fields":{…}}``.

The Kafka key names what the message is about (a window's key, a window's worker), and ``messageId`` is derived from it:
when a window is published again after a failure, the same record comes again, and a compacted topic keeps one.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson
from pyspark.sql import Column
from pyspark.sql import functions as F

_ID_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Message:
    """A record for a result topic: Kafka key and JSON value."""

    key: str
    value: bytes


def message(kafka_key: str, key: str, timestamp_ms: int, tags: dict[str, Any], fields: dict[str, Any]) -> Message:
    """One message, built on the driver."""
    body = {
        "key": key,
        "messageId": hashlib.sha256(kafka_key.encode()).hexdigest()[:_ID_DIGITS],
        "timestamp": timestamp_ms,
        "tags": tags,
        "fields": fields,
    }
    return Message(kafka_key, orjson.dumps(body))


def columns(
    kafka_key: Column, key: Column, timestamp_ms: Column, tags: Iterable[Column], fields: Iterable[Column]
) -> list[Column]:
    """The same message as ``key`` and ``value`` columns for Spark's Kafka sink."""
    body = F.struct(
        key.alias("key"),
        F.substring(F.sha2(kafka_key, 256), 1, _ID_DIGITS).alias("messageId"),
        timestamp_ms.alias("timestamp"),
        F.struct(*tags).alias("tags"),
        F.struct(*fields).alias("fields"),
    )
    return [kafka_key.alias("key"), F.to_json(body).alias("value")]


def window_id(start_ms: int) -> str:
    """A window as text: its start, UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(start_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{start_ms % 1000:03d}Z"
