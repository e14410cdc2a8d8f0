"""Which records of a load a topic has already."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from numpy.typing import NDArray

from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import end_offsets
from unskew.errors import UsageError
from unskew.producers.journal import Journal
from unskew.producers.partitioning import Partitioner

_PATIENCE = 10.0
# The last requests of a producer that was killed may still be on their way into the log.
_SETTLED = 1.0


class Resumption:
    """The records to leave out: of each partition so many of its first ones.

    Parameters
    ----------
    topic : str
        For messages.
    skip : int64[P]
        How many of the next records of each partition are there.
    last : mapping of partition → bytes
        The last message in the partition, where it is known: the last of those left out must equal it.

    """

    def __init__(self, topic: str, skip: NDArray[np.int64], last: Mapping[int, bytes]) -> None:
        self._topic = topic
        self._skip = skip.copy()
        self._last = last

    @property
    def over(self) -> bool:
        """No more records are left out."""
        return not self._skip.any()

    def missing(self, records: NDArray[np.object_], partitions: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of the next records, with their partitions, are not there, bool[n].

        Raises
        ------
        UsageError
            The topic's last message is not the one that would be there.

        """
        missing = np.ones(len(records), np.bool_)
        for partition in np.flatnonzero(self._skip).tolist():
            there = np.flatnonzero(partitions == partition)[: self._skip[partition]]
            self._skip[partition] -= len(there)
            missing[there] = False
            if len(there) and not self._skip[partition] and partition in self._last:
                record: Any = records[there[-1]]
                self._check(partition, record["value"])
        return missing

    def _check(self, partition: int, value: bytes) -> None:
        if value != self._last[partition]:
            raise UsageError(
                f"topic {self._topic} has other records in partition {partition} than this load's: "
                "somebody else has written to it since; load without --resume, or into another topic"
            )


def begin(
    connection: Connection, topic: str, partitioner: Partitioner, journal: Journal, *, resume: bool
) -> tuple[int, Resumption | None]:
    """Where a load begins, and what is to be left out from there on.

    Raises
    ------
    UsageError
        The load can't be resumed: somebody is writing to the topic, it was made anew, or partitions were chosen
        in another way.

    """
    if not (resume and journal.load()):
        journal.begin(list(end_offsets(connection, topic).values()), partitioner.rule)
        return 0, None
    if journal.rule != partitioner.rule:
        raise UsageError(
            f"this load chose its partitions by {journal.rule}, not by {partitioner.rule}; resume it with the same"
        )
    ends = settled_offsets(connection, topic)
    there = np.array(list(ends.values())) - np.array(journal.begun)
    if len(journal.begun) != len(ends) or there.min() < 0:
        raise UsageError(f"topic {topic} was made anew since this load began; load without --resume")
    start, skip = partitioner.resume(there)
    journal.recall(start)
    return start, Resumption(topic, skip, last_messages(connection, topic, ends))


def settled_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """Where the partitions end, once they have stopped growing.

    Raises
    ------
    UsageError
        They don't: somebody is writing to the topic.

    """
    before = end_offsets(connection, topic)
    for _ in range(int(_PATIENCE / _SETTLED)):
        time.sleep(_SETTLED)
        after = end_offsets(connection, topic)
        if after == before:
            return after
        before = after
    raise UsageError(f"topic {topic} is being written to; a load can't be resumed meanwhile")


def last_messages(connection: Connection, topic: str, ends: Mapping[int, int]) -> dict[int, bytes]:
    """The last message of each partition that still has it."""
    consumer = Consumer(connection.client(**{"group.id": "unskew-resume", "enable.auto.commit": False}))
    try:
        found: dict[int, bytes] = {}
        for partition, end in ends.items():
            low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_PATIENCE)
            if end <= low:
                continue  # nothing yet, or too old to be kept
            consumer.assign([TopicPartition(topic, partition, end - 1)])
            message = consumer.poll(_PATIENCE)
            if message is not None and message.error() is None:
                found[partition] = message.value() or b""
        return found
    finally:
        consumer.close()
