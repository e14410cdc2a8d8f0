"""The query's offsets as a Kafka consumer group's, so that every lag tool sees the topology.

They are for onlookers: Spark resumes from its checkpoint, whatever the group says.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any, Self

from unskew.deploy.client.connection import Connection

log = logging.getLogger(__name__)

_PATIENCE = 10.0  # s


class ConsumerGroup:
    """Commits offsets to a named group; a context manager. A broker that refuses is told of once and stops nothing."""

    def __init__(self, connection: Connection, name: str) -> None:
        # Not an AdminClient: librdkafka ends the process (an assertion, its issue 4605) if the broker dies while that
        # has a request to a group's coordinator under way.
        from confluent_kafka import Consumer

        self.name = name
        settings = {"group.id": name, "enable.auto.commit": False, "log_level": 0, "on_commit": self._done}
        self._consumer = Consumer(connection.client(**settings))
        self._under_way = 0
        self._complained = False

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait a moment for the last commits."""
        deadline = time.monotonic() + _PATIENCE
        while self._under_way > 0 and time.monotonic() < deadline:
            self._consumer.poll(0.1)
        self._consumer.close()

    def commit(self, topic: str, offsets: Mapping[str, int]) -> None:
        """Set partition → next offset to count; doesn't wait."""
        from confluent_kafka import KafkaException, TopicPartition

        places = [TopicPartition(topic, int(partition), offset) for partition, offset in offsets.items()]
        try:
            self._consumer.poll(0)  # hear of those before
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            self._complain(error)
        else:
            self._under_way += 1

    def _done(self, error: Any, places: Any) -> None:
        self._under_way -= 1
        wrong = error or next((place.error for place in places if place.error), None)
        if wrong is not None:
            self._complain(wrong)

    def _complain(self, error: Any) -> None:
        if not self._complained:
            self._complained = True
            log.warning("the offsets can't be committed to the consumer group %s: %s", self.name, error)
