"""The source: the Kafka topic as a stream of messages, and how they are read."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.topology.portions import set_portions
from unskew.apps.topology.reading import Splitter, bounded
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.splitter import splitter_of
from unskew.apps.topology.windows import batch_time
from unskew.apps.topology.work import PLACE
from unskew.deploy.client.sample import newest

# Spark's Kafka source fetches 500 messages at a time by default; small messages then cost three times as much.
FETCH = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(8 << 20)}

_SAMPLES = 100  # messages that tell what the topic's are like


def source(spark: SparkSession, settings: Settings) -> DataFrame:
    """The topic as it is: one task a partition, in offset order."""
    reader = (
        spark.readStream.format("kafka")
        .options(**FETCH)
        .options(**settings.connection.spark())
        .option("subscribe", settings.source_name)
        .option("startingOffsets", settings.starting_offsets)
        .option("maxOffsetsPerTrigger", settings.batch_limit)
        .option("failOnDataLoss", settings.on_data_loss == "fail")
    )
    return reader.load()


def reading(spark: SparkSession, settings: Settings) -> Splitter:
    """How the topic's messages are read, and how many at a time, by samples of them."""
    samples = newest(settings.connection, settings.source_name, _SAMPLES)
    set_portions(spark, settings, samples)
    found = splitter_of(settings, samples)
    return bounded(found, batch_time(0), settings.max_ahead) if settings.time == "event" else found


def messages(spark: SparkSession, settings: Settings, splitter: Splitter) -> DataFrame:
    """The topic's messages as ``splitter.opened`` has them, with source, time, and what the user's work asks for."""
    carried = [F.col("partition").alias("source"), F.col("timestamp").alias("time"), *map(F.col, settings.carried)]
    if settings.rejecting:
        carried += [F.col(column).alias(name) for column, name in zip(("partition", "offset"), PLACE, strict=True)]
    if not splitter.counted and settings.states and "count" in settings.states.work.columns:
        carried.append(F.lit(1).cast("long").alias("count"))
    return splitter.opened(source(spark, settings), *carried)
