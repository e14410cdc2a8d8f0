"""Rejected messages: looked up again in the topic, and published with the reason.

They take no part in the hot path. When a batch's routers report some, the batch's own range of offsets is read once
more, and the messages without a key are written to ``<sourceName>-rejected``. The Kafka key is the message's place
(topic-partition-offset): a replay writes the same records again.
"""

from collections.abc import Mapping

import orjson
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.topology.reading import bounded
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.splitter import splitter_of

_FAILED = "partition int, offset long, failure string"


def rejected(
    spark: SparkSession, settings: Settings, batch: Batch, failures: Mapping[tuple[int, int], str]
) -> DataFrame:
    """The rejected messages of a batch as Kafka records: columns ``key`` and ``value`` (JSON).

    ``failures``, (partition, offset) → reason, are those that the splitter has nothing against.

    A value that isn't text is given in base64 as ``valueBase64``.
    """
    splitter = splitter_of(settings)
    if settings.time == "event":
        splitter = bounded(splitter, F.timestamp_millis(F.lit(batch.time_ms)), settings.max_ahead)
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
    failed = spark.createDataFrame([(*place, why) for place, why in failures.items()], _FAILED)
    messages = messages.join(F.broadcast(failed), ["partition", "offset"], "left")
    value = F.col("value")
    text = F.is_valid_utf8(value.cast("string"))
    body = F.struct(
        F.coalesce("failure", splitter.why(value), F.lit("no key")).alias("reason"),
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp"),
        F.when(text, value.cast("string")).alias("value"),
        F.when(~text, F.base64(value)).alias("valueBase64"),
    )
    place = F.concat_ws("-", "topic", "partition", "offset")
    wanted = splitter.rejects(value) | F.col("failure").isNotNull()
    return messages.where(wanted).select(place.alias("key"), F.to_json(body).alias("value"))
