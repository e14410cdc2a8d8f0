"""A task's micro-batch, its number and time, and the heartbeat that makes Spark run batches."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.spark.compat import count_tasks, is_remote

_BATCH = "streaming.sql.batchId"  # the local property of a batch's jobs with its number
_QUERY = "sql.streaming.queryId"  # that with their query's id
# Those with the number of the state's partitions: the first if Spark fixes it separately.
_PARTITIONS = ("spark.sql.streaming.internal.stateStore.partitions", "spark.sql.shuffle.partitions")


def get_batch_number() -> int | None:
    """The number of the calling task's micro-batch. None in a batch query."""
    context = TaskContext.get()
    number = context and context.getLocalProperty(_BATCH)
    return int(number) if number is not None else None


def get_query_id() -> str:
    """The id of the calling task's streaming query, which stays when the query restarts from its checkpoint."""
    context = TaskContext.get()
    return (context.getLocalProperty(_QUERY) if context is not None else None) or ""


def get_run_id() -> str:
    """The id of the calling task's run of a streaming query, which changes with each start. Empty outside of a task."""
    context = TaskContext.get()
    # Spark's name for the group of a run's jobs.
    return (context.getLocalProperty("spark.jobGroup.id") if context is not None else None) or ""


def count_state_partitions() -> int | None:
    """The number of state partitions of the calling task's query. None outside of a task."""
    context = TaskContext.get()
    found = [context.getLocalProperty(name) for name in _PARTITIONS] if context else []
    return next((int(number) for number in found if number is not None), None)


def is_in_stream(df: DataFrame) -> bool:
    """Whether a DataFrame is a stream, or derived from a stream's batch (in ``foreachBatch``)."""
    if df.isStreaming:
        return True
    return get_driver_batch(df.sparkSession) is not None


def count_sources(df: DataFrame) -> int | None:
    """The number of sources (tasks) of a static DataFrame, or None if Spark would need a job to know.

    None also for a stream's batch in ``foreachBatch``, because the next batch's may differ.
    """
    return None if is_in_stream(df) else count_tasks(df)


def get_driver_batch(spark: SparkSession) -> int | None:
    """The number of the micro-batch whose ``foreachBatch`` the driver's calling thread runs, if any.

    Spark Connect doesn't tell: static DataFrames there are taken for batch queries.
    """
    number = None if is_remote(spark) else spark.sparkContext.getLocalProperty(_BATCH)
    return int(number) if number is not None else None


def get_driver_query_id(spark: SparkSession) -> str:
    """The id of the query whose ``foreachBatch`` the driver's calling thread runs, or empty."""
    return spark.sparkContext.getLocalProperty(_QUERY) or ""


def get_partition() -> int:
    """The number of the calling task's partition. 0 outside of a task."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def to_milliseconds(times: pa.Array) -> NDArray[np.int64]:
    """An Arrow timestamp column as int64[n], ms since the epoch."""
    return times.cast(pa.timestamp("ms", times.type.tz), safe=False).to_numpy(zero_copy_only=False).astype(np.int64)


def split_by_window(
    tuples: pa.RecordBatch, times: NDArray[np.int64], length_ms: int
) -> Iterator[tuple[int, pa.RecordBatch, int]]:
    """Divide n ≥ 1 tuples by tumbling windows of their times (ms), oldest first.

    Yields a window's start (ms), its tuples in order, and their latest time (ms).
    """
    starts = times // length_ms * length_ms
    if (starts == starts[0]).all():
        yield int(starts[0]), tuples, int(times.max())
        return
    order = np.argsort(starts, kind="stable")
    ordered, starts, times = tuples.take(pa.array(order)), starts[order], times[order]
    first = np.flatnonzero(np.diff(starts, prepend=starts[0] - 1))
    for begin, stop, latest in zip(first, [*first[1:], len(times)], np.maximum.reduceat(times, first), strict=True):
        yield int(starts[begin]), ordered.slice(begin, stop - begin), int(latest)


def make_batch_time(ahead_ms: int, beside: Column | None = None) -> Column:
    """The batch's time, which Spark logs with the batch, so that a replay has the same windows.

    ``ahead_ms`` is how far it is ahead of Spark's (``unskew.apps.checkpoint.versions.BatchClock``). If there are few
    rows, give any column (``beside``). A function then looks up the time in each row, in half a microsecond. Without
    it, the time is a constant in Spark's generated code, which Spark compiles anew in each batch.
    """
    time = F.timestamp_add("MILLISECOND", F.lit(ahead_ms), F.current_timestamp())
    return time if beside is None else F.get(F.transform(F.array(beside), lambda _: time), F.lit(0))


def make_next_batch_time(ahead_ms: int, beside: Column, trigger_ms: int) -> Column:
    """The earliest time of the next batch: the next multiple of Spark's trigger, or with 0 the batch's time.

    Spark begins no batch before that multiple. But it takes the time only after asking the sources, so a batch may
    begin before a multiple, with a time after it, and the next one at once. So callers must wait at the end of each
    batch (``find_next_trigger_ms``).
    """
    if not trigger_ms:
        return make_batch_time(ahead_ms, beside)
    planned_ms = F.unix_millis(make_batch_time(0, beside))
    next_ms = (F.floor(planned_ms / F.lit(trigger_ms)) + F.lit(1)) * F.lit(trigger_ms)
    return F.timestamp_millis(next_ms + F.lit(ahead_ms))


def find_next_trigger_ms(planned_ms: int, trigger_ms: int) -> int:
    """The earliest start (ms, Spark's clock) of a batch after one planned at ``planned_ms``."""
    return planned_ms if not trigger_ms else (planned_ms // trigger_ms + 1) * trigger_ms


def read_heartbeats(spark: SparkSession) -> DataFrame:
    """A stream of one row per batch, with which batches run even if the topic is idle, and the last windows close.

    There is a row at every trigger. An idle run waits before the trigger (``unskew.apps.driver.idle``). It uses no
    clock, because one that is set back would stop the rows, or make them fail.
    """
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
