"""Streams of files: how they are written, and read to their end."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery


def write_in_order(folder: Path, number: int, rows: pa.Table) -> None:
    """Write a file of a stream. Spark takes the oldest first: so it reads the files in the order of their numbers."""
    file = folder / f"{number:03}.parquet"
    pq.write_table(rows, file)
    os.utime(file, (number + 1.0, number + 1.0))


def read_in_order(spark: SparkSession, folder: Path | str) -> DataFrame:
    """A stream of the files that there are in a folder, and of those that come: a file a batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def draw_users(rng: np.random.Generator, rows: int, hot: float, others: int) -> list[str]:
    """A user for each row: u0 has this share of them, the others have about as many each."""
    drawn = zip(rng.random(rows) < hot, rng.integers(1, others, rows), strict=True)
    return [f"u{0 if is_hot else who}" for is_hot, who in drawn]


def drain_to_files(rows: DataFrame, folder: Path | str, checkpoint: Path | str) -> StreamingQuery:
    """Run a stream to its end, which leaves its rows in a folder."""
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(str(folder))
    query.awaitTermination()
    return query
