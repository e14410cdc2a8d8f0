"""The topology: source → splitter → router → worker → windowed counts, and the results of a keyed work.

The whole dataflow is declared here, in order. ``unskew.apps.run`` runs it, and ``sink`` publishes the closed windows.
"""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from unskew.apps.checkpoint.checkpoint import WorkerHistory
from unskew.apps.feedback.monitors import Monitors
from unskew.apps.keyed.flow import executed, opened, partitions_of, routed, to_workers
from unskew.apps.keyed.parcels import COUNTS, WINDOW
from unskew.apps.keyed.store import KEY
from unskew.apps.routing.batches import batch_time, heartbeats
from unskew.apps.routing.packets import packets_at_workers
from unskew.apps.routing.reports import Reports
from unskew.apps.spark import arrow_type, spark_schema, tokens
from unskew.apps.topology.failures import FailureLog
from unskew.apps.topology.parts import StateSettings, routing_of
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.source import messages, reading
from unskew.apps.topology.worker import POSITION, Worker
from unskew.works.interface import KeyedWork

_START = "__start"


def dataflow(
    spark: SparkSession,
    settings: Settings,
    reports: Reports | None = None,
    flush_at: datetime | None = None,
    ahead_ms: int = 0,
    *,
    count_bytes: bool = False,
) -> DataFrame:
    """The whole topology as a streaming DataFrame, up to the rows of closed windows.

    Parameters
    ----------
    spark : SparkSession
        The session that will run it.
    settings : Settings
        The run's settings.
    reports : Reports, optional
        Where tasks report to the driver. None: they don't.
    flush_at : datetime, optional
        By event time only: the watermark advances to this moment. Windows before it close even if no tuple is later.
    ahead_ms : int
        How much batch time is ahead of Spark's (``unskew.apps.checkpoint.versions.Clock``).
    count_bytes : bool
        Whether to limit the bytes that Python gets at a time (``unskew.apps.topology.source.reading``).

    Returns
    -------
    DataFrame
        For closed windows: window (struct of start, end), key, worker, tuples, count. Rows of worker −1 are heartbeats,
        to be left out. With a keyed work there is also a column ``result`` (a struct), which is null for counts. A
        result has a key, worker −1, and a window, whose start is null if states outlive windows.

    """
    states = settings.states
    if states is not None:
        return _keyed(spark, settings, states, reports, flush_at, ahead_ms, count_bytes=count_bytes)
    assert not isinstance(settings.work, KeyedWork)
    by_event = settings.time == "event"
    routing = routing_of(settings, reports)
    splitter, read = reading(spark, settings, ahead_ms, count_bytes=count_bytes)
    carry = [
        *settings.carried,
        *(["time"] if by_event else []),
        *(POSITION if settings.rejecting else []),
        *(["count"] if splitter.counted else []),
        "key",
    ]
    packets = packets_at_workers(
        messages(settings, read, splitter),
        routing,
        "key",
        carry,
        source="source",
        time="time" if by_event else batch_time(ahead_ms),
        tasks=_tasks(spark, settings),
        fields=splitter.fields,
    )
    worker = Worker(
        settings.work,
        settings.cost,
        settings.window_ms if by_event else None,
        reports,
        settings.work_errors,
        FailureLog(settings.location) if settings.rejecting else None,
        Monitors(routing),
    )
    partials = packets.mapInArrow(worker.__call__, worker.ddl)
    return _windowed(partials, settings, flush_at, ahead_ms)


def _tasks(spark: SparkSession, settings: Settings) -> int:
    """The number of tasks in which the workers work.

    Each worker has a task of its own where workers wait side by side, or run on machines that we don't know. Else there
    are as many tasks as can run at once, because each costs some ten milliseconds, however little it does.
    """
    if settings.cost.mean or settings.mode != "LOCAL":
        return settings.workers
    return spark.sparkContext.defaultParallelism


