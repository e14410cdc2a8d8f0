"""Streams of files: how they are written, and read to their end."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery


def write_in_order(folder: Path, number: int, rows: pa.Table) -> None:
    """Write a file of a stream. Spark takes the oldest first: so it reads the files in the order of their numbers."""
    file = folder / f"{number:03}.parquet"
    pq.write_table(rows, file)
    os.utime(file, (number + 1.0, number + 1.0))


def drain_to_files(rows: DataFrame, folder: Path | str, checkpoint: Path | str) -> StreamingQuery:
    """Run a stream to its end, which leaves its rows in a folder."""
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(str(folder))
    query.awaitTermination()
    return query
