"""Commits offsets to a consumer group for lag tools."""

import logging
import time
from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from unskew.kafka.connection import Connection

log = logging.getLogger(__name__)

_AT_THE_END = 10.0  # s that the last commits may take


class ConsumerGroup:
    """A context manager that commits offsets to a Kafka consumer group, so that every lag tool sees the topology.

    Spark resumes from its checkpoint, not from them. If the broker refuses commits, the run goes on, and the first
    refusal is logged.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        # Not an AdminClient: librdkafka aborts the process (an assertion, its issue 4605) if the broker dies during an
        # AdminClient's request to a group's coordinator.
        self.name = name
        settings = {"group.id": name, "enable.auto.commit": False, "log_level": 0, "on_commit": self._on_commit}
        self._consumer = Consumer(connection.client(**settings))
        self._under_way = 0
        self._complained = False

    def __enter__(self) -> Self:
        """The group itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for pending commits, at most ``_AT_THE_END``."""
        deadline = time.monotonic() + _AT_THE_END
        while self._under_way > 0 and time.monotonic() < deadline:
            self._consumer.poll(0.1)
        self._consumer.close()

    def commit(self, topic: str, offsets: Mapping[str, int]) -> None:
        """Commit partition → offset of the next message, without waiting for the broker's answer."""
        following = [TopicPartition(topic, int(partition), offset) for partition, offset in offsets.items()]
        try:
            self._consumer.poll(0)  # calls _done for earlier commits
            self._consumer.commit(offsets=following, asynchronous=True)
        except KafkaException as error:
            self._complain(error)
        else:
            self._under_way += 1

    def _on_commit(self, error: Any, committed: Any) -> None:
        self._under_way -= 1
        wrong = error or next((partition.error for partition in committed if partition.error), None)
        if wrong is not None:
            self._complain(wrong)

    def _complain(self, error: Any) -> None:
        if not self._complained:
            self._complained = True
            log.warning("the offsets can't be committed to the consumer group %s: %s", self.name, error)
