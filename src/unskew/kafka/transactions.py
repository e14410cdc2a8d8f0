"""Delivers records exactly once: a batch's records of one part, and its number, in one Kafka transaction.

A part is what one task, or the driver, writes of a batch. If a batch runs again, each part has the same records. So a
part first looks for the batch's number, and writes nothing if it is there. Its steps are:

1. Open a producer with the part's transactional id.
2. ``init_transactions``. The broker ends another process's transaction with this id: it completes a decided commit, or
   aborts. It also fences that process, which can never commit with this id again.
3. Write a mark, a record without a value, after the part's numbers, and read the last number before it. A later read
   would be too late, and one before step 2 could miss a commit. So could one from a broker that doesn't know yet that
   it no longer leads the partition: but that one lacks the mark, which all in-sync replicas have acknowledged.
4. Begin a transaction, and produce the number.
5. Produce the records, in the same transaction.
6. Commit.

The numbers are in a compacted topic with a partition for each part. In a shared partition, another part's open
transaction would hide numbers from ``read_committed`` consumers. A consumer group's offsets could have the number, too,
but Kafka removes them after a week without members.

Steps 1 to 3 are skipped while the process has the part's producer from an earlier batch. Only the broker knows whether
another process has taken the part meanwhile. So the process waits for the broker's acknowledgement of the number before
it takes records that can't be repeated. If the broker refuses the number, it starts with step 1.

Reference: KIP-98, "Exactly Once Delivery and Transactional Messaging"; KIP-447 for the fence.
"""

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]  it is public
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from unskew.errors import EnvironmentFault
from unskew.kafka.connection import ISOLATION, Connection
from unskew.kafka.outbox import ANY_PARTITION, OF_TASKS, OURS, Outbox
from unskew.kafka.topics import await_leaders

#: The alternative, for errors.
OTHERWISE = "--delivery at-least-once needs no transactions"
#: Settings of the topic of numbers. Segments are small, because Kafka compacts only complete ones.
COMMITS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}

_PATIENCE = 60.0  # s, for the coordinator, which may be moving to another broker
_LONGEST = 900_000  # ms; Kafka's default of a broker's longest time-out
_SHORTER = (900_000, 300_000, 60_000, 10_000)  # ms; tried in turn if the broker doesn't tell its longest
_TAIL = 8  # offsets; the end of a transaction has one, too
_MOST_KEPT = 32  # producers of a process; each has threads
_SILENT = logging.getLogger(f"{__name__}.client")
_SILENT.setLevel(logging.CRITICAL + 1)  # failures come as errors
_SOON = {"reconnect.backoff.ms": 5}  # also delays the client's first connection
_ATTEMPTS = 3
_COMMITTING = 120.0  # s
_ABORTING = 5.0  # s
_ACKNOWLEDGING = 5.0  # s
_AGAIN = 0.05  # s

