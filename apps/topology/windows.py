"""Windowed state: partials of all batches merged per (window, key, worker), given out when the window closes."""

from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


def windowed(
    partials: DataFrame,
    seconds: float,
    lateness: float | None = None,
    flush_at: datetime | None = None,
    ahead_ms: int = 0,
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
    ahead_ms : int
        Batch time only: how much it is ahead of Spark's (``unskew.apps.checkpoint.clock``).

    Returns
    -------
    DataFrame
        window (struct of start, end), key, worker, tuples, count; includes one row of worker −1 a window, to leave out.

    """
    if lateness is None:
        moment = batch_time(ahead_ms, F.col("value"))
        partials = partials.withColumn("time", batch_time(ahead_ms, F.col("worker")))
    else:
        moment = F.lit(flush_at).cast("timestamp")
    rows = partials.unionByName(heartbeat(partials.sparkSession, moment))
    return (
        rows.withWatermark("time", f"{lateness or 0} seconds")
        .groupBy(F.window("time", f"{seconds} seconds"), "key", "worker")
        .agg(F.sum("tuples").alias("tuples"), F.sum("count").alias("count"))
    )


def batch_time(ahead_ms: int, beside: Column | None = None) -> Column:
    """The batch's time: it is logged with the batch, so a replay falls into the same windows.

    ``beside`` is any column of the rows, where they are few. A function then looks the time up in each row, half a
    microsecond long: as a constant it stands in the code that Spark generates, which is compiled anew in each batch.
    """
    time = F.timestamp_add("MILLISECOND", F.lit(ahead_ms), F.current_timestamp())
    return time if beside is None else F.get(F.transform(F.array(beside), lambda _: time), F.lit(0))


def heartbeat(spark: SparkSession, time: Column) -> DataFrame:
    """One empty partial a batch, of that time: batches keep coming when the topic is idle, the last windows close too.

    It comes at every trigger (an idle run waits before it: ``unskew.apps.run.idle``), by no clock: one that was set
    back would stop it, or let it fail.
    """
    beats = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    return beats.select(
        F.lit(-1).alias("worker"),
        F.lit(None).cast("string").alias("key"),
        F.lit(0).cast("long").alias("tuples"),
        F.lit(0).cast("long").alias("count"),
        time.alias("time"),
    )
