"""The result topics: their names, and the records that the driver and the tasks write to them."""

from collections.abc import Iterable, Sequence
from itertools import islice

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.splitter.fields import LONGEST_KEY
from unskew.apps.topology.messages import ID_DIGITS, LONGEST_RECORD, NO_WINDOW, Message
from unskew.apps.topology.settings import Settings
from unskew.deploy.client.connection import ESCAPE, Connection
from unskew.deploy.client.outbox import Delivery
from unskew.deploy.client.topics import ensure_topic, largest_batches
from unskew.errors import EnvironmentFault

_PART = 10_000  # messages


def result_topics(settings: Settings) -> dict[str, str]:
    """Role → topic: aggregator, distribution, rejected, and results if the work has states."""
    return {
        **({"results": f"{settings.name}-results"} if settings.states else {}),
        "aggregator": f"{settings.name}-aggregator",
        "distribution": f"{settings.name}-distribution",
        "rejected": f"{settings.source_name}-rejected",
    }


class Publisher:
    """Writes records to the run's result topics; each call returns when Kafka has acknowledged them all.

    Raises
    ------
    EnvironmentFault
        A result topic, or the client by the user's settings, doesn't take records as large as a run may have.

    """

    def __init__(self, settings: Settings) -> None:
        self._connection = settings.connection
        self.topics = result_topics(settings)
        for topic in self.topics.values():
            # Who made it may have chosen its partitions by what reads it, or for another run on the same source.
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
    """Refuse topics and settings by which a record could be too large: no message of a producer's may end a run."""
    needed = LONGEST_RECORD + _ADDED
    limits = {f"topic {topic}: max.message.bytes": size for topic, size in largest_batches(connection, topics).items()}
    limits |= {name: int(connection.properties[name]) for name in _CLIENT_LIMITS if name in connection.properties}
    for what, limit in limits.items():
        if limit < needed:
            raise EnvironmentFault(f"{what} is {limit}; valid: at least {needed}, for a record of the longest key")


def result_records(rows: DataFrame, identity: Sequence[str], batch: Batch, generation: int) -> DataFrame:
    """The results of a keyed work as records: columns ``key`` and ``value``.

    A record names its checkpoint's generation and its batch. Among the records of a Kafka key, the one of the latest
    batch of the latest generation is valid, even if a producer that tries again, or a driver that was paused, has
    appended an older one after it. If a
    result is too large for a record, an ``error`` is published instead, because the result that it overwrites is no
    longer valid.

    Parameters
    ----------
    rows : DataFrame
        Columns: window (null if states outlive windows), key, result (a struct).
    identity : sequence of str
        The fields that distinguish a result from others of its key and window. They are part of the Kafka key, so a
        result that is published again overwrites itself.
    batch : Batch
        The batch. Its time is the timestamp of results without a window.
    generation : int
        It is greater than those of the checkpoints that have written to the topic before.

    """
    named = {"generation": generation, "number": batch.number, "time": batch.time_ms}
    start = F.date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")  # our sessions are in UTC
    own = [F.to_json(F.struct(*(F.col(f"result.{name}") for name in identity)))] if identity else []
    subject = F.concat_ws("/", F.coalesce(start, F.lit(NO_WINDOW)), F.col("key"))
    kafka_key = F.concat_ws("/", subject, *own)
    message_id = F.substring(F.sha2(kafka_key, 256), 1, ID_DIGITS)
    if own:
        kafka_key = F.when(F.octet_length(kafka_key) <= 2 * LONGEST_KEY, kafka_key).otherwise(
            F.concat_ws("/", subject, message_id)
        )
    head = (
        "key",
        message_id.alias("messageId"),
        F.coalesce(F.unix_millis("window.end"), F.lit(batch.time_ms).cast("long")).alias("timestamp"),
        F.struct(*(F.lit(value).alias(name) for name, value in named.items())).alias("batch"),
        F.struct("key", start.alias("window")).alias("tags"),
    )
    whole = F.to_json(F.struct(*head, F.struct("result.*").alias("fields")))
    size = F.octet_length(kafka_key) + F.octet_length(whole)
    error = F.concat(F.lit("the result's record has "), size, F.lit(f" bytes, not {LONGEST_RECORD} at most"))
    without = F.to_json(F.struct(*head, F.create_map().alias("fields"), error.alias("error")))
    return rows.select(kafka_key.alias("key"), F.when(size <= LONGEST_RECORD, whole).otherwise(without).alias("value"))
