"""A topic's outgoing records: a bounded queue that reports every lost record, and tasks' delivery with it."""

import time
from collections.abc import Callable
from typing import Any, ClassVar, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection

#: The client's settings for uploads, which a --kafka-config may change. Large batches compress well, and 20 ms of
#: latency don't matter.
SETTINGS = {
    "compression.type": "lz4",
    "linger.ms": 20,
    "batch.num.messages": 50_000,
    "batch.size": 1_000_000,
    "delivery.timeout.ms": 120_000,
    "log_level": 0,  # the client's logs come as errors, too
}
_QUIET = 30.0  # seconds between calls of ``complain``


class Outbox:
    """The outgoing records of an existing topic, by a producer whose settings include ``Outbox.settings``.

    ``put`` waits while too many records are in flight, because the client can't. If its queue is full, its
    ``produce_batch`` takes some of the records and omits others, without an error, which breaks their order. Once the
    user has ``stopped``, records in flight have ``grace`` seconds to arrive.
    """

    #: The most records, and bytes of records, in flight.
    max_records: ClassVar[int] = 200_000
    max_bytes: ClassVar[int] = 128 << 20
    #: Seconds in which records in flight may arrive after a stop.
    grace: ClassVar[float] = 10.0
    settings: ClassVar[dict[str, Any]] = {
        "enable.idempotence": True,
        # After a failure no later record is delivered. So a partition has an upload's first records without gaps, which
        # a resumed upload relies on.
        "enable.gapless.guarantee": True,
        # never reached, because of `put`
        "queue.buffering.max.messages": 2 * max_records,
        "queue.buffering.max.kbytes": 4 * max_bytes >> 10,
        # a Python call per record would halve the rate
        "delivery.report.only.error": True,
    }

    def __init__(self, producer: Producer, topic: str, stopped: Callable[[], bool]) -> None:
        self._producer = producer
        self._topic = topic
        self._stopped = stopped
        self._stopped_at: float | None = None
        self._accepted = 0
        self._longest = 1
        self.failed = 0
        self.error = ""
        self.code: int | None = None  # of the error

    @classmethod
    def of(
        cls,
        connection: Connection,
        topic: str,
        stopped: Callable[[], bool] = bool,
        complain: Callable[[str], None] | None = None,
    ) -> Self:
        """The outbox of an upload, with a separate producer. ``complain`` gets the client's errors, now and then."""
        settings = connection.client(**cls.settings, error_cb=_limit_complaints(complain))
        return cls(Producer({**SETTINGS, **settings}), topic, stopped)

    @property
    def delivery_count(self) -> int:
        """The number of acknowledged records."""
        return self._accepted - self.failed - len(self._producer)

    @property
    def is_closed(self) -> bool:
        """Whether to put no more records, because the user wants to stop or a record has failed."""
        return self.failed > 0 or self._stopped()

    def put(self, records: list[dict[str, Any]], partition: int, longest: int) -> None:
        """Pass records to the client, in order, after waiting for room.

        ``longest`` is the size of the largest record in bytes. All records have the same fields: ``key`` and ``value``,
        perhaps ``headers``, and perhaps ``topic`` and ``partition``. Records after a failed one count as failed, too.
        """
        # The queue's bytes are unknown, but at most its length times the longest record so far.
        self._longest = max(self._longest, longest)
        room = max(1, min(self.max_records, self.max_bytes // self._longest))
        step = max(1, room // 4)
        for at in range(0, len(records), step):
            part = records[at : at + step]
            self._accepted += len(part)
            while len(self._producer) + len(part) > room and not self.failed:
                self._poll(0.005)
            if self.failed:
                self.failed += len(part)
                continue
            if part[0].keys() - {"key", "value"}:
                self._produce(part, partition)
                continue
            taken = self._producer.produce_batch(self._topic, part, partition=partition, on_delivery=self._report)
            if taken < len(part):
                error = next(record.pop("_error") for record in part if "_error" in record)
                self._fail(error, len(part) - taken)

    def _produce(self, records: list[dict[str, Any]], partition: int) -> None:
        """Pass records to the client one by one, because its batch call takes only keys and values."""
        for at, record in enumerate(records):
            try:
                to = {"topic": self._topic, "partition": partition}
                self._producer.produce(on_delivery=self._report, **(to | record))
            except KafkaException as error:
                self._fail(error.args[0], len(records) - at)
                return

    def wait(self, until: float) -> None:
        """Wait until this monotonic time, or until the outbox is closed."""
        while (left := until - time.monotonic()) > 0 and not self.is_closed:
            self._serve_client(min(left, 0.1))

    def drain(self) -> None:
        """Wait until every record has arrived or failed."""
        while len(self._producer):
            self._poll(0.1)
            self._serve_client(0, self._producer.flush)

    def _serve_client(self, seconds: float, serve: Callable[[float], Any] | None = None) -> None:
        """Let the client report, by ``poll`` or another of its functions.

        Raises ``KafkaException`` for an error with which no record failed.
        """
        try:
            (serve or self._producer.poll)(seconds)
        except KafkaException as error:
            # Giving up a record in flight breaks the guarantee of no gaps. It is also reported as failed.
            if error.args[0].code() != KafkaError._GAPLESS_GUARANTEE:  # noqa: SLF001  its public name
                raise

    def _poll(self, seconds: float) -> None:
        self._serve_client(seconds)
        if self._stopped_at is None and self._stopped():
            self._stopped_at = time.monotonic()
        if self._stopped_at is not None and time.monotonic() - self._stopped_at > self.grace:
            self._producer.purge()

    def _report(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._fail(error, 1)

    def _fail(self, error: KafkaError, records: int) -> None:
        if not self.failed:
            self.error, self.code = error.str(), error.code()
        self.failed += records


def _limit_complaints(complain: Callable[[str], None] | None) -> Callable[[KafkaError], None]:
    """A callback for the client's errors that calls ``complain`` now and then."""
    last = -_QUIET

    def on_error(error: KafkaError) -> None:
        nonlocal last
        vague = error.code() == KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001  its public name; others say why
        if complain and not vague and time.monotonic() - last >= _QUIET:
            last = time.monotonic()
            complain(f"Kafka: {error.str()}; trying on")

    return on_error


#: Lets the client choose each record's partition.
ANY_PARTITION = -1
#: A task's settings. The partitioner is that of Java's client, which writes some topics in Spark's Kafka sink. So all
#: records of a key are in one partition.
OURS = {**Outbox.settings, "partitioner": "murmur2_random", "enable.gapless.guarantee": False}
#: A --kafka-config may change these. Nothing is logged, because failures come as errors.
OF_TASKS = {"linger.ms": 5, "delivery.timeout.ms": 120_000, "log_level": 0}


class TaskDelivery:
    """Delivers a task's records to a topic. The process's next tasks use the same client.

    Raises
    ------
    EnvironmentFault
        Kafka refused some records, or didn't acknowledge them in time. The client is dropped, because an idempotent
        client can't resend records that it has given up.

    """

    _clients: ClassVar[dict[tuple[Any, ...], Producer]] = {}

    def __init__(self, connection: Connection, topic: str) -> None:
        settings = {**OF_TASKS, **connection.client(**OURS)}
        self._client = tuple(sorted(settings.items()))
        if self._client not in self._clients:
            # A failure is reported with its record. Without a callback some failures are also raised in between.
            self._clients[self._client] = Producer({**settings, "error_cb": lambda _: None})
        self._topic = topic
        self._outbox = Outbox(self._clients[self._client], topic, bool)

    def put(self, records: list[dict[str, Any]]) -> None:
        """Send records (``key`` and ``value``, bytes). Wait while too many are in flight."""
        if records:
            longest = max(len(record["key"]) + len(record["value"]) for record in records)
            self._outbox.put(records, ANY_PARTITION, longest)

    def abort(self) -> None:
        """Give up: records in flight may still arrive."""

    def finish(self) -> None:
        """Wait until all records have been acknowledged."""
        self._outbox.drain()
        if self._outbox.failed:
            del self._clients[self._client]
            raise EnvironmentFault(
                f"{self._outbox.failed} records were not written to {self._topic} ({self._outbox.error})"
            )
