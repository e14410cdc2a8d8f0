"""Reads a topic's messages from given offsets to the end, and then as they come, without committing offsets."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import wait
from typing import Any, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]  it is public

from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.connection import Connection
from unskew.kafka.topics import count_partitions, end_offsets, first_offsets, missing_topic, require_reachable

_SETTINGS: dict[str, Any] = {
    "group.id": "unskew",  # required by the client; nothing is committed
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # By default the client pauses a second if its queue is full, and reads 0.2 M messages/s instead of 1.1 M.
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,  # delays the report of an empty partition's end
    "log_level": 3,
}
_CHUNK = 10_000  # messages
_PATIENCE = 10.0  # s without an answer until we check whether the broker is there
_SAMPLE_PATIENCE = 2.0  # s
_ENDS_PATIENCE = 5.0  # s
_LOOK_EVERY = 0.05  # s

log = logging.getLogger(__name__)


class TopicReader:
    """A context manager that reads a topic, from the beginning of all partitions, or those in ``start`` from these
    offsets.

    A partition's messages come in order. Those of aborted transactions, and by default of open ones, are left out.
    Raises ``UsageError`` if the topic doesn't exist, and ``EnvironmentFault`` if the cluster can't be reached.
    """

    def __init__(self, connection: Connection, topic: str, start: Mapping[int, int] | None = None) -> None:
        if start is None:
            partitions = count_partitions(connection, topic)
            if partitions is None:
                raise missing_topic(connection, topic)
            start = dict.fromkeys(range(partitions), OFFSET_BEGINNING)
        self._connection, self._topic = connection, topic
        self._unread = set(start)
        self._consumer = Consumer(connection.client(**_SETTINGS))
        self._consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in start.items()])

    def __enter__(self) -> Self:
        """The reader itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self._consumer.close()

    @property
    def at_end(self) -> bool:
        """Whether the end of each partition has been read once."""
        return not self._unread

    def to_end(self) -> Iterator[Message]:
        """All present messages of the topic. Raises ``EnvironmentFault`` if the broker no longer answers."""
        answered = time.monotonic()
        while self._unread:
            unread = len(self._unread)
            found = self.new(0.1)
            if found or len(self._unread) < unread:
                answered = time.monotonic()
            elif time.monotonic() - answered > _PATIENCE:
                require_reachable(self._connection)
                answered = time.monotonic()
            yield from found

    def new(self, patience: float, most: int = _CHUNK) -> list[Message]:
        """At most so many new messages, after at most ``patience`` (s). Raises as ``to_end``."""
        try:
            return list(self._messages(self._consumer.consume(most, timeout=patience)))
        except KafkaException as error:
            raise self._fault(error.args[0]) from error

    def _messages(self, found: Iterable[Message]) -> Iterator[Message]:
        for message in found:
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  it is public in all but name
                self._unread.discard(message.partition() or 0)
            else:
                raise self._fault(error)

    def _fault(self, error: KafkaError) -> EnvironmentFault:
        return EnvironmentFault(f"reading {self._topic} failed: {error.str()}")


def newest_messages(connection: Connection, topic: str, count: int) -> list[Message]:
    """About ``count`` of a topic's newest messages, or fewer if they don't arrive within two seconds."""
    newest: list[Message] = []
    try:
        first, ends = first_offsets(connection, topic), end_offsets(connection, topic, committed=False)
        each = -(-count // max(len(ends), 1))
        starts = {partition: max(first[partition], end - each) for partition, end in ends.items()}
        with TopicReader(connection, topic, {p: start for p, start in starts.items() if start < ends[p]}) as reader:
            deadline = time.monotonic() + _SAMPLE_PATIENCE
            # Not every offset has a message, so wait for each partition's end, or for the wanted number.
            while len(newest) < count and not reader.at_end and (patience := deadline - time.monotonic()) > 0:
                newest += reader.new(min(patience, 0.1), count - len(newest))
    except (EnvironmentFault, UsageError) as error:
        log.info("no sample of topic %s: %s", topic, error)
    return newest


def producer_time(message: Message) -> int | None:
    """A message's time (ms since the epoch) if its producer set it, else None."""
    kind, ms = message.timestamp()
    return ms if kind == TIMESTAMP_CREATE_TIME else None


class EndOffsets:
    """Queries the ends of a topic's partitions over a persistent connection."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._topic = topic
        self._admin = connection.admin()

    def ask(
        self, partitions: Iterable[int], *, committed: bool, stopped: Callable[[], bool] = lambda: False
    ) -> dict[int, int]:
        """Partition → its end, if its leader answers within five seconds, and before ``stopped`` is true.

        ``committed``: as for ``end_offsets``.
        """
        wanted = {TopicPartition(self._topic, partition): OffsetSpec.latest() for partition in partitions}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = self._admin.list_offsets(wanted, isolation_level=level, request_timeout=_ENDS_PATIENCE)
        deadline = time.monotonic() + _ENDS_PATIENCE
        while wait(asked.values(), _LOOK_EVERY).not_done and not stopped() and time.monotonic() < deadline:
            pass
        answered = ((of.partition, answer) for of, answer in asked.items() if answer.done())
        return {partition: answer.result().offset for partition, answer in answered if answer.exception() is None}
