"""The query's offsets as a Kafka consumer group's, so that every lag tool sees the topology.

They are for onlookers: Spark resumes from its checkpoint, whatever the group says.
"""

import logging
from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import Any, Self

from unskew.deploy.client.connection import Connection

log = logging.getLogger(__name__)

_PATIENCE = 10.0  # s


class ConsumerGroup:
    """Commits offsets to a named group; a context manager. A broker that refuses is told of once and stops nothing."""

    def __init__(self, connection: Connection, name: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.name = name
        self._admin = AdminClient(connection.client())
        self._last: Future[Any] | None = None
        self._complained = False

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait a moment for the last commit."""
        if self._last is not None:
            wait([self._last], _PATIENCE)
        del self._admin  # it has no close(): it closes when nobody holds it

    def commit(self, topic: str, offsets: Mapping[str, int]) -> None:
        """Set partition → next offset to count; doesn't wait."""
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

        places = [TopicPartition(topic, int(partition), offset) for partition, offset in offsets.items()]
        try:
            futures = self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(self.name, places)])
        except KafkaException as error:
            self._complain(error)
            return
        (self._last,) = futures.values()
        self._last.add_done_callback(self._done)

    def _done(self, commit: "Future[Any]") -> None:
        error = commit.exception()
        if error is not None:
            self._complain(error)

    def _complain(self, error: BaseException) -> None:
        if not self._complained:
            self._complained = True
            log.warning("the offsets can't be committed to the consumer group %s: %s", self.name, error)
