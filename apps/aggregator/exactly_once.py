"""Publishes a checkpoint's batches exactly once: its transactional writers, and how tasks write with them."""

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from unskew.apps.checkpoint.checkpoint import COMMITS, Checkpoint
from unskew.kafka.connection import Connection
from unskew.kafka.topics import count_partitions
from unskew.kafka.transactions import (
    OTHERWISE,
    BatchId,
    TransactionalDelivery,
    TransactionalWriter,
    read_last_batch_ids,
)
from unskew.spark.compat import override_settings
from unskew.spark.micro_batches import get_partition
from unskew.spark.setting_names import BYTES, ROWS

log = logging.getLogger(__name__)

# The bounds of an Arrow batch of records: a record may have 960 KiB.
_BOUNDS = {ROWS: "10000", BYTES: str(16 << 20)}

_REJECTING = 4  # writers, at most: rejected messages are few


@dataclass(frozen=True)
class TransactionalPartitions:
    """The writers with which a checkpoint publishes batches exactly once, and the topic with their batch numbers.

    All drivers of a checkpoint use the same writers: one that continues it fences the one before. Checkpoints don't
    share writers, so their drivers don't affect each other.

    If a batch runs again, each writer must get the same records. The driver has one writer. Tasks have one per
    partition, after a ``repartition`` by the record's key to a given number of partitions: Spark then divides rows by a
    hash of the key, and adaptive execution doesn't merge partitions. (Without the number,
    ``spark.sql.shuffle.partitions`` would decide. A checkpoint fixes only the state's partitions.)

    The ``roles`` are what the writers write, and the number of writers for each: as many tasks publish such records of
    a batch. ``otherwise`` says what works without transactions, for errors.
    """

    connection: Connection
    topic: str
    roles: tuple[tuple[str, int], ...]
    otherwise: str = OTHERWISE

    def of(self, role: str) -> int:
        """The number of writers of a role."""
        return dict(self.roles)[role]

    @property
    def partitions(self) -> int:
        """The number of partitions of the topic with the batch numbers: one per writer."""
        return sum(number for _, number in self.roles)

    def writer(self, role: str, number: int = 0) -> TransactionalWriter:
        """The process's writer of a role."""
        if not 0 <= number < self.of(role):
            raise ValueError(f"part {number} of {role}; there are {self.of(role)}")
        before = sum(of for _, of in takewhile(lambda each: each[0] != role, self.roles))
        name = f"{self.topic}-{role}-{number}"
        return TransactionalWriter.of(self.connection, name, self.topic, before + number, self.otherwise)


def list_roles(parts: int, *, keyed: bool = False) -> tuple[tuple[str, int], ...]:
    """The roles of a topology's writers, in the order of their partitions.

    As many tasks as ``parts`` publish the aggregator's records of a batch, and as many its results if it is ``keyed``.
    """
    results = [("results", parts)] if keyed else []
    return (("distribution", 1), ("rejected", min(parts, _REJECTING)), ("aggregator", parts), *results)


def load_or_create(
    checkpoint: Checkpoint, parts: int, made: Callable[[Mapping[str, Any]], TransactionalPartitions]
) -> TransactionalPartitions:
    """The writers of a checkpoint, which are recorded there once, so that a batch that runs again has the same.

    A checkpoint set back to an earlier state, such as a backup, plans batches anew whose numbers were already
    published. It gets new writers, which have written nothing. ``made`` creates them from what is recorded: a unique
    ``id``, and ``parts``, of which a new checkpoint gets as many as given. No other driver may be using the checkpoint.

    Raises ``EnvironmentFault`` if the broker or the checkpoint can't be reached.
    """
    found = checkpoint.read_record().get(COMMITS)
    if found is not None and _is_set_back(there := made(found), checkpoint):
        log.warning(
            "topic %s has numbers of later batches than the checkpoint %s, which was set back: what was published "
            "since is published again",
            *(there.topic, checkpoint.location),
        )
        found = None
    if found is None:
        found = {"id": uuid.uuid4().hex[:12], "parts": parts}
        checkpoint.claim({COMMITS: found}, (COMMITS,))
    return made(found)


def _is_set_back(there: TransactionalPartitions, checkpoint: Checkpoint) -> bool:
    """Whether a batch was published that the checkpoint hasn't planned, or planned anew."""
    if count_partitions(there.connection, there.topic) is None:
        return False
    # Read before the checkpoint's logs, because a driver plans before it publishes.
    found = read_last_batch_ids(there.connection, there.topic, range(there.partitions)).values()
    unplanned = checkpoint.first_unplanned()
    newest = BatchId(unplanned - 1, checkpoint.planned_ms(unplanned - 1)) if unplanned else BatchId(-1, 0)
    return any(number.batch > newest.batch or (number.batch == newest.batch and number != newest) for number in found)


def make_pair_records(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The records of rows of ``key`` and ``value``."""
    columns = rows["key"].to_pylist(), rows["value"].to_pylist()
    return [{"key": key, "value": value} for key, value in zip(*columns, strict=True)]


@dataclass(frozen=True)
class TransactionalWriteTask:
    """Writes a batch's records exactly once, in tasks."""

    writer: Callable[[int], TransactionalWriter]  #: Partition → the task's writer.
    #: The topic of the records, and the batch's number.
    topic: str
    number: BatchId
    #: Converts a batch of rows to records for ``TransactionalWriter.put``.
    records: Callable[[pa.RecordBatch], list[dict[str, Any]]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the records, and yield nothing."""
        once: TransactionalDelivery | None = None
        try:
            for batch in batches:
                if batch.num_rows:
                    once = once or TransactionalDelivery(self.writer(get_partition()), self.topic, self.number)
                    once.put(self.records(batch))
            if once is not None:
                once.finish()
        except BaseException:
            if once is not None:
                once.abort()
            raise
        return
        yield  # an empty iterator


def limited_arrow_batches(spark: SparkSession) -> AbstractContextManager[None]:
    """Bound the session's Arrow batches for records. Running queries keep their bounds."""
    return override_settings(spark, _BOUNDS)
