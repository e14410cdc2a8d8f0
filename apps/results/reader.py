"""Reads result topics: which there are, and their records up to now and as they come."""

import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from unskew.apps.topology.messages import NO_WINDOW
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import end_offsets, require_reachable, topics
from unskew.errors import EnvironmentFault, UsageError

#: Kinds of result topics: how their names end (see ``unskew.apps.topology.publisher.result_topics``).
KINDS = ("aggregator", "distribution", "results", "rejected")

_NAMES = re.compile(rf".+-s\d+-w\d+-\w+-({'|'.join(KINDS[:-1])})|.+-({KINDS[-1]})")
_SETTINGS = {
    "group.id": "unskew-results",  # needed by the client; nothing is committed
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # Else the client pauses a second whenever its queue is full: 0.2 M messages/s instead of 1.1 M.
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,  # an empty partition says so only after this
    "log_level": 3,
}
_CHUNK = 10_000  # messages
_PATIENCE = 10.0  # s without an answer until we ask whether the broker is there
_WINDOW_DIGITS = len("2026-01-31T12:00:00.000Z")


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a result topic, not parsed yet: a topic may hold millions that nobody asked for."""

    key: str
    value: bytes

    @property
    def window(self) -> str:
        """Start of the window that it belongs to; with it begins the Kafka key of all but rejected messages.

        Results of states that outlive windows belong to none, ``NO_WINDOW``.
        """
        return NO_WINDOW if self.key.startswith(f"{NO_WINDOW}/") else self.key[:_WINDOW_DIGITS]

    def parsed(self) -> dict[str, Any]:
        """The message."""
        return orjson.loads(self.value)


def kind_of(topic: str) -> str | None:
    """Which of ``KINDS`` a topic is, by its name; None if it's no result topic."""
    found = _NAMES.fullmatch(topic)
    return (found[1] or found[2]) if found else None


def published(connection: Connection) -> dict[str, int]:
    """The result topics there are, each with the number of records ever written to it."""
    found = [topic for topic in topics(connection) if kind_of(topic) is not None]
    with ThreadPoolExecutor(8) as pool:
        ends = pool.map(lambda topic: end_offsets(connection, topic), found)
        return {topic: sum(offsets.values()) for topic, offsets in zip(found, ends, strict=True)}


def require_results(connection: Connection, topic: str) -> str:
    """The kind of an existing result topic.

    Raises
    ------
    UsageError
        There is no such topic, or it has no results: the message lists those that have.
    EnvironmentFault
        No broker answers.

    """
    found = topics(connection)
    kind = kind_of(topic)
    if topic in found and kind is not None:
        return kind
    valid = ", ".join(name for name in found if kind_of(name)) or "none yet (`unskew topology` makes them)"
    what = "holds no results" if topic in found else "doesn't exist"
    raise UsageError(f"topic {topic} {what}; result topics: {valid}")


class Reader:
    """A topic's records from its beginning, without a consumer group's memory.

    Records of one key come in the order in which they were written: the last one counts.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        partitions = topics(connection)[topic]
        self._unread = set(range(partitions))
        self._consumer = Consumer(connection.client(**_SETTINGS))
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in self._unread])

    def __enter__(self) -> Self:
        """Nothing more to open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the broker."""
        self._consumer.close()

    def to_end(self) -> Iterator[Record]:
        """All records there are now.

        Raises
        ------
        EnvironmentFault
            The broker stopped to answer.

        """
        heard = time.monotonic()
        while self._unread:
            messages = self._consumer.consume(_CHUNK, timeout=0.1)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > _PATIENCE:
                require_reachable(self._connection)
                heard = time.monotonic()
            yield from self._records(messages)

    def new(self, patience: float) -> list[Record]:
        """What has come since, after a wait of at most ``patience`` (s); empty if nothing has."""
        return list(self._records(self._consumer.consume(_CHUNK, timeout=patience)))

    def _records(self, messages: Iterable[Any]) -> Iterator[Record]:
        for message in messages:
            error = message.error()
            if error is None:
                yield Record((message.key() or b"").decode(), message.value() or b"null")
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  it is public in all but name
                self._unread.discard(message.partition())
            else:
                raise EnvironmentFault(f"reading {message.topic()} failed: {error.str()}")
