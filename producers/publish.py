"""A dataset into a topic: every record once, in order, with bounded memory."""

import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from confluent_kafka import KafkaError, Producer
from numpy.typing import NDArray

from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import partitions_of
from unskew.errors import UsageError, UserError
from unskew.producers.dataset import Block, Dataset
from unskew.producers.journal import Journal
from unskew.producers.keycounts import KeyCounts
from unskew.producers.outbox import Outbox
from unskew.producers.pace import Pace
from unskew.producers.partitioning import Partitioner, Spread
from unskew.producers.records import Records
from unskew.producers.resumption import Resumption, begin
from unskew.producers.summary import DeliveryFault, Summary

Progress: TypeAlias = Callable[[int, int], None]

# What a --kafka-config may change. Large batches compress well; 20 ms more latency is nothing to a load.
SETTINGS = {
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.num.messages": 50_000,
    "batch.size": 1_000_000,
    "delivery.timeout.ms": 120_000,
    "log_level": 0,  # what there is to say comes as an error too
}
_QUIET = 30.0  # seconds between two complaints


def publish(
    connection: Connection,
    topic: str,
    dataset: Dataset,
    *,
    pace: Pace | None = None,
    partitioner: Partitioner | None = None,
    progress: Progress | None = None,
    complain: Callable[[str], None] | None = None,
    stopped: Callable[[], bool] = bool,
    journal: Journal | None = None,
    resume: bool = False,
) -> Summary:
    """Send a dataset's records to an existing topic and wait until the broker has them all.

    Without a partitioner, record *i* of the dataset goes to partition *i* mod P: an even spread, without a key.
    Delivery is idempotent, so a lost connection or a broker's restart neither loses nor doubles a record, and each
    partition has its records in order. Memory is bounded (``Outbox.max_records``, ``Outbox.max_bytes``).

    Parameters
    ----------
    connection : Connection
        The cluster.
    topic : str
        Must exist (``unskew.deploy.client.topics.ensure_topic``).
    dataset : Dataset
        What to send.
    pace : Pace or None
        ``Rate(50_000)``, ``Replay(60)``; None: as fast as the broker takes the records.
    partitioner : Partitioner or None
        New, for as many partitions as the topic has; None: ``Spread``.
    progress : callable (records sent, bytes sent), optional
        Called after every few thousand records.
    complain : callable, optional
        Told now and then that no broker answers, while delivery is tried again.
    stopped : callable, optional
        Asked often; once true, no more is sent, and what was sent is waited for.
    journal : Journal, optional
        Makes it possible to resume the load after whatever ends it.
    resume : bool
        Go on with the journal's load, if it has begun: send what the topic doesn't have, and nothing twice.

    Returns
    -------
    Summary

    Raises
    ------
    UsageError
        There is no such topic, or it can't be resumed (``Resumption``).
    EnvironmentFault
        No broker answers, or the dataset can't be read on.
    DeliveryFault
        Records could not be delivered; it carries the summary.

    """
    # Asked first: messages to a missing topic fail only when they time out.
    partitions = partitions_of(connection, topic)
    if partitions is None:
        raise UsageError(f"there is no topic {topic} at {connection.bootstrap_servers}; make it first")
    partitioner = partitioner or Spread(partitions)
    if partitioner.partitions != partitions:
        raise UsageError(f"topic {topic} has {partitions} partitions, not {partitioner.partitions}")
    start, resumption = 0, None
    if journal is not None:
        start, resumption = begin(connection, topic, partitioner, journal, resume=resume)
    settings = connection.client(**Outbox.settings, error_cb=_seldom(complain))
    outbox = Outbox(Producer({**SETTINGS, **settings}), topic, stopped)
    load = _Load(outbox, partitioner, pace or Pace(), progress, start, resumption)
    try:
        for block in dataset.blocks(start):
            load.send(block)
            if outbox.closed:
                break
            if journal is not None:
                journal.note()
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
    if journal is not None and not summary.interrupted:
        journal.finish()
    return summary


def _seldom(complain: Callable[[str], None] | None) -> Callable[[KafkaError], None]:
    said = -_QUIET

    def on_error(error: KafkaError) -> None:
        nonlocal said
        vague = error.code() == KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001  its public name; others say why
        if complain and not vague and time.monotonic() - said >= _QUIET:
            said = time.monotonic()
            complain(f"Kafka: {error.str()}; trying on")

    return on_error


class _Load:
    """How far a load is: the blocks go in, in order."""

    def __init__(
        self,
        outbox: Outbox,
        partitioner: Partitioner,
        pace: Pace,
        progress: Progress | None,
        start: int,
        resumption: Resumption | None,
    ) -> None:
        self._outbox = outbox
        self._partitioner = partitioner
        self._pace = pace
        self._progress = progress
        self._position = start
        self._resumption = resumption
        self._records = Records(keyed=partitioner.keyed)
        self._sent = 0
        self.keys = KeyCounts()
        self.size = 0
        self.begun = time.monotonic()

    def send(self, block: Block) -> None:
        """Hand the block over piece by piece, each when it is due, until all is sent or the outbox is closed."""
        records = self._records.of(block)
        partitions = self._partitioner.choose(block, self._position)
        self._position += len(block)
        if self._resumption is not None and not self._resumption.over:
            missing = self._resumption.missing(records, partitions)
            records, partitions, block = records[missing], partitions[missing], block.only(missing)
        lengths, sent = block.lengths, 0
        for stop, due in self._pace.pieces(block, self._sent):
            self._outbox.wait(self.begun + due)
            if self._outbox.closed:
                break
            self._put(records[sent:stop], partitions[sent:stop], int(lengths[sent:stop].max(initial=1)))
            self.size += int(lengths[sent:stop].sum())
            self._sent += stop - sent
            sent = stop
            if self._progress:
                self._progress(self._sent, self.size)
        counted = block if sent == len(block) else block.slice(0, sent)
        self.keys.add(counted.keys, counted.counts)

    def _put(self, records: NDArray[np.object_], partitions: NDArray[np.int32], longest: int) -> None:
        order = np.argsort(partitions, kind="stable")
        ends = np.cumsum(np.bincount(partitions, minlength=self._partitioner.partitions))
        for partition, places in enumerate(np.split(order, ends[:-1])):
            self._outbox.put(records[places].tolist(), partition, longest)