def _windowed(partials: DataFrame, settings: Settings, flush_at: datetime | None, ahead_ms: int) -> DataFrame:
    """Sum the partials per (window, key, worker) over tumbling windows; rows come when their window closes.

    By event time a partial has its own ``time``, and a window closes when a tuple has come that is later than its end
    by the lateness. By batch time a partial has the batch's time, and none is ever late.
    """
    if settings.time == "event":
        moment = F.lit(flush_at).cast("timestamp")
        lateness = settings.lateness
    else:
        moment = batch_time(ahead_ms, F.col("value"))
        partials = partials.withColumn("time", batch_time(ahead_ms, F.col("worker")))
        lateness = 0
    empty = heartbeats(partials.sparkSession).select(
        F.lit(-1).alias("worker"),
        F.lit(None).cast("string").alias("key"),
        F.lit(0).cast("long").alias("tuples"),
        F.lit(0).cast("long").alias("count"),
        moment.alias("time"),
    )
    return (
        partials.unionByName(empty)
        .withWatermark("time", f"{lateness or 0} seconds")
        .groupBy(F.window("time", f"{settings.window} seconds"), "key", "worker")
        .agg(F.sum("tuples").alias("tuples"), F.sum("count").alias("count"))
    )


def _keyed(
    spark: SparkSession,
    settings: Settings,
    states: StateSettings,
    reports: Reports | None,
    flush_at: datetime | None,
    ahead_ms: int,
    *,
    count_bytes: bool,
) -> DataFrame:
    """The dataflow of a topology with a keyed work.

    The counts are a second work of the same workers. They leave when their window closes, as partials do without
    states.
    """
    partitions = partitions_of(spark, settings.location)
    history = WorkerHistory.at(settings.location, settings.workers)
    routing = routing_of(settings, reports)
    program = replace(
        states.program(settings, min(history.first, partitions), reports),
        monitors=Monitors(routing),
        routing=routing if routing.planned else None,
        checkpoint=settings.location,
        partitions=partitions,
    )
    moment = F.col("time") if settings.time == "event" else batch_time(ahead_ms)
    splitter, read = reading(spark, settings, ahead_ms, count_bytes=count_bytes)
    arriving = messages(settings, read, splitter).withColumn("__time", moment)
    chosen = tokens(history.most, partitions)
    packets = routed(arriving, routing, program, chosen, source=F.col("source"), fields=splitter.fields)
    # By event time a heartbeat advances the watermark to the moment of the flush, and no further.
    heartbeats_to_all = to_workers(heartbeats(spark), chosen, F.lit(flush_at).cast("timestamp"))
    time = batch_time(ahead_ms, F.col("worker"))
    parcels = executed(packets.unionByName(heartbeats_to_all), program, chosen, time, settings.lateness)
    result = spark_schema(program.work.results)
    schema = StructType(
        [
            StructField("worker", IntegerType()),
            StructField("key", StringType()),
            StructField("tuples", LongType()),
            StructField("count", LongType()),
            StructField(_START, LongType()),
            StructField("result", result),
        ]
    )
    fields = arrow_type(result)
    lasting = program.window_ms is None

    def columns(kind: int, sender: int, rows: pa.RecordBatch) -> list[pa.Array]:
        n = rows.num_rows
        if kind == COUNTS:
            worker, counted = np.full(n, sender, np.int32), [rows.column("tuples"), rows.column("count")]
            return [pa.array(worker), rows.column(KEY), *counted, rows.column(WINDOW), pa.nulls(n, fields)]
        of = [column.cast(field.type) for column, field in zip(rows.columns[2:], fields, strict=True)]
        values = pa.StructArray.from_arrays(of, fields=list(fields))
        start = pa.nulls(n, pa.int64()) if lasting else rows.column(WINDOW)
        none = pa.nulls(n, pa.int64())
        return [pa.array(np.full(n, -1, np.int32)), rows.column(KEY), none, none, start, values]

    start = F.timestamp_millis(F.col(_START))
    length = F.when(F.col("result").isNull(), settings.window_ms).otherwise(program.window_ms or 0)
    window = F.struct(start.alias("start"), F.timestamp_millis(F.col(_START) + length).alias("end"))
    return opened(parcels, schema, columns, settings.location).withColumn("window", window).drop(_START)
