"""A dataset into a topic: every record once, in order, with bounded memory."""

import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from confluent_kafka import Producer

from deploy.connection import Connection
from deploy.errors import UsageError, UserError
from deploy.topics import partitions_of
from producers.dataset import Block, Dataset
from producers.keycounts import KeyCounts
from producers.outbox import Outbox
from producers.pace import Pace
from producers.partitioning import Partitioner, Spread
from producers.records import Records
from producers.summary import DeliveryFault, Summary

Progress: TypeAlias = Callable[[int, int], None]

# What a --kafka-config may change. Large batches compress well and cost the broker little; 20 ms more latency is
# nothing to a load.
SETTINGS = {
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.num.messages": 50_000,
    "batch.size": 1_000_000,
    "delivery.timeout.ms": 120_000,
    "log_level": 3,
}


def publish(
    connection: Connection,
    topic: str,
    dataset: Dataset,
    *,
    start: int = 0,
    pace: Pace | None = None,
    progress: Progress | None = None,
    stopped: Callable[[], bool] = bool,
) -> Summary:
    """Send a dataset's records to an existing topic and wait until the broker has them all.

    Record *i* of the dataset goes to partition *i* mod P: an even spread, without a key. Delivery is idempotent, so a
    lost connection or a broker's restart neither loses nor doubles a record, and each partition has its records in
    order. At most ``Outbox.max_records`` records of ``Outbox.max_bytes`` together wait in memory.

    Parameters
    ----------
    connection : Connection
        The cluster.
    topic : str
        Must exist (``deploy.topics.ensure_topic``).
    dataset : Dataset
        What to send.
    start : int
        The first record's position.
    pace : Pace or None
        ``Rate(50_000)``, ``Replay(60)``; None: as fast as the broker takes the records.
    progress : callable (records sent, bytes sent), optional
        Called after every few thousand records.
    stopped : callable, optional
        Asked often; once true, no more is sent, and what was sent is waited for.

    Returns
    -------
    Summary

    Raises
    ------
    UsageError
        There is no such topic.
    EnvironmentFault
        No broker answers, or the dataset can't be read on.
    DeliveryFault
        Records could not be delivered; it carries the summary.

    """
    # Asked first: messages to a missing topic fail only when they time out.
    partitions = partitions_of(connection, topic)
    if partitions is None:
        raise UsageError(f"there is no topic {topic} at {connection.bootstrap_servers}; make it first")
    outbox = Outbox(Producer({**SETTINGS, **connection.client(**Outbox.settings)}), topic, stopped)
    load = _Load(outbox, Spread(partitions), pace or Pace(), progress, start)
    try:
        for block in dataset.blocks(start):
            load.send(block)
            if outbox.closed:
                break
    except UserError as error:  # a file that can't be read on, say
        outbox.drain()
        raise type(error)(f"{error} ({outbox.delivered:,} records before it were sent)") from None
    outbox.drain()
    summary = Summary(
        dataset=dataset.name,
        topic=topic,
        partitions=partitions,
        records=outbox.delivered,
        size=load.size,
        seconds=time.monotonic() - load.begun,
        keys=load.keys,
        failed=outbox.failed,
        error=outbox.error,
        interrupted=stopped(),
    )
    if summary.failed:
        raise DeliveryFault(summary)
    return summary


class _Load:
    """How far a load is: the blocks go in, in order."""

    def __init__(
        self, outbox: Outbox, partitioner: Partitioner, pace: Pace, progress: Progress | None, start: int
    ) -> None:
        self._outbox = outbox
        self._partitioner = partitioner
        self._pace = pace
        self._progress = progress
        self._start = self._position = start
        self._records = Records()
        self.keys = KeyCounts()
        self.size = 0
        self.begun = time.monotonic()

    def send(self, block: Block) -> None:
        """Hand the block over piece by piece, each when it is due, until all is sent or the outbox is closed."""
        records, lengths = self._records.of(block), block.lengths
        partitions = self._partitioner.choose(block, self._position)
        sent = 0
        for stop, due in self._pace.pieces(block, self._position - self._start):
            self._outbox.wait(self.begun + due)
            if self._outbox.closed:
                break
            order = np.argsort(partitions[sent:stop], kind="stable")
            ends = np.cumsum(np.bincount(partitions[sent:stop], minlength=self._partitioner.partitions))
            for partition, places in enumerate(np.split(order, ends[:-1])):
                self._outbox.put(records[sent + places].tolist(), partition, int(lengths[sent:stop].max()))
            self.size += int(lengths[sent:stop].sum())
            self._position += stop - sent
            sent = stop
            if self._progress:
                self._progress(self._position - self._start, self.size)
        counted = block if sent == len(block) else block.slice(0, sent)
        self.keys.add(counted.keys, counted.counts)
