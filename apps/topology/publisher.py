"""The result topics: their names, and the records that the driver and the tasks write to them."""

from collections.abc import Iterable
from itertools import islice

from pyspark.sql import DataFrame

from unskew.apps.topology.dataflow import stage_of
from unskew.apps.topology.messages import LONGEST_RECORD, Message
from unskew.apps.topology.settings import Settings
from unskew.deploy.kafka.connection import ESCAPE, Connection
from unskew.deploy.kafka.outbox import Delivery
from unskew.deploy.kafka.topics import ensure_topic, largest_batches
from unskew.errors import EnvironmentFault

_PART = 10_000  # messages


def result_topics(settings: Settings) -> dict[str, str]:
    """Role → topic: aggregator, distribution, rejected, and results if the work has states."""
    return {
        **stage_of(settings).topics,
        "aggregator": f"{settings.name}-aggregator",
        "distribution": f"{settings.name}-distribution",
        "rejected": f"{settings.topic}-rejected",
    }


class Publisher:
    """Writes records to the run's result topics; each call returns when Kafka has acknowledged them all.

    Raises
    ------
    EnvironmentFault
        A result topic, or the client with the user's settings, refuses records as large as a run may have.

    """

    def __init__(self, settings: Settings) -> None:
        self._connection = settings.connection
        self.topics = result_topics(settings)
        for topic in self.topics.values():
            # The topic may have been made for its readers' number of partitions, or for another run on the same source.
            ensure_topic(self._connection, topic, settings.sources, any_number=True)
        _require_room(self._connection, self.topics.values())

    def write(self, records: DataFrame, role: str) -> None:
        """Write a DataFrame of ``key`` and ``value``, from the executors."""
        # Not by `Delivery`: a record may have 960 KiB, and Arrow batches of records, unlike rows, have to be bounded.
        writer = records.write.format("kafka").mode("append").options(**self._connection.spark())
        writer.option("topic", self.topics[role]).save()

    def send(self, role: str, messages: Iterable[Message]) -> None:
        """Write messages from the driver, which holds ``_PART`` of them at a time.

        Raises
        ------
        EnvironmentFault
            Kafka refused some messages, or did not acknowledge them in time.

        """
        delivery = Delivery(self._connection, self.topics[role])
        left = iter(messages)
        while part := [{"key": each.key.encode(), "value": each.value} for each in islice(left, _PART)]:
            delivery.put(part)
        delivery.finish()


# What Kafka's client and log add to a record, at most.
_ADDED = 4096
_CLIENT_LIMITS = ("message.max.bytes", f"{ESCAPE}max.request.size")


def _require_room(connection: Connection, topics: Iterable[str]) -> None:
    """Refuse limits that a record could exceed, because no message of a producer may end a run."""
    needed = LONGEST_RECORD + _ADDED
    limits = {f"topic {topic}: max.message.bytes": size for topic, size in largest_batches(connection, topics).items()}
    limits |= {name: int(connection.properties[name]) for name in _CLIENT_LIMITS if name in connection.properties}
    for what, limit in limits.items():
        if limit < needed:
            raise EnvironmentFault(f"{what} is {limit}; valid: at least {needed}, for a record of the longest key")
