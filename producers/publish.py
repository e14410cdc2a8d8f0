"""The upload of a dataset into a topic: every record once, in order, in bounded memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from unskew.errors import EnvironmentFault, UsageError, UserError
from unskew.kafka.connection import Connection
from unskew.kafka.outbox import Outbox
from unskew.kafka.topics import count_partitions, missing_topic
from unskew.producers.datasets.interface import Block, Dataset
from unskew.producers.key_counts import KeyCounts
from unskew.producers.pace import Pace
from unskew.producers.partitioning import Placement, RoundRobinPlacement
from unskew.producers.resumption import Resumption, UploadJournal, begin_upload
from unskew.shell import escape_controls
from unskew.shown_keys import show_key

Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class UploadSummary:
    """The result of an upload."""

    dataset: str  #: What was sent, and the topic that it was sent to.
    topic: str
    partitions: int  #: The number of the topic's partitions.
    records: int  #: Records that the broker has acknowledged.
    size: int  #: Bytes of the messages sent, before compression.
    seconds: float  #: Time from the first message to the last acknowledgement.
    keys: KeyCounts = field(repr=False)  #: How often each key was sent.
    failed: int = 0  #: Records that could not be delivered.
    error: str = ""  #: Why they could not be delivered. Empty: all were.
    interrupted: bool = False  #: Whether the user stopped the upload.

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def p1(self) -> float:
        """The share of the most frequent key, 0 to 1."""
        return self.keys.top(1)[0][1] / self.keys.total if self.keys.total else 0.0

    def table(self, hottest: int = 5) -> Table:
        """The summary as a table to print, with the ``hottest`` most frequent keys."""
        table = Table(title=f"{self.dataset} ▶ {self.topic}", title_justify="left", show_header=False)
        table.add_row("records", f"{self.records:,}" + (" (stopped)" if self.interrupted else ""))
        if self.failed:
            table.add_row("not delivered", f"{self.failed:,}")
        table.add_row("partitions", str(self.partitions))
        table.add_row("bytes", f"{self.size:,}")
        table.add_row("time", f"{self.seconds:.1f} s")
        table.add_row("rate", f"{self.rate:,.0f} records/s, {self.size / max(self.seconds, 1e-9) / 1e6:,.1f} MB/s")
        table.add_row("distinct keys", f"{'≈ ' if self.keys.error else ''}{self.keys.distinct:,}")
        table.add_row("p1", f"{self.p1:.2%}")
        for key, count in self.keys.top(hottest):
            table.add_row(Text(f"  {escape_controls(show_key(key))}"), f"{count:,} ({count / self.keys.total:.2%})")
        return table


class DeliveryFault(EnvironmentFault):
    """Some records were not delivered. ``summary`` says how many were."""

    def __init__(self, summary: UploadSummary) -> None:
        super().__init__(
            f"{summary.failed:,} records could not be delivered to topic {summary.topic!r} "
            f"({summary.records:,} were): {summary.error}"
        )
        self.summary = summary


def publish_dataset(
    connection: Connection,
    topic: str,
    dataset: Dataset,
    *,
    pace: Pace | None = None,
    placement: Placement | None = None,
    progress: Progress | None = None,
    complain: Callable[[str], None] | None = None,
    stopped: Callable[[], bool] = bool,
    journal: UploadJournal | None = None,
    resume: bool = False,
) -> UploadSummary:
    """Send a dataset's records to an existing topic and wait until the broker has them all.

    Without a placement, record *i* of the dataset goes to partition *i* mod P, without a key. Delivery is idempotent:
    a lost connection or a restart of a broker neither loses nor doubles a record. Each partition has its records in
    order. Memory is bounded by ``Outbox.max_records`` and ``Outbox.max_bytes``.

    Parameters
    ----------
    connection : Connection
        The cluster.
    topic : str
        The topic, which must exist (``unskew.kafka.topics.ensure_topic``).
    dataset : Dataset
        What to send.
    pace : Pace or None
        Such as ``Rate(50_000)`` or ``Replay(60)``. None: as fast as the broker takes the records.
    placement : Placement or None
        A new one, such as ``Partitioner``, for as many partitions as the topic has. None: ``RoundRobinPlacement``.
    progress : callable (records sent, bytes sent), optional
        Called after every few thousand records.
    complain : callable, optional
        Called with a line of text while no broker answers and delivery is tried again, at most every 30 s.
    stopped : callable, optional
        Called often. Once it returns true, no more records are sent, and those under way are waited for.
    journal : UploadJournal, optional
        A file that makes it possible to resume the upload, whatever ends it.
    resume : bool
        Resume the journal's upload, if there is one: send only the records that the topic doesn't have.

    Returns
    -------
    UploadSummary
        The result of the upload.

    Raises
    ------
    UsageError
        There is no such topic, it has another number of partitions, or the upload can't be resumed (``begin_upload``).
    EnvironmentFault
        No broker answers, or the dataset can't be read further.
    DeliveryFault
        Records could not be delivered. It has the summary.

    """
    # This comes first: messages to a missing topic fail only when they time out.
    partitions = count_partitions(connection, topic)
    if partitions is None:
        raise missing_topic(connection, topic, ": make it first")
    placement = placement or RoundRobinPlacement(partitions)
    if placement.partitions != partitions:
        raise UsageError(f"topic {topic} has {partitions} partitions, not {placement.partitions}")
    start, resumption = 0, None
    if journal is not None:
        start, resumption = begin_upload(connection, topic, placement, journal, resume=resume)
    outbox = Outbox.of(connection, topic, stopped, complain)
    upload = _Upload(outbox, placement, pace or Pace(), progress, start, resumption)
    try:
        for block in dataset.blocks(start):
            upload.send(block)
            if outbox.is_closed:
                break
            if journal is not None:
                journal.note()
    except UserError as error:  # a file that can't be read on, say
        outbox.drain()
        raise type(error)(f"{error} ({outbox.delivery_count:,} records before it were sent)") from None
    outbox.drain()
    summary = UploadSummary(
        dataset=dataset.name,
        topic=topic,
        partitions=partitions,
        records=outbox.delivery_count,
        size=upload.size,
        seconds=time.monotonic() - upload.begun,
        keys=upload.keys,
        failed=outbox.failed,
        error=outbox.error,
        interrupted=stopped(),
    )
    if summary.failed:
        raise DeliveryFault(summary)
    if journal is not None and not summary.interrupted:
        journal.finish(upload.position)
    return summary


class _Upload:
    """An upload under way: ``send`` takes the dataset's blocks in order."""

    def __init__(
        self,
        outbox: Outbox,
        placement: Placement,
        pace: Pace,
        progress: Progress | None,
        start: int,
        resumption: Resumption | None,
    ) -> None:
        self._outbox = outbox
        self._placement = placement
        self._pace = pace
        self._progress = progress
        self.position = start
        self._resumption = resumption
        self._records = RecordEncoder(keyed=placement.keyed)
        self._sent = 0
        self.keys = KeyCounts()
        self.size = 0
        self.begun = time.monotonic()

    def send(self, block: Block) -> None:
        """Send the block piece by piece, each when it is due, until all is sent or the outbox is closed."""
        records = self._records.of(block)
        partitions = self._placement.choose(block, self.position)
        self.position += len(block)
        if self._resumption is not None and not self._resumption.over:
            missing = self._resumption.missing(records, partitions)
            records, partitions, block = records[missing], partitions[missing], block.only(missing)
        lengths, sent = block.lengths, 0
        for stop, due in self._pace.pieces(block, self._sent):
            self._outbox.wait(self.begun + due)
            if self._outbox.is_closed:
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
        ends = np.cumsum(np.bincount(partitions, minlength=self._placement.partitions))
        for partition, indices in enumerate(np.split(order, ends[:-1])):
            self._outbox.put(records[indices].tolist(), partition, longest)


