"""Records exactly once: a batch's records of one part, and the batch's number, are one transaction of Kafka's.

A part is what one task, or the driver, writes of a batch. A batch that runs again gives the same records in the same
part. So a part that runs again looks for its number, and writes nothing if the batch is there. Its steps are:

1. Open a producer with the part's transactional id.
2. ``init_transactions``. The broker ends what another process had begun with this id: it completes a commit that had
   been decided, and aborts the rest. It also fences that process, which can never commit with this id again.
3. Write a mark behind the part's numbers, a record without a value, and read the last number before it. A later read
   would be too late, and one before step 2 could miss a commit. So could one of a broker that doesn't know yet that it
   no longer leads the partition. Such a broker lacks the mark, which all replicas that are in sync have acknowledged.
4. Begin a transaction, and produce the number.
5. Produce the records, in the same transaction.
6. Commit.

The numbers are in a compacted topic, in which each part has a partition of its own. In a partition that parts shared,
a transaction that another part has left open would hide a number from ``read_committed`` consumers. The offsets of a
consumer group could carry the number too, but Kafka removes them after a week without members.

Steps 1 to 3 are left out while the process has the part's producer from an earlier batch. Only the broker knows whether
another process has taken the part meanwhile. So the process then waits until the broker has acknowledged the number,
before it takes records that can't be given again. If the broker refuses the number, it begins with step 1.

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

#: The other way to deliver, which errors name.
OTHERWISE = "--delivery at-least-once needs no transactions"
#: Settings of the topic of numbers. Small segments, because Kafka compacts only those that are complete.
COMMITS = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.1"}

_PATIENCE = 60.0  # s for the coordinator, which may be moving to another broker
_LONGEST = 900_000  # ms; Kafka's default for the longest time-out that a broker grants
_SHORTER = (900_000, 300_000, 60_000, 10_000)  # ms; tried in turns where the broker doesn't say what it grants
_TAIL = 8  # offsets; the end of a transaction has one too
_MOST_KEPT = 32  # producers of a process; each has threads of its own
_SILENT = logging.getLogger(f"{__name__}.client")
_SILENT.setLevel(logging.CRITICAL + 1)  # each failure comes as an error
_SOON = {"reconnect.backoff.ms": 5}  # the client waits for so long before it first connects, too
_ATTEMPTS = 3
_COMMITTING = 120.0  # s
_ABORTING = 5.0  # s
_ACKNOWLEDGING = 5.0  # s
_AGAIN = 0.05  # s

# What fences a producer, or ends its transaction from outside: another process has the part, or the time was over.
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
# How records fail after that.
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
    """Another process has taken the part, or the transaction took too long: nothing was written, so try again."""


class _TransactionOutbox(Outbox):
    """Records of a transaction. What is under way when the producer fails is given up at once."""

    grace = 0.0


@dataclass(frozen=True, slots=True)
class BatchId:
    """The number of a batch, as its parts write it.

    Attributes
    ----------
    batch : int
        The batch's number.
    planned_ms : int
        When the batch was planned (ms). Two plans of the same number differ in it.

    """

    batch: int
    planned_ms: int

    def to_bytes(self) -> bytes:
        """The record's value."""
        return orjson.dumps({"batch": self.batch, "planned": self.planned_ms})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The number of a record's value."""
        found = orjson.loads(data)
        return cls(found["batch"], found["planned"])

    def follows(self, last: "BatchId | None", part: str) -> bool:
        """Whether a part whose last number is ``last`` has yet to write this batch.

        Raises
        ------
        EnvironmentFault
            The part has written another batch of this number, or a later batch that was planned before this one. So
            the checkpoint was set back since, and its batches aren't those that were written.

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
    """One part's transactions, by the producer that this process has for it.

    Parameters
    ----------
    connection : Connection
        The cluster.
    name : str
        The part's transactional id. Whoever begins with it fences those who have begun with it before.
    commits : str
        The topic of numbers, with the settings ``COMMITS``.
    partition : int
        The part's partition there.
    otherwise : str
        What needs no transactions, for errors.

    Raises
    ------
    EnvironmentFault
        The broker refuses transactions, or can't be reached.

    """

    _kept: ClassVar[OrderedDict[tuple[Any, ...], Any]] = OrderedDict()
    _granted: ClassVar[dict[str, int]] = {}  # brokers → the longest transaction (ms) that they grant

    def __init__(
        self, connection: Connection, name: str, commits: str, partition: int, otherwise: str = OTHERWISE
    ) -> None:
        self._connection = connection
        self._otherwise = otherwise
        self._name, self._commits, self._partition = name, commits, partition
        self._producer: Producer | None = None
        self._last: BatchId | None = None  # the part's last number, as long as nobody fences the producer
        self._errors: deque[KafkaError] = deque(maxlen=10)
        self._timeout_ms = _LONGEST

    @classmethod
    def of(cls, connection: Connection, name: str, commits: str, partition: int, otherwise: str = OTHERWISE) -> Self:
        """The part's transactions as this process has them from an earlier batch, or new ones."""
        kept = cls._kept
        key = (cls, name, commits, partition, *sorted(connection.client().items()))
        writer = kept.pop(key, None) or cls(connection, name, commits, partition, otherwise)
        kept[key] = writer
        while len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
        return writer

    def fence(self) -> None:
        """Fence whoever has had the part, and check that the broker lets us write it.

        Raises
        ------
        EnvironmentFault
            The broker refuses transactions, or doesn't answer.

        """
        # Steps 1 to 3, in this order: after the fence nobody else can commit with this id, and what had been decided
        # before it lies before the mark.
        self.abort()
        with self._ending():
            self._open()
            self._init()
            self._last = self._read(self._mark())

    def begin(self, topic: str, number: BatchId) -> bool:
        """Begin the transaction of a batch's records for a topic. False: the part has written this batch already.

        Raises
        ------
        EnvironmentFault
            The broker refuses transactions, or doesn't answer. Or the part has written the batch by another plan.

        """
        # With a producer from an earlier batch, steps 1 to 3 are left out. If ``_last`` is of this batch, or of a later
        # one, nothing is left to write, whoever has the part now. If it is older, somebody else may have written this
        # batch since. But then the broker refuses the number, and the part is read anew below.
        self._topic = topic
        if self._producer is not None:
            if not number.follows(self._last, self._name):
                return False
            # Whatever is wrong, a new producer gets over it, or says why not.
            with self._ending(suppressed=True):
                self._begin(number)
                self._acknowledge()
                return True
        self.fence()
        with self._ending():
            # Nobody is waited for here: the broker has accepted this process just now. If another one takes the part
            # after it, the commit fails, and the batch is tried again.
            if number.follows(self._last, self._name):
                self._begin(number)
                return True
        return False

    def put(self, records: list[dict[str, Any]]) -> None:
        """Produce records. Wait while too many are under way.

        Parameters
        ----------
        records : list of dict
            Each with ``key`` and ``value`` (bytes or None). All of them may have ``topic`` (str), ``partition`` (int),
            and ``headers`` (a list of (str, bytes or None), or None).

        Raises
        ------
        EnvironmentFault
            As ``finish``.

        """
        if not records:
            return
        with self._ending():
            # Step 5.
            self._records.put(records, ANY_PARTITION, max(map(_record_size, records)))
            self._require(self._records, self._topic)

    def finish(self) -> None:
        """Commit. Records and number are there for ``read_committed`` consumers from now on.

        Raises
        ------
        TransactionInterrupted
            Another process has taken the part, or the time of the transaction was over. Nothing of it was written.
        EnvironmentFault
            Kafka refused records, or didn't acknowledge them in time. Nothing of the transaction was written, unless
            the answer to the commit was lost. Another ``begin`` finds that out.

        """
        with self._ending():
            try:
                self._commit()
            except KafkaException as error:
                if error.args[0].code() not in _INTERRUPTING:
                    self._require(self._records, self._topic)  # it says more of the reason
                raise
            # Only once it is committed. If the answer was lost, the producer is given up, and ``begin`` reads what
            # holds.
            self._last = self._number

    def abort(self) -> None:
        """Give up what was begun, if anything was."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):  # it may be fenced, or have nothing to abort
                producer.abort_transaction(_ABORTING)

    def _open(self) -> None:
        """Step 1. The longest time-out that the broker grants is asked for, because a batch may be large."""
        self._errors.clear()
        granted = self._granted.get(self._connection.bootstrap_servers) or _query_longest_timeout(self._connection)
        self._timeout_ms = granted
        settings = {**OF_TASKS, **_SOON, **self._connection.client(**OURS)}
        settings["delivery.timeout.ms"] = min(int(settings["delivery.timeout.ms"]), granted)
        settings |= {"transactional.id": self._name, "transaction.timeout.ms": granted, "error_cb": self._errors.append}
        self._producer = Producer(settings, logger=_SILENT)  # a fence would be logged, whatever the level
        # If no broker is connected, the client looks for the coordinator after 500 ms only. The first answer is of a
        # bootstrap server, whose connection the client then gives up. So the second one is waited for, too.
        for _ in range(2):
            self._producer.list_topics(self._commits, _PATIENCE)

    def _init(self) -> None:
        """Step 2."""
        producer = self._current_producer
        try:
            producer.init_transactions(_PATIENCE)
        except KafkaException as error:
            # The broker grants less, and may not have said so before. A producer's time-out is for good, so a new one
            # tries less.
            shorter = [ms for ms in _SHORTER if ms < self._timeout_ms]
            if error.args[0].code() != KafkaError.INVALID_TRANSACTION_TIMEOUT or not shorter:
                raise
            self._granted[self._connection.bootstrap_servers] = shorter[0]
            self._open()
            self._init()
        else:
            self._granted[self._connection.bootstrap_servers] = self._timeout_ms

    def _mark(self) -> int:
        """Step 3: write a mark behind the part's numbers; its offset."""
        found: list[KafkaError | int | None] = []
        settings = {"acks": "all", "linger.ms": 0, "delivery.timeout.ms": round(1000 * _PATIENCE), "log_level": 0}
        errors = {"error_cb": self._errors.append}
        producer = Producer(_SOON | self._connection.client(**settings | errors), logger=_SILENT)
        producer.produce(
            self._commits,
            key=f"{self._name}-mark".encode(),  # whose last one the compaction keeps
            partition=self._partition,
            on_delivery=lambda error, record: found.append(error or record.offset()),
        )
        producer.flush()
        (offset,) = found
        if not isinstance(offset, int):
            raise KafkaException(offset)
        return offset

    def _read(self, mark: int) -> BatchId | None:
        """Step 3: the part's last number, before the mark. None: it has none yet.

        After step 2 no transaction should be open in the partition. But a broker that is killed between a commit's
        decision and its end in the partition may lose the end (seen with Kafka's only broker). Then nobody can tell
        whether the number before the missing end counts.

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
        """Wait until the broker has the number, and so accepts this process for the part."""
        deadline = time.monotonic() + _ACKNOWLEDGING
        while len(self._current_producer):
            if self._has_failed() or time.monotonic() > deadline:
                raise self._interruption("no acknowledgement")
            self._current_producer.flush(0.05)
        self._require(self._numbers, self._commits)

    def _has_failed(self) -> bool:
        """Whether the producer has failed for good. What it has not sent yet stays in its queue then."""
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
        """Raise if records of the outbox have failed."""
        if outbox.failed:
            self._current_producer.poll(0)  # the client's errors may come after the records that fail by them
            causes = [error for error in self._errors if error.code() in _INTERRUPTING]
            if causes or self._has_failed() or outbox.code in _INTERRUPTING | _AFTERWARDS:
                raise self._interruption(causes[0].str() if causes else outbox.error)
            raise EnvironmentFault(f"{outbox.failed} records were not written to {topic} ({outbox.error})")

    @contextmanager
    def _ending(self, *, suppressed: bool = False) -> Iterator[None]:
        """Abort at any error, and raise those of Kafka's client as ours, or none."""
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
        """Why a step failed."""
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
    """The bytes of a record, without what Kafka adds."""
    headers = sum(len(name) + len(value or b"") for name, value in record.get("headers") or ())
    return len(record["key"] or b"") + len(record["value"] or b"") + headers


