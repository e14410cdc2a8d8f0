"""The source: the Kafka topic as a stream of messages, read in portions, and the messages that Kafka no longer has."""

from collections.abc import Mapping, Sequence

from confluent_kafka import Message
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.settings import Settings
from unskew.apps.splitter.avro_refusals import SchemaRefusals
from unskew.apps.splitter.field_columns import KAFKA_COLUMNS, LAST, NOW, EventTime, FieldColumn, FieldValue
from unskew.apps.splitter.formats import SchemaSource, get_splitter
from unskew.apps.splitter.splitter import POSITION, Splitter, reject_times
from unskew.kafka.connection import Connection
from unskew.kafka.reader import newest_messages, producer_time
from unskew.kafka.topics import end_offsets, first_offsets
from unskew.spark.micro_batches import get_batch_number, make_batch_time
from unskew.spark.setting_names import BYTES, ROWS

_UNCHECKED = 2**31 - 1  # bytes; with this limit Spark doesn't add up the buffers

MOST_ROWS, MOST_BYTES = 65_536, 64 << 20
_MARGIN = 4  # times the size of the largest sample
#: The error that ends a query with limited rows at a message so large that these rows could be too many bytes.
TOO_LARGE = "a message is much larger than samples of its topic"
#: The largest batch (tuples) for which all keys fit into the memory of the workers' tasks.
MOST_TUPLES = 5_000_000
_SMALL = {"partition", "offset", "timestamp", "timestampType"}


