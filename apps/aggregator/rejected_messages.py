"""Publishes rejected messages with the reason, read again from their topic.

If a batch's routers report rejected messages, the batch's offsets are read again, outside the hot path. The reports
don't contain the messages, because they go through the driver's memory, and all messages of a batch may be rejected,
each of up to a megabyte.

They are written to ``<sourceName>-rejected``. The Kafka key is the message's position (topic-partition-offset), so a
replay writes the same records. If a record would be too large, it has only the message's beginning and length.
"""

from collections.abc import Callable, Mapping

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.settings import Settings
from unskew.apps.splitter.kafka_source import choose_splitter, prepare_messages
from unskew.apps.worker.result_messages import LONGEST_RECORD

# Characters of a reason, and characters or bytes of a truncated message. JSON writes up to six bytes for each.
_REASON = 10_000
_CUT = LONGEST_RECORD // 8

_FAILED = "partition int, offset long, failure string"


def read_rejected(
    spark: SparkSession, settings: Settings, batch: Batch, failures: Mapping[tuple[int, int], str]
) -> DataFrame:
    """The rejected messages of a batch as Kafka records: columns ``key`` and ``value`` (JSON).

    A value that isn't text is in ``valueBase64``, in base64. Of a large value it is the beginning, and ``valueLength``
    is the whole's number of bytes. Of messages with a key on which the user's work raised an error, ``failures`` has
    the reason, by (partition, offset).
    """
    messages = (
        spark.read.format("kafka")
        .options(**settings.connection.spark())
        # Not a subscription, because the topic may have more partitions since the batch was planned.
        .option("assign", orjson.dumps({topic: [*map(int, ends)] for topic, ends in batch.end.items()}).decode())
        .option("startingOffsets", orjson.dumps(batch.start).decode())
        .option("endingOffsets", orjson.dumps(batch.end).decode())
        .option("failOnDataLoss", settings.on_data_loss == "fail")
        .load()
    )
    failed = spark.createDataFrame([(*position, why) for position, why in failures.items()], _FAILED)
    messages = messages.join(F.broadcast(failed), ["partition", "offset"], "left")
    batch_time = F.timestamp_millis(F.lit(batch.time_ms))
    splitter, messages = prepare_messages(settings, choose_splitter(settings), messages, batch_time)
    value = F.col("value")
    text = F.is_valid_utf8(value.cast("string"))
    position = F.concat_ws("-", "topic", "partition", "offset")

    def record(shown: Callable[[Column], Column], length: Column) -> Column:
        body = F.struct(
            F.substring("reason", 1, _REASON).alias("reason"),
            "topic",
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("timestamp"),
            F.when(text, shown(value.cast("string"))).alias("value"),
            F.when(~text, F.base64(shown(value))).alias("valueBase64"),
            length.alias("valueLength"),
        )
        return F.to_json(body)

    whole = record(lambda shown: shown, F.lit(None).cast("int"))
    cut = record(lambda shown: F.substring(shown, 1, _CUT), F.octet_length(value))
    fits = F.octet_length(position) + F.octet_length(whole) <= LONGEST_RECORD
    messages = messages.withColumn("reason", F.coalesce("failure", splitter.why(value)))
    return messages.where("reason is not null").select(
        position.alias("key"), F.when(fits, whole).otherwise(cut).alias("value")
    )