class TransactionalDelivery:
    """A task's records of a batch, as ``TaskDelivery`` takes them. If the part has written the batch, they are left
    out.

    Raises
    ------
    EnvironmentFault
        As ``TransactionalWriter``.

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
        """Give up what isn't finished."""
        if self._writer is not None:
            self._writer.abort()


def deliver_records(
    writer: TransactionalWriter, topic: str, number: BatchId, records: Callable[[], Iterable[list[dict[str, Any]]]]
) -> bool:
    """Write a batch's records of a part, and begin again if another process interrupts it.

    Parameters
    ----------
    writer, topic, number
        The writer of the part, the topic of its records, and the batch's number.
    records : callable
        Gives the records anew, in lists of bounded size.

    Returns
    -------
    bool
        Whether they were written now. False: they had been written before.

    Raises
    ------
    EnvironmentFault
        As ``TransactionalWriter.finish``, after some attempts.

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
    """Partition of a topic of numbers → its last number, from committed transactions. Those without one are left out.

    Only a partition's end is read, unless there are no numbers in it.

    Raises
    ------
    EnvironmentFault
        The broker doesn't answer.

    """
    with _open_consumer(connection, topic) as consumer:
        found = {
            partition: _read_last_batch_id(consumer, TopicPartition(topic, partition))[0] for partition in partitions
        }
    return {partition: number for partition, number in found.items() if number is not None}


def _read_last_before(connection: Connection, topic: str, partition: int, mark: int) -> BatchId | None:
    """A partition's last number, when all transactions have been settled that began before the record at ``mark``.

    Raises
    ------
    EnvironmentFault
        The broker doesn't answer, or such a transaction is open.

    """
    of, deadline, hangs = TopicPartition(topic, partition), time.monotonic() + _PATIENCE, False
    while True:
        with _open_consumer(connection, topic) as consumer:
            number, read_to = _read_last_batch_id(consumer, of)
            there = consumer.get_watermark_offsets(of, cached=True)[1]  # of uncommitted records too
        # Committed records are read up to the first transaction that is open. If that is behind the mark, all that
        # began before the mark have been settled, and their last number is final.
        if read_to > mark:
            return number
        # A leader that has just begun doesn't know at once that its replicas have the newest records. Once it does, it
        # is asked once more. Other brokers that lack the mark don't lead any more.
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
    """A consumer of committed records, until the block ends."""
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
    """A partition's last number, and the offset up to which committed records were read."""
    first, end = await_leaders(lambda: consumer.get_watermark_offsets(of, timeout=_PATIENCE), _PATIENCE)
    # From the end backwards, each time eight times as far: mostly the number is among the last few records.
    tail = _TAIL
    while True:
        start = max(first, end - tail)
        found, read_to = _read_newest_value(consumer, TopicPartition(of.topic, of.partition, start))
        if found is not None or start == first:
            return None if found is None else BatchId.from_bytes(found), read_to
        tail *= _TAIL


def _read_newest_value(consumer: Consumer, start: TopicPartition) -> tuple[bytes | None, int]:
    """The newest value from an offset to the end of what is committed, and the offset of that end."""
    consumer.assign([start])
    newest, deadline = None, time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            # A mark has no value, and hides no number.
            newest = message.value() or newest
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  its public name
            return newest, message.offset() or 0
        elif not error.retriable() and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # no group is used
            raise KafkaException(error)
    raise EnvironmentFault(f"reading {start.topic} failed: no answer within {_PATIENCE:g} s")


def _query_longest_timeout(connection: Connection) -> int:
    """The longest transaction (ms) that the broker grants, or Kafka's default if it doesn't say."""
    admin = connection.admin()  # a name for it until the answer is here
    try:
        some = next(iter(admin.list_topics(timeout=_PATIENCE).brokers))
        asked = ConfigResource(ResourceType.BROKER, str(some))
        (answer,) = admin.describe_configs([asked], request_timeout=_PATIENCE).values()
        return min(_LONGEST, int(answer.result()["transaction.max.timeout.ms"].value))
    except (KafkaException, KeyError, StopIteration, ValueError):
        return _LONGEST
