"""A dataset into a topic: every record once, in order, with bounded memory."""

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer
from numpy.typing import NDArray

from deploy.connection import Connection
from deploy.errors import UsageError
from deploy.topics import partitions_of
from producers.dataset import Block, Dataset
from producers.keycounts import KeyCounts
from producers.outbox import Outbox
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
    rate: float | None = None,
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
    rate : float or None
        Records a second, at most; None: as fast as the broker takes them.
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
        No broker answers.
    DeliveryFault
        Records could not be delivered; it carries the summary.

    """
    # Asked first: messages to a missing topic fail only when they time out.
    partitions = partitions_of(connection, topic)
    if partitions is None:
        raise UsageError(f"there is no topic {topic} at {connection.bootstrap_servers}; make it first")
    producer = Producer({**SETTINGS, **connection.client(**Outbox.settings)})
    outbox = Outbox(producer, topic, stopped)
    keys, size, position = KeyCounts(), 0, start
    begun = time.monotonic()
    for block in chain.from_iterable(_pieces(block, rate) for block in dataset.blocks(start)):
        if rate:
            outbox.wait(begun + (position - start) / rate)
        if outbox.closed:
            break
        lengths, records = block.lengths, _records(block)
        for first in range(min(partitions, len(block))):
            outbox.put(records[first::partitions].tolist(), (position + first) % partitions, int(lengths.max()))
        keys.add(block.keys, block.counts)
        size += int(lengths.sum())
        position += len(block)
        if progress:
            progress(position - start, size)
    outbox.drain()
    summary = Summary(
        dataset=dataset.name,
        topic=topic,
        partitions=partitions,
        records=outbox.delivered,
        size=size,
        seconds=time.monotonic() - begun,
        keys=keys,
        failed=outbox.failed,
        error=outbox.error,
        interrupted=stopped(),
    )
    if summary.failed:
        raise DeliveryFault(summary)
    return summary


def _pieces(block: Block, rate: float | None) -> Iterator[Block]:
    """The block, cut so that a limited rate flows instead of coming in gulps: twenty pieces a second."""
    step = max(1, int(rate / 20)) if rate else len(block)
    if step >= len(block):
        yield block
        return
    for at in range(0, len(block), step):
        yield block.slice(at, min(at + step, len(block)))


def _records(block: Block) -> NDArray[np.object_]:
    """The messages as ``produce_batch`` wants them. Equal ones of a dictionary share one record: nothing is copied."""
    coded = isinstance(block.messages, pa.DictionaryArray)
    distinct = block.messages.dictionary if coded else block.messages
    records = np.array([{"value": value} for value in distinct.to_numpy(zero_copy_only=False)], dtype=object)
    return records[block.messages.indices.to_numpy()] if coded else records