def set_portions(spark: SparkSession, settings: Settings, samples: Sequence[bytes]) -> int | None:
    """Set how many rows go from Spark to Python at a time, for the session's next query.

    Spark ends an Arrow batch at a number of rows, or at a number of bytes. To know the bytes, it adds up all the
    batch's buffers after each row, which is a quarter of a small message's cost. So if samples of the topic show how
    many rows are few enough bytes, only the rows are limited. The bytes are limited if there are no samples, and if
    workers get more than keys. The user's own settings of these limits are kept.

    Returns the message size (bytes) up to which a batch of that many rows keeps within the bytes: several times the
    size of the samples. None: Spark limits the bytes.
    """
    rows, size = int(settings.conf.get(ROWS, MOST_ROWS)), MOST_BYTES
    if (
        samples
        and set(settings.carried_columns) & set(KAFKA_COLUMNS) <= _SMALL
        and settings.batch_limit <= MOST_TUPLES
        and rows > 0
    ):
        if ROWS not in settings.conf:
            rows = min(rows, max(1, MOST_BYTES // max(1, *(_MARGIN * len(sample) for sample in samples))))
        size = _UNCHECKED
    for name, value in {ROWS: rows, BYTES: size}.items():
        if name not in settings.conf:
            spark.conf.set(name, str(value))
    return MOST_BYTES // rows if size == _UNCHECKED and BYTES not in settings.conf else None


def count_lost_messages(
    connection: Connection, topic: str, start: Mapping[str, int], end: Mapping[str, int] | None = None
) -> dict[int, int]:
    """Partition → how many of its messages from ``start`` on, and before ``end``, the topic has lost, if any.

    ``start`` and ``end`` are partition → offset: where reading resumes, and where it stops (exclusive). Default end:
    the topic's end.
    """
    first, there = first_offsets(connection, topic), end_offsets(connection, topic, committed=False)
    lost: dict[int, int] = {}
    for name, offset in start.items():
        partition = int(name)
        stop = there[partition] if end is None else end[name]
        if there[partition] < offset:  # the topic was made anew: reading goes on from its end
            lost[partition] = there[partition] - first[partition]
        else:
            lost[partition] = min(first[partition], stop) - offset
    return {partition: number for partition, number in sorted(lost.items()) if number > 0}


def count_skipped_messages(connection: Connection, topic: str, start: Mapping[str, int]) -> dict[int, int]:
    """Partition → how many messages a topic that was made anew has before the offsets at which reading resumes.

    If it doesn't reach these offsets yet, reading resumes at its end, and ``count_lost_messages`` reports that.
    """
    first, there = first_offsets(connection, topic), end_offsets(connection, topic, committed=False)
    offsets = {int(name): offset for name, offset in start.items()}
    return {p: max(0, offset - first[p]) for p, offset in offsets.items() if p in there and there[p] >= offset}


def describe_loss(topic: str, lost: Mapping[int, int]) -> str:
    """The error message about lost messages, in one line."""
    where = ", ".join(f"partition {partition}: {number:,}" for partition, number in lost.items())
    return (
        f"topic {topic} no longer has {sum(lost.values()):,} messages that are not counted yet ({where}); "
        "--on-data-loss skip goes on without them"
    )


# Spark's Kafka source fetches 500 messages at a time by default; small messages then cost three times as much.
FETCH = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(8 << 20)}

_SAMPLES = 100  # messages


def read_topic(spark: SparkSession, settings: Settings) -> DataFrame:
    """The topic's messages as Spark reads them: one task a partition, in offset order."""
    reader = (
        spark.readStream.format("kafka")
        .options(**FETCH)
        .options(**settings.connection.spark())
        .option("subscribe", settings.topic)
        .option("startingOffsets", settings.starting_offsets)
        .option("maxOffsetsPerTrigger", settings.batch_limit)
        .option("failOnDataLoss", settings.on_data_loss == "fail")
    )
    return reader.load()


def choose_splitter(settings: Settings, samples: Sequence[bytes] = ()) -> Splitter:
    """The splitter of a run. ``samples`` are messages of its topic. Raises ``UsageError`` as ``get_splitter``."""
    schemas = SchemaSource(settings.schema, SchemaRefusals(settings.location, get_batch_number))
    columns = make_field_columns(settings)
    return get_splitter(settings.source_type, settings.key_field, settings.format, samples, schemas, columns)


def make_field_columns(settings: Settings) -> tuple[FieldColumn, ...]:
    """The columns that a run reads from fields of the messages, beside the key."""
    types = getattr(settings.work, "types", {})
    names = [name for name in settings.carried_columns if name not in KAFKA_COLUMNS]
    values = tuple(FieldValue.of(name, types.get(name)) for name in names)
    if settings.time_field is None:
        return values
    return (EventTime(settings.time_field, settings.time_unit or "ms", settings.max_ahead), *values)


def prepare_messages(
    settings: Settings, splitter: Splitter, messages: DataFrame, batch_time: Column
) -> tuple[Splitter, DataFrame]:
    """The splitter and the messages of a batch of this time, such that messages are rejected by their times, too."""
    if settings.uses_message_time:
        ahead = settings.max_ahead if settings.time == "event" and settings.time_field is None else None
        splitter = reject_times(splitter, batch_time, ahead)
    if splitter.columns:
        messages = messages.withColumn(NOW, F.unix_millis(batch_time))
    return splitter, messages


def open_topic(
    spark: SparkSession, settings: Settings, ahead_ms: int, *, count_bytes: bool = False
) -> tuple[Splitter, DataFrame]:
    """The splitter of the topic's messages, and the messages. It also sets how many are read at a time.

    Both depend on samples of the messages. ``ahead_ms`` is how much batch time is ahead of Spark's (``BatchClock``).
    With ``count_bytes``, Spark limits the bytes that it gives to Python at a time, whatever the samples show. If it
    only limits the rows, a message that is too large for that ends the query with ``TOO_LARGE``.
    """
    newest = newest_messages(settings.connection, settings.topic, _SAMPLES)
    samples = [value for value in (message.value() for message in newest) if value is not None]
    largest = set_portions(spark, settings, [] if count_bytes else samples)
    batch_time = make_batch_time(ahead_ms)
    found, messages = prepare_messages(
        settings, choose_splitter(settings, samples), read_topic(spark, settings), batch_time
    )
    if largest is not None:
        value = F.col("value")
        refused = F.raise_error(F.lit(TOO_LARGE)).cast("binary")
        messages = messages.withColumn("value", F.when(F.length(value) > largest, refused).otherwise(value))
    return found, messages


def is_contradicted(settings: Settings, time_ms: int) -> bool | None:
    """Whether a batch of this time would reject one of the topic's newest messages because its time is in the future.

    If so, either the message's time or the clock is wrong. Times that the broker has set contradict no clock, because
    none of these messages is rejected. The run goes by event time. None: no message was seen.
    """
    newest = newest_messages(settings.connection, settings.topic, _SAMPLES)
    latest = time_ms + 1000 * settings.max_ahead
    # Where windows go by a field, a broker's time contradicts the clock as well: no message is exempt because of it.
    read = producer_time if settings.time_field is None else _get_time
    times = [read(message) for message in newest]
    return any(ms is not None and latest < ms <= LAST for ms in times) if times else None


def find_newest_ms(settings: Settings) -> int:
    """The time (ms) of the newest of the topic's messages that were seen, or 0."""
    newest = newest_messages(settings.connection, settings.topic, _SAMPLES)
    return max(map(_get_time, newest), default=0)


def _get_time(message: Message) -> int:
    return message.timestamp()[1]


def select_messages(settings: Settings, read: DataFrame, splitter: Splitter) -> DataFrame:
    """The topic's messages as ``splitter.open`` gives them, with source, time, and the work's columns."""
    read_from_fields = {column.name for column in splitter.columns}
    carried = [
        F.col("partition").alias("source"),
        *([] if "time" in read_from_fields else [F.col("timestamp").alias("time")]),
        *(F.col(name) for name in settings.carried_columns if name not in read_from_fields),
    ]
    if settings.rejects_failures:
        carried += [F.col(column).alias(name) for column, name in zip(("partition", "offset"), POSITION, strict=True)]
    return splitter.open(read, *carried)
