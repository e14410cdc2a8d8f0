"""Windowed state: partials of all batches merged per (window, key, worker), given out when the window closes."""

from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


def windowed(
    partials: DataFrame, seconds: float, lateness: float | None = None, flush_at: datetime | None = None
) -> DataFrame:
    """Sum tuples and counts per (window, key, worker) over tumbling windows.

    Parameters
    ----------
    partials : DataFrame
        Streaming: worker, key, tuples, count (and time, where windows are by event time).
    seconds : float
        The windows' length.
    lateness : float, optional
        Windows are by the partials' own ``time``, and close when tuples this many seconds younger have been seen. None:
        windows are by the batch's time; nothing is ever late.
    flush_at : datetime, optional
        Event time only: let time pass to this moment, so that windows before it close though no tuple says so.

    Returns
    -------
    DataFrame
        window (struct of start, end), key, worker, tuples, count; includes one row of worker −1 a window, to leave out.

    """
    beats = heartbeat(partials.sparkSession)
    if lateness is None:
        # The batch's time is logged with the batch: a replay falls into the same windows.
        rows = partials.unionByName(beats).withColumn("time", F.current_timestamp())
    else:
        moment: Column = F.lit(flush_at).cast("timestamp")
        rows = partials.unionByName(beats.withColumn("time", moment))
    return (
        rows.withWatermark("time", f"{lateness or 0} seconds")
        .groupBy(F.window("time", f"{seconds} seconds"), "key", "worker")
        .agg(F.sum("tuples").alias("tuples"), F.sum("count").alias("count"))
    )


def heartbeat(spark: SparkSession) -> DataFrame:
    """One empty partial a second: keeps batches coming when the topic is idle, so that the last windows close too."""
    beats = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return beats.select(
        F.lit(-1).alias("worker"),
        F.lit(None).cast("string").alias("key"),
        F.lit(0).cast("long").alias("tuples"),
        F.lit(0).cast("long").alias("count"),
    )
