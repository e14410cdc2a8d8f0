"""Output messages, in the original's format: ``{"key","messageId","timestamp","tags":{…},"fields":{…}}``.

The Kafka key names the message's subject, such as a window's key or a window's worker. ``messageId`` is derived from
it. So when a window is published again after a failure, its records are the same, and a compacted topic keeps one of
each.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

ID_DIGITS = 32
#: The most bytes of a record, key and value together: what brokers and clients take by default, less what they add.
LONGEST_RECORD = 960 << 10
#: Stands for the window in the Kafka key of a state that outlives windows.
NO_WINDOW = "-"


@dataclass(frozen=True, slots=True)
class ResultMessage:
    """A record for a result topic: Kafka key and JSON value."""

    key: str
    value: bytes


def make_message(
    kafka_key: str, key: str, timestamp_ms: int, tags: dict[str, Any], fields: dict[str, Any]
) -> ResultMessage:
    """One message, built on the driver."""
    body = {
        "key": key,
        "messageId": make_message_id(kafka_key),
        "timestamp": timestamp_ms,
        "tags": tags,
        "fields": fields,
    }
    return ResultMessage(kafka_key, orjson.dumps(body))


def make_message_id(kafka_key: str) -> str:
    """The id of a message. It is the same for the same Kafka key."""
    return hashlib.sha256(kafka_key.encode()).hexdigest()[:ID_DIGITS]


def format_window(start_ms: int) -> str:
    """A window as text: its start in UTC."""
    return datetime.fromtimestamp(start_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{start_ms % 1000:03d}Z"