# Errors of a producer that was fenced, or whose transaction was ended from outside: another process has the part, or
# the time was up.
_INTERRUPTING = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  its public name
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.TRANSACTION_ABORTABLE,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
# Errors of records after that.
_AFTERWARDS = frozenset({KafkaError._FATAL, KafkaError._STATE, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})  # noqa: SLF001
_FORBIDDEN = frozenset(
    {
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
_TOO_OLD = frozenset({KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE})  # noqa: SLF001


class TransactionInterrupted(EnvironmentFault):
    """Another process has taken the part, or the transaction took too long: nothing was written, so retry."""


class _TransactionOutbox(Outbox):
    """Records of a transaction. If the producer fails, records in flight are given up at once."""

    grace = 0.0


@dataclass(frozen=True, slots=True)
class BatchId:
    """A batch's number, which its parts write."""

    batch: int  #: The batch's number.
    planned_ms: int  #: When the batch was planned (ms), which distinguishes plans with the same number.

    def to_bytes(self) -> bytes:
        """The record's value."""
        return orjson.dumps({"batch": self.batch, "planned": self.planned_ms})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse a record's value."""
        found = orjson.loads(data)
        return cls(found["batch"], found["planned"])

    def follows(self, last: "BatchId | None", part: str) -> bool:
        """Whether a part with the last number ``last`` has yet to write this batch.

        Raises ``EnvironmentFault`` if the part has written another batch of this number, or a later batch planned
        before this one: the checkpoint was set back since, and its batches differ from the written ones.
        """
        if last is None or self.batch > last.batch:
            return True
        same, before = self.batch == last.batch, self.planned_ms < last.planned_ms
        if self == last or (before and not same):
            return False
        raise EnvironmentFault(
            f"{part} has written batch {last.batch} of another plan than this batch {self.batch}: the checkpoint was "
            "set back; start again"
        )


class TransactionalWriter:
    """Writes one part's transactions, with this process's producer for it.

    ``name`` is the part's transactional id. A process that begins with it fences earlier ones. ``commits`` is the topic
    of numbers, with the settings ``COMMITS``, and ``partition`` the part's there. ``otherwise`` says, for errors, what
    works without transactions. Raises ``EnvironmentFault`` if the broker refuses transactions, or can't be reached.
    """

    _kept: ClassVar[OrderedDict[tuple[Any, ...], Any]] = OrderedDict()
    _granted: ClassVar[dict[str, int]] = {}  # brokers → their longest transaction (ms)

    def __init__(
        self, connection: Connection, name: str, commits: str, partition: int, otherwise: str = OTHERWISE
    ) -> None:
        self._connection = connection
        self._otherwise = otherwise
        self._name, self._commits, self._partition = name, commits, partition
        self._producer: Producer | None = None
        self._last: BatchId | None = None  # the part's last number, unless the producer is fenced
        self._errors: deque[KafkaError] = deque(maxlen=10)
        self._timeout_ms = _LONGEST

    @classmethod
    def of(cls, connection: Connection, name: str, commits: str, partition: int, otherwise: str = OTHERWISE) -> Self:
        """The process's writer from an earlier batch, or a new one."""
        kept = cls._kept
        key = (cls, name, commits, partition, *sorted(connection.client().items()))
        writer = kept.pop(key, None) or cls(connection, name, commits, partition, otherwise)
        kept[key] = writer
        while len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
        return writer

    def fence(self) -> None:
        """Fence other processes with the part, and check that the broker lets us write it.

        Raises ``EnvironmentFault`` if the broker refuses transactions, or doesn't answer.
        """
        # Steps 1 to 3, in this order: after the fence no other process can commit with this id, and earlier commits
        # precede the mark.
        self.abort()
        with self._ending():
            self._open()
            self._init()
            self._last = self._read(self._mark())

    def begin(self, topic: str, number: BatchId) -> bool:
        """Begin the transaction of a batch's records for a topic. False if the part has written this batch already.

        Raises ``EnvironmentFault`` if the broker refuses transactions, or doesn't answer, or the part has written the
        batch under another plan.
        """
        # With a producer from an earlier batch, steps 1 to 3 are skipped. If ``_last`` is this batch or a later one,
        # nothing is left to write, whoever has the part now. If it is older, another process may have written this
        # batch since. But then the broker refuses the number, and the part is read anew below.
        self._topic = topic
        if self._producer is not None:
            if not number.follows(self._last, self._name):
                return False
            # A new producer recovers from any error, or says why not.
            with self._ending(suppressed=True):
                self._begin(number)
                self._acknowledge()
                return True
        self.fence()
        with self._ending():
            # No need to wait here: the broker has just accepted this process. If another one takes the part later, the
            # commit fails, and the batch is retried.
            if number.follows(self._last, self._name):
                self._begin(number)
                return True
        return False

    def put(self, records: list[dict[str, Any]]) -> None:
        """Produce records. Wait while too many are in flight. Raises ``EnvironmentFault`` as ``finish``.

        Each has ``key`` and ``value`` (bytes or None). All of them may have ``topic`` (str), ``partition`` (int), and
        ``headers`` (a list of (str, bytes or None), or None).
        """
        if not records:
            return
        with self._ending():
            # Step 5.
            self._records.put(records, ANY_PARTITION, max(map(_record_size, records)))
            self._require(self._records, self._topic)

    def finish(self) -> None:
        """Commit, which makes records and number visible to ``read_committed`` consumers.

        Raises
        ------
        TransactionInterrupted
            Another process has taken the part, or the transaction took too long. Nothing was written.
        EnvironmentFault
            Kafka refused records, or didn't acknowledge them in time. Nothing was written, unless the answer to the
            commit was lost, which another ``begin`` finds out.

        """
        with self._ending():
            try:
                self._commit()
            except KafkaException as error:
                if error.args[0].code() not in _INTERRUPTING:
                    self._require(self._records, self._topic)  # says more about the reason
                raise
            # Only after the commit. If its answer was lost, the producer is dropped, and ``begin`` reads the number.
            self._last = self._number

    def abort(self) -> None:
        """Abort the transaction, if any."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):  # may be fenced, or have nothing to abort
                producer.abort_transaction(_ABORTING)

    def _open(self) -> None:
        """Step 1, with the broker's longest time-out, because a batch may be large."""
        self._errors.clear()
        granted = self._granted.get(self._connection.bootstrap_servers) or _query_longest_timeout(self._connection)
        self._timeout_ms = granted
        settings = {**OF_TASKS, **_SOON, **self._connection.client(**OURS)}
        settings["delivery.timeout.ms"] = min(int(settings["delivery.timeout.ms"]), granted)
        settings |= {"transactional.id": self._name, "transaction.timeout.ms": granted, "error_cb": self._errors.append}
        self._producer = Producer(settings, logger=_SILENT)  # a fence would be logged at any level
        # Without a connected broker, the client looks for the coordinator only after 500 ms. The first answer is a
        # bootstrap server's, whose connection the client then drops. So wait for a second one.
        for _ in range(2):
            self._producer.list_topics(self._commits, _PATIENCE)

    def _init(self) -> None:
        """Step 2."""
        producer = self._current_producer
        try:
            producer.init_transactions(_PATIENCE)
        except KafkaException as error:
            # The broker allows less, which it may not tell. A producer's time-out is fixed, so a new one tries less.
            shorter = [ms for ms in _SHORTER if ms < self._timeout_ms]
            if error.args[0].code() != KafkaError.INVALID_TRANSACTION_TIMEOUT or not shorter:
                raise
            self._granted[self._connection.bootstrap_servers] = shorter[0]
            self._open()
            self._init()
        else:
            self._granted[self._connection.bootstrap_servers] = self._timeout_ms

    def _mark(self) -> int:
        """Step 3: write a mark after the part's numbers, and return its offset."""
        found: list[KafkaError | int | None] = []
        settings = {"acks": "all", "linger.ms": 0, "delivery.timeout.ms": round(1000 * _PATIENCE), "log_level": 0}
        errors = {"error_cb": self._errors.append}
        producer = Producer(_SOON | self._connection.client(**settings | errors), logger=_SILENT)
        producer.produce(
            self._commits,
            key=f"{self._name}-mark".encode(),  # compaction keeps the last one
            partition=self._partition,
            on_delivery=lambda error, record: found.append(error or record.offset()),
        )
        producer.flush()
        (offset,) = found
        if not isinstance(offset, int):
            raise KafkaException(offset)
        return offset

    def _read(self, mark: int) -> BatchId | None:
        """Step 3: the part's last number before the mark, if any.

        After step 2 no transaction should be open in the partition. But a broker killed between a commit's decision and
        its end in the partition may lose the end (seen with a single broker). Whether the number before the missing end
        counts is then unknown.

        """
        return _read_last_before(self._connection, self._commits, self._partition, mark)

    def _begin(self, number: BatchId) -> None:
        """Step 4."""
        producer = self._current_producer
        self._number = number
        self._records, self._numbers = (
            _TransactionOutbox(producer, of, self._has_failed) for of in (self._topic, self._commits)
        )
        producer.begin_transaction()
        self._put_batch_id(number)

    def _put_batch_id(self, number: BatchId) -> None:
        record = {"key": self._name.encode(), "value": number.to_bytes()}
        self._numbers.put([record], self._partition, len(record["key"]) + len(record["value"]))

    def _acknowledge(self) -> None:
        """Wait until the broker has the number, and so has accepted this process for the part."""
        deadline = time.monotonic() + _ACKNOWLEDGING
        while len(self._current_producer):
            if self._has_failed() or time.monotonic() > deadline:
                raise self._interruption("no acknowledgement")
            self._current_producer.flush(0.05)
        self._require(self._numbers, self._commits)

    def _has_failed(self) -> bool:
        """Whether the producer has failed permanently. Unsent records then stay in its queue."""
        return any(error.fatal() or error.code() in _INTERRUPTING for error in self._errors)

    def _commit(self) -> None:
        """Step 6."""
        deadline = time.monotonic() + _COMMITTING
        while True:
            try:
                return self._current_producer.commit_transaction(max(1.0, deadline - time.monotonic()))
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    @property
    def _current_producer(self) -> Producer:
        assert self._producer is not None, "no transaction has begun"
        return self._producer

    def _require(self, outbox: Outbox, topic: str) -> None:
        """Raise if any of the outbox's records failed."""
        if outbox.failed:
            self._current_producer.poll(0)  # the client's errors may come after the records that they fail
            causes = [error for error in self._errors if error.code() in _INTERRUPTING]
            if causes or self._has_failed() or outbox.code in _INTERRUPTING | _AFTERWARDS:
                raise self._interruption(causes[0].str() if causes else outbox.error)
            raise EnvironmentFault(f"{outbox.failed} records were not written to {topic} ({outbox.error})")

    @contextmanager
    def _ending(self, *, suppressed: bool = False) -> Iterator[None]:
        """Abort at any error, and raise the Kafka client's as ours, or suppress them."""
        try:
            yield
        except KafkaException as error:
            self.abort()
            if not suppressed:
                raise self._fault(error.args[0]) from error
        except BaseException as error:
            self.abort()
            if not suppressed or not isinstance(error, EnvironmentFault):
                raise

    def _fault(self, error: KafkaError) -> EnvironmentFault:
        code, where = error.code(), self._connection.bootstrap_servers
        codes = {code, *(each.code() for each in self._errors)}
        if codes & _FORBIDDEN:
            return EnvironmentFault(
                f"the broker at {where} refuses the transactional id {self._name} ({error.str()}): grant WRITE and "
                f"DESCRIBE on it, and READ and WRITE on topic {self._commits}; {self._otherwise}"
            )
        if codes & _TOO_OLD:
            return EnvironmentFault(
                f"the broker at {where} has no transactions ({error.str()}): Kafka has them since 0.11; "
                f"{self._otherwise}"
            )
        if codes & _INTERRUPTING:
            return self._interruption(error.str())
        return EnvironmentFault(
            f"the transaction of {self._name} failed ({error.str()}): does the broker at {where} have a transaction "
            f"coordinator? {self._otherwise}"
        )

    def _interruption(self, reason: str) -> TransactionInterrupted:
        return TransactionInterrupted(
            f"the transaction of {self._name} was ended from outside ({reason}): another process writes the same "
            f"part, or the transaction took longer than {self._timeout_ms / 1000:g} s (the broker's "
            "transaction.max.timeout.ms)"
        )


def _record_size(record: dict[str, Any]) -> int:
    """The bytes of a record, without Kafka's overhead."""
    headers = sum(len(name) + len(value or b"") for name, value in record.get("headers") or ())
    return len(record["key"] or b"") + len(record["value"] or b"") + headers


class TransactionalDelivery:
    """Delivers a task's records of a batch, like ``TaskDelivery``, unless the part has written the batch.

    Raises ``EnvironmentFault`` as ``TransactionalWriter``.
    """

    def __init__(self, writer: TransactionalWriter, topic: str, number: BatchId) -> None:
        self._writer = writer if writer.begin(topic, number) else None

    def put(self, records: list[dict[str, Any]]) -> None:
        """As ``TaskDelivery``."""
        if self._writer is not None:
            self._writer.put(records)

    def finish(self) -> None:
        """As ``TaskDelivery``."""
        if self._writer is not None:
            self._writer.finish()

    def abort(self) -> None:
        """Abort the transaction."""
        if self._writer is not None:
            self._writer.abort()


def deliver_records(
    writer: TransactionalWriter, topic: str, number: BatchId, records: Callable[[], Iterable[list[dict[str, Any]]]]
) -> bool:
    """Write a part's records of a batch, and retry if another process interrupts it. Return whether they were written
    now.

    ``records`` creates them anew, in lists of bounded size. After some attempts, raises ``EnvironmentFault`` as
    ``TransactionalWriter.finish``.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            if not writer.begin(topic, number):
                return False
            for some in records():
                writer.put(some)
            writer.finish()
        except TransactionInterrupted:
            if attempt == _ATTEMPTS:
                raise
        except BaseException:
            writer.abort()
            raise
        else:
            break
    return True


def read_last_batch_ids(connection: Connection, topic: str, partitions: Iterable[int]) -> dict[int, BatchId]:
    """Partition of a topic of numbers → its last committed number, if any.

    Only a partition's end is read, unless it has no numbers. Raises ``EnvironmentFault`` if the broker doesn't answer.
    """
    with _open_consumer(connection, topic) as consumer:
        found = {
            partition: _read_last_batch_id(consumer, TopicPartition(topic, partition))[0] for partition in partitions
        }
    return {partition: number for partition, number in found.items() if number is not None}


def _read_last_before(connection: Connection, topic: str, partition: int, mark: int) -> BatchId | None:
    """A partition's last number, after all transactions that began before the record at ``mark`` have ended.

    Raises ``EnvironmentFault`` if the broker doesn't answer, or such a transaction is open.
    """
    of, deadline, hangs = TopicPartition(topic, partition), time.monotonic() + _PATIENCE, False
    while True:
        with _open_consumer(connection, topic) as consumer:
            number, read_to = _read_last_batch_id(consumer, of)
            there = consumer.get_watermark_offsets(of, cached=True)[1]  # of uncommitted records, too
        # Committed records are read up to the first open transaction. If that is after the mark, all that began before
        # the mark have ended, and their last number is final.
        if read_to > mark:
            return number
        # A new leader doesn't know at once that its replicas have the newest records, so it is asked once more. Other
        # brokers that lack the mark don't lead any more.
        if hangs and there > mark:
            raise EnvironmentFault(
                f"a transaction hangs in partition {partition} of {topic}, at offset {read_to} of {there}: "
                "end it by Kafka's kafka-transactions.sh, then start again"
            )
        if time.monotonic() > deadline:
            raise EnvironmentFault(f"reading {topic} failed: no broker that answers has offset {mark} of {partition}")
        hangs = there > mark
        time.sleep(_AGAIN)


@contextmanager
def _open_consumer(connection: Connection, topic: str) -> Iterator[Consumer]:
    """A consumer of committed records, in the block."""
    settings = {"group.id": "unskew", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    fast = {"fetch.wait.max.ms": 10, ISOLATION: "read_committed", "error_cb": lambda _: None}
    consumer = Consumer(_SOON | connection.client(**settings | fast))
    try:
        yield consumer
    except KafkaException as error:
        raise EnvironmentFault(f"reading {topic} failed: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _read_last_batch_id(consumer: Consumer, of: TopicPartition) -> tuple[BatchId | None, int]:
    """A partition's last number, and the end of the committed records read."""
    first, end = await_leaders(lambda: consumer.get_watermark_offsets(of, timeout=_PATIENCE), _PATIENCE)
    # From the end backwards, eight times as far each time: mostly the number is among the last few records.
    tail = _TAIL
    while True:
        start = max(first, end - tail)
        found, read_to = _read_newest_value(consumer, TopicPartition(of.topic, of.partition, start))
        if found is not None or start == first:
            return None if found is None else BatchId.from_bytes(found), read_to
        tail *= _TAIL


def _read_newest_value(consumer: Consumer, start: TopicPartition) -> tuple[bytes | None, int]:
    """The newest value from an offset to the end of the committed records, and that end's offset."""
    consumer.assign([start])
    newest, deadline = None, time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            # A mark has no value, and so hides no number.
            newest = message.value() or newest
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  its public name
            return newest, message.offset() or 0
        elif not error.retriable() and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # no group used
            raise KafkaException(error)
    raise EnvironmentFault(f"reading {start.topic} failed: no answer within {_PATIENCE:g} s")


def _query_longest_timeout(connection: Connection) -> int:
    """The broker's longest transaction (ms), or Kafka's default if it doesn't tell."""
    admin = connection.admin()  # named, so that it lives until the answer
    try:
        some = next(iter(admin.list_topics(timeout=_PATIENCE).brokers))
        asked = ConfigResource(ResourceType.BROKER, str(some))
        (answer,) = admin.describe_configs([asked], request_timeout=_PATIENCE).values()
        return min(_LONGEST, int(answer.result()["transaction.max.timeout.ms"].value))
    except (KafkaException, KeyError, StopIteration, ValueError):
        return _LONGEST
