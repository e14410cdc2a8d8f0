"""Rejected messages: they are read again from the topic, and published with the reason.

Rejected messages take no part in the hot path. If a batch's routers report some, the batch's own range of offsets is
read once more. The routers' reports don't bring the messages themselves: these reports go through the driver's memory,
and a batch may have nothing but rejected messages, each of up to a megabyte.

The messages without a key are then written to ``<sourceName>-rejected``. The Kafka key is the message's position
(topic-partition-offset), so a replay writes the same records again. If a message would make its record too large, the
record has only its beginning, and the length of the whole.
"""

from collections.abc import Callable, Mapping

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.settings import Settings
from unskew.apps.splitter.kafka_source import choose_splitter, prepare_messages
from unskew.apps.worker.result_messages import LONGEST_RECORD

# Characters of a reason, and characters or bytes of a message that is cut. JSON writes six bytes for some of them.
_REASON = 10_000
_CUT = LONGEST_RECORD // 8

_FAILED = "partition int, offset long, failure string"


def read_rejected(
    spark: SparkSession, settings: Settings, batch: Batch, failures: Mapping[tuple[int, int], str]
) -> DataFrame:
    """The rejected messages of a batch as Kafka records: columns ``key`` and ``value`` (JSON).

    If a message's value isn't text, its record has base64 in ``valueBase64``. For a large value this is the beginning,
    and ``valueLength`` is the number of bytes of the whole.

    Parameters
    ----------
    spark, settings, batch
        The session, the run, and its batch, whose messages are read again.
    failures : mapping
        (partition, offset) → reason, for messages that have a key, and on which the work raised an error.

    """
    messages = (
        spark.read.format("kafka")
        .options(**settings.connection.spark())
        # Not a subscription: the topic may have got more partitions since the batch was planned.
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