class RecordEncoder:
    """Convert blocks into arrays of records, ``{"value": bytes}``, with a ``"key"`` too if ``keyed``.

    Equal messages of a dictionary share one record, and the next block uses the same records again. Making new ones
    would take longer than anything else here. Kafka's client copies what it sends.
    """

    def __init__(self, *, keyed: bool = False) -> None:
        self._keyed = keyed
        self._pool: list[dict[str, Any]] = []
        self._array = np.empty(0, dtype=object)

    def of(self, block: Block) -> NDArray[np.object_]:
        """The records of a block, object[n]. They are valid until the next call."""
        messages = block.messages
        codes = None
        if isinstance(messages, pa.DictionaryArray):
            if self._keyed:
                messages = messages.dictionary_decode()
            else:
                codes, messages = messages.indices.to_numpy(), messages.dictionary
        self._fill("value", messages)
        if self._keyed:
            self._fill("key", block.first_keys())
        return self._array[: len(block)] if codes is None else self._array[codes]

    def _fill(self, field: str, values: pa.Array) -> None:
        if len(values) > len(self._pool):
            self._pool = [{"value": b""} for _ in range(len(values))]
            self._array = np.array(self._pool, dtype=object)
        for record, value in zip(self._pool, values.to_pylist(), strict=False):
            record[field] = value
