"""The result topics: who writes to them and what they are called."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Delivered
from pyspark.sql import DataFrame

from unskew.apps.topology.messages import Message
from unskew.apps.topology.settings import Settings
from unskew.deploy.client.topics import ensure_topic
from unskew.errors import EnvironmentFault


def result_topics(settings: Settings) -> dict[str, str]:
    """Role → topic: aggregator, distribution, rejected, and results if the work has states."""
    return {
        **({"results": f"{settings.name}-results"} if settings.keyed else {}),
        "aggregator": f"{settings.name}-aggregator",
        "distribution": f"{settings.name}-distribution",
        "rejected": f"{settings.source_name}-rejected",
    }


class Publisher:
    """Writes records to the run's result topics; each call returns when Kafka has acknowledged them all.

    A context manager: at its end, nothing of it lives on.
    """

    def __init__(self, settings: Settings) -> None:
        self._connection = settings.connection
        self.topics = result_topics(settings)
        for topic in self.topics.values():
            ensure_topic(self._connection, topic, settings.sources)
        self._producer = Producer(self._connection.client(**{"enable.idempotence": True, "linger.ms": 5}))

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
            raise EnvironmentFault(f"{len(failed)} records were not written to {self.topics[role]} ({failed[0].str()})")
