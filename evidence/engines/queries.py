"""What the programs for Spark share, ours and Spark's own: a session, a topic's messages, and a topic of results."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_BATCHES = 100_000, 10_000  # left and right rows


def session(name: str, workers: str, jars: str, settings: Mapping[str, Any]) -> SparkSession:
    """A session with a thread a worker, and with the archives of the Kafka connector."""
    builder = SparkSession.builder.master(f"local[{workers}]").appName(name).config("spark.jars", jars)
    return builder.config("spark.ui.enabled", "false").config(map=dict(settings)).getOrCreate()


def stateful(workers: str) -> dict[str, str]:
    """The settings of Spark's own programs: a partition a worker, and states in RocksDB."""
    return {"spark.sql.shuffle.partitions": workers, "spark.sql.streaming.stateStore.providerClass": _ROCKSDB}


def messages(spark: SparkSession, bootstrap: str, topic: str, batch: int, **more: str) -> DataFrame:
    """A topic's messages from its beginning, at most ``batch`` a batch. ``more``: Further options of the source."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .options(**more)
        .load()
    )


def read_key(field: str) -> Column:
    """The field of messages of JSON that is their key. Its dots lead to nested objects."""
    path = field.split(".")
    schema = reduce(lambda inner, parent: f"{parent} struct<{inner}>", reversed(path[:-1]), f"{path[-1]} string")
    return reduce(Column.__getitem__, path, F.from_json(F.col("value").cast("string"), schema)).alias("key")


def read_sides(spark: SparkSession, bootstrap: str, topics: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """The left and the right rows of the job ``join``: their key, id, and time. A batch has as much time of both."""
    row = F.from_json(F.col("value").cast("string"), "key string, id long").alias("row")
    read = (messages(spark, bootstrap, *each).select(row, "timestamp") for each in zip(topics, _BATCHES, strict=True))
    left, right = (side.select("row.*", F.col("timestamp").alias("at")) for side in read)
    return left, right


def write(
    results: DataFrame,
    bootstrap: str,
    output: str,
    checkpoint: str,
    mode: str = "append",
    every: str = "100 milliseconds",
) -> None:
    """Write results to a topic, in a batch each so often, until the process is ended."""
    (
        results.writeStream.format("kafka")
        .outputMode(mode)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", output)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=every)
        .start()
        .awaitTermination()
    )
