"""The topology whose workers remember: as ``unskew.apps.topology.dataflow``, but that a worker's work has a state.

The counts are a second work of the same workers: they close with their window, and from there all is as without states.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from unskew.apps.checkpoint.crew import Crew
from unskew.apps.feedback.monitors import Monitors
from unskew.apps.keyed.asked import Asked
from unskew.apps.keyed.bins import KEY
from unskew.apps.keyed.parcels import COUNTS, WINDOW, opened
from unskew.apps.keyed.plan import heartbeat, parcels, partitions_of, placed
from unskew.apps.keyed.program import Program
from unskew.apps.keyed.tokens import tokens
from unskew.apps.topology.reports import Reports
from unskew.apps.topology.router import Routing
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.source import messages, reading
from unskew.apps.topology.splitter import splitter_of
from unskew.apps.topology.windows import batch_time

_START = "__start"


def remembering(
    spark: SparkSession,
    settings: Settings,
    states: Asked,
    reports: Reports | None = None,
    flush_at: datetime | None = None,
    ahead_ms: int = 0,
) -> DataFrame:
    """The dataflow of a topology with a keyed work.

    Parameters
    ----------
    spark, settings, reports, flush_at, ahead_ms
        As for ``unskew.apps.topology.dataflow``.
    states : Asked
        What the settings ask of the work.

    Returns
    -------
    DataFrame
        Rows of closed windows (window, key, worker, tuples, count), ``result`` null; and the work's results: window
        (its start null where states outlive windows), key, ``result`` (a struct), worker −1.

    """
    partitions = partitions_of(spark, settings.place)
    by_event = settings.time == "event"
    crew = Crew.at(settings.place, settings.workers)
    routing = Routing.of(settings, reports)
    program = replace(
        program_of(settings, states, min(crew.first, partitions), reports),
        monitors=Monitors(routing),
        routing=routing if routing.planned else None,
    )
    moment = F.col("time") if by_event else batch_time(ahead_ms)
    splitter = reading(spark, settings)
    arriving = messages(spark, settings, splitter).withColumn("__time", moment)
    places = tokens(crew.most, partitions)
    packets = placed(arriving, routing, program, places, source=F.col("source"), fields=splitter.fields)
    beats = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    # By event time a beat lets time pass only to the moment that is asked for.
    rows = packets.unionByName(heartbeat(beats, places, F.lit(flush_at).cast("timestamp")))
    told = parcels(rows, program, places, batch_time(ahead_ms, F.col("worker")), settings.lateness)
    unpacked = told.mapInArrow(*_unpacked(program))
    start = F.timestamp_millis(F.col(_START))
    end = F.timestamp_millis(F.col(_START) + F.when(F.col("result").isNull(), settings.window_ms).otherwise(
        program.window_ms or 0
    ))  # fmt: skip
    return unpacked.withColumn("window", F.struct(start.alias("start"), end.alias("end"))).drop(_START)


def program_of(settings: Settings, states: Asked, homes: int, reports: Reports | None = None) -> Program:
    """What the workers of a topology with a keyed work do."""
    return Program(
        states.work,
        pa.string(),
        settings.workers,
        states.splits,
        homes,
        settings.time == "event",
        states.window_ms,
        states.ttl_ms,
        states.merge_period,
        settings.window_ms,
        splitter_of(settings).counted,
        settings.cost,
        reports,
    )


def _unpacked(program: Program) -> tuple[Any, StructType]:
    """Parcels as rows: a function for ``mapInArrow``, and its schema."""
    result = from_arrow_schema(program.work.results)
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
    arrow = to_arrow_schema(schema, timezone="UTC")
    inner = arrow.types[-1]

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for kind, sender, blob in zip(
                *(batch.column(c).to_pylist() for c in ("kind", "sender", "blob")), strict=True
            ):
                told = opened(blob)
                n = told.num_rows
                if kind == COUNTS:
                    of = np.full(n, sender, np.int32)
                    own = [told.column("tuples"), told.column("count"), told.column(WINDOW), pa.nulls(n, inner)]
                else:
                    of = np.full(n, -1, np.int32)
                    fields = [column.cast(field.type) for column, field in zip(told.columns[2:], inner, strict=True)]
                    values = pa.StructArray.from_arrays(fields, fields=list(inner))
                    start = told.column(WINDOW) if program.window_ms is not None else pa.nulls(n, pa.int64())
                    own = [pa.nulls(n, pa.int64()), pa.nulls(n, pa.int64()), start, values]
                yield pa.RecordBatch.from_arrays([pa.array(of), told.column(KEY), *own], schema=arrow)

    return rows, schema
