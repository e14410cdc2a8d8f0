"""The topology: source → splitter → router → placement → worker → windowed state → aggregator and observer.

Everything up to the closed windows is declared here, in order; ``apps.run`` runs it, what happens to the windows is in
``apps.sink``.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from apps.balance import place
from apps.reports import Reports
from apps.router import Routing
from apps.settings import Settings
from apps.splitter import splitter
from apps.worker import Worker

# Spark's Kafka source fetches 500 messages at a time by default; small messages then cost three times as much.
FETCH = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(8 << 20)}


def source(spark: SparkSession, settings: Settings) -> DataFrame:
    """The topic as it is: one task a partition, in offset order."""
    reader = (
        spark.readStream.format("kafka")
        .options(**FETCH)
        .options(**settings.connection.spark())
        .option("subscribe", settings.source_name)
        .option("startingOffsets", settings.starting_offsets)
        .option("maxOffsetsPerTrigger", settings.batch_limit)
    )
    return reader.load()


def tuples(messages: DataFrame, settings: Settings) -> DataFrame:
    """Splitter: messages → key, count where they have one, source, time, and what the user's work asks for."""
    carried = [F.col("partition").alias("source"), F.col("timestamp").alias("time"), *map(F.col, settings.work_columns)]
    return splitter(settings.source_type).split(messages, *carried)


def partials(split: DataFrame, settings: Settings, reports: Reports | None) -> DataFrame:
    """Router, placement, worker: tuples → one partial per (key, worker) of the batch."""
    by_event = settings.time == "event"
    routing = Routing(
        settings.grouping,
        settings.workers,
        settings.checkpoint,
        dict(settings.options),
        settings.seed,
        reports,
    )
    worker = Worker(settings.work, settings.seconds_per_tuple, settings.window_ms if by_event else None, reports)
    needed = {"key", "count", *(["time"] if by_event else []), *settings.work_columns}
    carry = [name for name in split.columns if name in needed]
    packets = place(split, routing, "key", carry, source="source", time="time" if by_event else None)
    return packets.mapInArrow(worker.__call__, worker.ddl)
