"""The dataflow of workers that remember: router → packets → workers → homes, as far as there are any → rows."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.place import Where
from unskew.apps.keyed.operators import PACKETS, PARCELS, HomeOperator, WorkerOperator, forgetful
from unskew.apps.keyed.program import Program
from unskew.apps.keyed.tokens import tokens
from unskew.apps.topology import packets
from unskew.apps.topology.fields import Fields
from unskew.apps.topology.placement import unread
from unskew.apps.topology.router import Routing, milliseconds, partition
from unskew.apps.topology.routes import route_packets
from unskew.grouping import named

Batches = Iterator[pa.RecordBatch]

_LATEST = "latest"
_PLACED = pa.schema(
    [("token", pa.int32()), ("worker", pa.int32()), ("source", pa.int32()), ("number", pa.int64()),
     ("packet", pa.binary()), (_LATEST, pa.timestamp("us", "UTC"))]
)  # fmt: skip
_PLACED_DDL = "token int, worker int, source int, number long, packet binary, latest timestamp"


def placed(
    tuples: DataFrame,
    routing: Routing,
    program: Program,
    places: list[int],
    *,
    source: Column | None = None,
    beats: bool = False,
    fields: Fields | None = None,
) -> DataFrame:
    """The tuples as packets, each with its worker's token.

    Parameters
    ----------
    tuples : DataFrame
        ``key``, the columns that the program carries, and by event time ``time``; ``__time`` if the grouping asks.
    routing : Routing
        The grouping.
    program : Program
        What the workers do.
    places : list of int
        The workers' tokens.
    source : Column, optional
        Which source a row is from. Default: the task's number.
    beats : bool
        Whether every task sends every worker a sign of life.
    fields : Fields, optional
        The rows are messages, of which the router reads key and count first.

    """
    carry = ["key", *program.columns]
    columns = [F.col(name) for name in (carry if fields is None else unread(fields, carry))]
    if source is not None:
        columns.append(source.alias("__source"))
    uses_time = named(routing.grouping).uses_time
    if uses_time:
        columns.append(F.col("__time"))
    route = route_packets(routing, "key", "__source" if source is not None else None,
                          "__time" if uses_time else None, carry, fields)  # fmt: skip
    return tuples.select(*columns).mapInArrow(_with_places(route, program, places, beats=beats), _PLACED_DDL)


def _with_places(route: Callable[[Batches], Batches], program: Program, places: list[int], *, beats: bool) -> Any:
    def cut(batches: Batches) -> Batches:
        source, number = partition(), 0
        token = np.array(places, np.int32)
        for batch in route(batches):
            workers = batch.column("worker")
            numbers = np.arange(number, number + batch.num_rows)
            number += batch.num_rows
            of = np.full(batch.num_rows, source, np.int32)
            latest = [_latest(packet) if program.event else None for packet in batch.column("packet")]
            times = pa.array(latest, pa.timestamp("ms", "UTC")).cast(_PLACED.types[-1])
            columns = [pa.array(token[workers.to_numpy()]), workers, pa.array(of), pa.array(numbers),
                       batch.column("packet"), times]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=_PLACED)
        if beats:
            w = len(places)
            rows = [pa.array(token), pa.array(np.arange(w, dtype=np.int32)), pa.array(np.full(w, -1, np.int32)),
                    pa.array(np.full(w, number)), pa.nulls(w, pa.binary()), pa.nulls(w, _PLACED.types[-1])]  # fmt: skip
            yield pa.RecordBatch.from_arrays(rows, schema=_PLACED)

    return cut


def _latest(packet: pa.BinaryScalar) -> int:
    return int(milliseconds(packets.read(packet).column("time")).max())


def heartbeat(beats: DataFrame, places: list[int], moment: Column) -> DataFrame:
    """For each row of ``beats`` a sign of life to every worker, as ``placed`` gives packets."""
    workers = F.array(
        *(F.struct(F.lit(token).alias("token"), F.lit(w).alias("worker")) for w, token in enumerate(places))
    )
    each = beats.select(F.explode(workers).alias("to")).select("to.*")
    return each.select(
        "token",
        "worker",
        F.lit(-1).alias("source"),
        F.lit(0).cast("long").alias("number"),
        F.lit(None).cast("binary").alias("packet"),
        moment.alias(_LATEST),
    )


def parcels(
    packets: DataFrame, program: Program, places: list[int], batch_time: Column, lateness: float | None
) -> DataFrame:
    """What workers and homes make of packets: rows of ``PARCELS``, those of kinds that leave.

    Parameters
    ----------
    packets : DataFrame
        As ``placed`` gives them, with heartbeats.
    program : Program
        What the workers do.
    places : list of int
        The tokens of workers (and homes, of which there are no more).
    batch_time : Column
        The batch's time.
    lateness : float, optional
        By event time: how late a tuple may be (s). By batch time: None if nobody needs a watermark, for which Spark
        would follow each batch with one more, without rows.

    """
    if program.event:
        packets = packets.withWatermark(_LATEST, f"{lateness} seconds")
    elif lateness is not None:
        packets = packets.withColumn(_LATEST, batch_time).withWatermark(_LATEST, "0 seconds")
    arriving = packets.withColumn("batch_ms", F.unix_millis(batch_time))
    mode = "EventTime" if program.event else "None"
    rows = (
        arriving.select(*PACKETS.names)
        .groupBy("token")
        .transformWithState(WorkerOperator(program, places), PARCELS, "Append", mode)
    )
    if program.lasting:
        return rows.groupBy("token").transformWithState(HomeOperator(program, places), PARCELS, "Append", "None")
    if program.split:
        return rows.repartitionById(program.homes, "home").mapInArrow(forgetful(program), PARCELS)
    return rows


def places_of(program: Program, partitions: int) -> list[int]:
    """The tokens of the program's workers, where the state has so many partitions."""
    return tokens(program.workers, partitions)


def partitions_of(spark: SparkSession, checkpoint: Where) -> int:
    """Partitions of a query's state: those of its checkpoint, if it has begun; else what Spark will give it."""
    return Checkpoint(checkpoint).partitions() or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
