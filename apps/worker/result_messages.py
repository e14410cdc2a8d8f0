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
    """A record for a result topic: Kafka key and JSON value.

    ``topic`` and ``partition`` are where it goes, if not where the others do, and by its key.
    """

    key: str
    value: bytes
    topic: str | None = None
    partition: int = -1

    def to_record(self) -> dict[str, Any]:
        """The record, as the client takes it."""
        record: dict[str, Any] = {"key": self.key.encode(), "value": self.value}
        return record if self.topic is None else record | {"topic": self.topic, "partition": self.partition}


def make_message(
    kafka_key: str,
    key: str,
    timestamp_ms: int,
    tags: dict[str, Any],
    fields: dict[str, Any],
    batch: dict[str, Any] | None = None,
) -> ResultMessage:
    """One message, built on the driver. ``batch`` names the batch where the newest record of a Kafka key counts."""
    body = {
        "key": key,
        "messageId": make_message_id(kafka_key),
        "timestamp": timestamp_ms,
        "tags": tags,
        "fields": fields,
        **({} if batch is None else {"batch": batch}),
    }
    return ResultMessage(kafka_key, orjson.dumps(body))


def name_batch(generation: int, number: int, time_ms: int) -> dict[str, int]:
    """What a record says of its batch. Of the records of a Kafka key, that of the greatest batch is valid.

    The generation is greater than those of the checkpoints that have written to the topic before.
    """
    return {"generation": generation, "number": number, "time": time_ms}


def make_message_id(kafka_key: str) -> str:
    """The id of a message. It is the same for the same Kafka key."""
    return hashlib.sha256(kafka_key.encode()).hexdigest()[:ID_DIGITS]


def format_window(start_ms: int) -> str:
    """A window as text: its start in UTC."""
    return datetime.fromtimestamp(start_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{start_ms % 1000:03d}Z"
