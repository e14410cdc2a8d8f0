"""Writes records to the result topics, from the driver and from tasks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.apps.aggregator.exactly_once import (
    TransactionalPartitions,
    TransactionalWriteTask,
    limited_arrow_batches,
    make_pair_records,
)
from unskew.apps.checkpoint.checkpoint import WorkerHistory
from unskew.apps.settings import Settings
from unskew.apps.worker.result_messages import LONGEST_RECORD, ResultMessage
from unskew.apps.worker.stages import make_stage
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import ESCAPE, Connection
from unskew.kafka.outbox import TaskDelivery
from unskew.kafka.topics import ensure_topic, largest_batches
from unskew.kafka.transactions import COMMITS, BatchId, deliver_records

_PART = 10_000  # messages


def list_result_topics(settings: Settings) -> dict[str, str]:
    """Role → topic: aggregator, distribution, rejected, and results if there is a keyed operator.

    A changed number of workers doesn't change the topic of running totals: a new one would lack those of open windows
    that don't change any more.
    """
    named = settings
    if settings.emit == "changes":
        named = replace(settings, workers=WorkerHistory.at(settings.location, settings.workers).first)
    return {
        **make_stage(settings).topics,
        "aggregator": f"{named.name}-aggregator",
        "distribution": f"{settings.name}-distribution",
        "rejected": f"{settings.topic}-rejected",
    }


@dataclass(frozen=True)
class ResendableMessages:
    """Messages that are created when they are sent, and anew if they are sent again."""

    make: Callable[[], Iterable[ResultMessage]]

    def __iter__(self) -> Iterator[ResultMessage]:
        """Create them."""
        return iter(self.make())


class ResultPublisher:
    """Writes records to the run's result topics. Each call returns when Kafka has acknowledged all.

    With the checkpoint's writers (``commits``) they are delivered exactly once, without at least once.

    Raises ``EnvironmentFault`` if a result topic, or the client with the user's settings, refuses records of a possible
    size, or the broker refuses transactions.
    """

    def __init__(self, settings: Settings, commits: TransactionalPartitions | None = None) -> None:
        self._connection = settings.connection
        self.commits = commits
        self.topics = list_result_topics(settings)
        for topic in self.topics.values():
            # The topic may have been created with its readers' number of partitions, or for another run on the source.
            ensure_topic(self._connection, topic, settings.sources, any_number=True)
        _require_room(self._connection, self.topics.values())
        if commits is not None:
            ensure_topic(self._connection, commits.topic, commits.partitions, COMMITS)
            commits.writer("distribution").fence()

    def write(self, records: DataFrame, role: str, number: BatchId) -> None:
        """Write a batch's records, a DataFrame of ``key`` and ``value``, from the executors."""
        topic = self.topics[role]
        if self.commits is None:
            # Not by `TaskDelivery`: a record may have 960 KiB, and unlike rows, Arrow batches would need bounds.
            writer = records.write.format("kafka").mode("append").options(**self._connection.spark())
            writer.option("topic", topic).save()
            return
        writing = TransactionalWriteTask(partial(self.commits.writer, role), topic, number, make_pair_records)
        binary = (F.col(name).cast("binary").alias(name) for name in ("key", "value"))
        divided = records.select(*binary).repartition(self.commits.of(role), "key")
        with limited_arrow_batches(records.sparkSession):
            divided.mapInArrow(writing.__call__, "nothing int").collect()

    def send(self, role: str, messages: Iterable[ResultMessage], number: BatchId | None = None) -> None:
        """Write a batch's messages from the driver, with ``_PART`` in memory at a time.

        Exactly-once delivery may iterate over messages again, so an iterator won't do.

        Raises ``EnvironmentFault`` if Kafka refused messages, or didn't acknowledge them in time, or another driver is
        running.
        """
        topic = self.topics[role]
        if self.commits is not None and number is not None:
            deliver_records(self.commits.writer(role), topic, number, lambda: _batch_messages(messages))
            return
        delivery = TaskDelivery(self._connection, topic)
        for piece in _batch_messages(messages):
            delivery.put(piece)
        delivery.finish()


def _batch_messages(messages: Iterable[ResultMessage]) -> Iterator[list[dict[str, Any]]]:
    left = iter(messages)
    while piece := [message.to_record() for message in islice(left, _PART)]:
        # A call of the client takes records with the same fields.
        for _, alike in groupby(piece, len):
            yield list(alike)


# The most that Kafka's client and log add to a record, in bytes.
_ADDED = 4096
_CLIENT_LIMITS = ("message.max.bytes", f"{ESCAPE}max.request.size")


def _require_room(connection: Connection, topics: Iterable[str]) -> None:
    """Refuse limits that a record could exceed, because a producer's message must not end a run."""
    needed = LONGEST_RECORD + _ADDED
    limits = {f"topic {topic}: max.message.bytes": size for topic, size in largest_batches(connection, topics).items()}
    limits |= {name: int(connection.properties[name]) for name in _CLIENT_LIMITS if name in connection.properties}
    for what, limit in limits.items():
        if limit < needed:
            raise EnvironmentFault(f"{what} is {limit}; valid: at least {needed}, for a record of the longest key")
