"""The result topics: who writes to them and what they are called."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, ClassVar, Self

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Delivered
from pyspark.sql import DataFrame

from unskew.apps.topology.messages import Message
from unskew.apps.topology.settings import Settings
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.errors import EnvironmentFault
from unskew.producers.outbox import Outbox

# As Spark's Kafka sink, that is Java's client, chooses the partition: a key's records are all in one, those of earlier
# versions too.
_ANY_PARTITION = -1
_OURS = {**Outbox.settings, "partitioner": "murmur2_random", "enable.gapless.guarantee": False}
# What a --kafka-config may change.
_SETTINGS = {"linger.ms": 5, "delivery.timeout.ms": 120_000, "log_level": 0}  # what there is to say comes as an error


def result_topics(settings: Settings) -> dict[str, str]:
    """Role → topic: aggregator, distribution, rejected, and results if the work has states."""
    return {
        **({"results": f"{settings.name}-results"} if settings.states else {}),
        "aggregator": f"{settings.name}-aggregator",
        "distribution": f"{settings.name}-distribution",
        "rejected": f"{settings.source_name}-rejected",
    }


class Delivery:
    """A task's records on their way to a topic; the client is the process' own, and used again by its next tasks.

    Raises
    ------
    EnvironmentFault
        Kafka refused some, or did not acknowledge them in time. The client is not used again: what an idempotent one
        has given up it can't put right.

    """

    _clients: ClassVar[dict[tuple[Any, ...], Producer]] = {}

    def __init__(self, connection: Connection, topic: str) -> None:
        settings = {**_SETTINGS, **connection.client(**_OURS)}
        self._client = tuple(sorted(settings.items()))
        if self._client not in self._clients:
            # What fails comes back with its record; without a callback some of it is raised in the middle too.
            self._clients[self._client] = Producer({**settings, "error_cb": lambda _: None})
        self._topic = topic
        self._outbox = Outbox(self._clients[self._client], topic, bool)

    def put(self, records: list[dict[str, Any]]) -> None:
        """Hand these over (``key`` and ``value``, bytes), waiting while too much is under way."""
        if records:
            longest = max(len(record["key"]) + len(record["value"]) for record in records)
            self._outbox.put(records, _ANY_PARTITION, longest)

    def finish(self) -> None:
        """Wait until all of them have been acknowledged."""
        self._outbox.drain()
        if self._outbox.failed:
            del self._clients[self._client]
            raise EnvironmentFault(_refused(self._outbox.failed, self._topic, self._outbox.error))


class Publisher:
    """Writes records to the run's result topics; each call returns when Kafka has acknowledged them all.

    A context manager: at its end, nothing of it lives on.
    """

    def __init__(self, settings: Settings) -> None:
        self._connection = settings.connection
        self.topics = result_topics(settings)
        for topic in self.topics.values():
            ensure_topic(self._connection, topic, settings.sources)
        self._producer = Producer(
            self._connection.client(**{"enable.idempotence": True, "linger.ms": 5, "log_level": 0})
        )

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the client go."""
        self._producer.close()

    def write(self, records: DataFrame, role: str) -> None:
        """Write a DataFrame of ``key`` and ``value``, from the executors."""
        records.write.format("kafka").options(**self._connection.spark()).option("topic", self.topics[role]).save()

    def send(self, role: str, messages: Iterable[Message]) -> None:
        """Write a few messages from the driver.

        Raises
        ------
        EnvironmentFault
            Kafka refused some, or did not acknowledge them in time.

        """
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Delivered) -> None:
            if error is not None:
                failed.append(error)

        for message in messages:
            self._producer.produce(self.topics[role], message.value, message.key, on_delivery=delivered)
            self._producer.poll(0)
        self._producer.flush()
        if failed:
            raise EnvironmentFault(_refused(len(failed), self.topics[role], failed[0].str()))


def _refused(records: int, topic: str, error: str) -> str:
    return f"{records} records were not written to {topic} ({error})"
