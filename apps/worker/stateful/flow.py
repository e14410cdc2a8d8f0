"""Builds the dataflow of a keyed operator: router → packets → workers → mergers, if any → parcels → rows.

Each worker or merger is a group of Spark's ``transformWithState``, whose key is its *token*, an int. Tokens are chosen
such that Spark's hash puts worker w into partition w mod P. The workers' numbers would collide: 0 to 9 fall on 7 of 10
partitions.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.location import Where
from unskew.apps.checkpoint.overflow import fetch_blob
from unskew.apps.metrics.balance_observation import observe_workers
from unskew.apps.router import tuple_packets
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import make_packet_router, reads_time
from unskew.apps.splitter.json_fields import JsonFields
from unskew.apps.worker.stateful.config import DataflowConfig, KeyedOperatorConfig
from unskew.apps.worker.stateful.operator import PACKETS, PARCELS, MergerOperator, PandasOperator, WorkerOperator
from unskew.apps.worker.stateful.operator_output import REPORT, read_rows
from unskew.apps.worker.stateful.tasks import make_stateless_merger
from unskew.errors import UsageError
from unskew.grouping import get_grouping
from unskew.spark.compat import convert_schema_to_arrow, explain_import, is_remote, map_in_arrow, place_rows
from unskew.spark.micro_batches import get_partition, to_milliseconds

Batches = Iterator[pa.RecordBatch]

_LATEST = "latest"
_ROUTED = pa.schema(
    [
        *((name, pa.int32()) for name in ("token", "worker", "source")),
        *(("number", pa.int64()), ("packet", pa.binary()), (_LATEST, pa.timestamp("us", "UTC"))),
    ]
)
ROUTED_DDL = "token int, worker int, source int, number long, packet binary, latest timestamp"


def count_partitions(spark: SparkSession, checkpoint: Where) -> int:
    """The number of partitions of a query's state: the checkpoint's, or for a new query that in Spark's settings."""
    return Checkpoint(checkpoint).partitions() or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def route_to_workers(
    tuples: DataFrame,
    routing: Routing,
    config: KeyedOperatorConfig,
    tokens: list[int],
    *,
    source: Column | None = None,
    cost: bool = False,
    heartbeats: bool = False,
    fields: JsonFields | None = None,
    messages: bool = False,
) -> DataFrame:
    """Route tuples into packets with their worker's token.

    They have ``key``, the config's columns, ``time`` in event time, ``__time`` if the grouping uses it, and each
    tuple's cost as ``__cost`` if ``cost``, but not the columns that ``fields`` read from messages before routing. Rows
    that are ``messages`` are rejected if they have no key. The ``source`` of a row is its task's number by default.
    With ``heartbeats`` every task sends one to every worker.
    """
    carry = ["key", *config.columns]
    columns = list(carry if fields is None else fields.unread(carry))
    time = "time" if reads_time(fields) else "__time"
    if source is not None:
        tuples = tuples.withColumn("__source", source)
        columns.append("__source")
    uses_time = get_grouping(routing.grouping).uses_time
    if uses_time and time == "__time":
        columns.append(time)
    if cost:
        columns.append("__cost")
    own = None if source is None else "__source", time if uses_time else None
    route = make_packet_router(routing, "key", *own, carry, fields, "__cost" if cost else None, messages=messages)
    packets = explain_import(add_tokens(route, config, tokens, heartbeats=heartbeats))
    return map_in_arrow(tuples, columns, packets, ROUTED_DDL)


def add_tokens(
    route: Callable[[Batches], Batches],
    config: DataflowConfig,
    tokens: list[int],
    *,
    heartbeats: bool,
    side: int | None = None,
) -> Any:
    """Add the worker's token to each packet. With a side, 0 or 1, the source's number is 2 · the task's + side."""

    def rows(batches: Batches) -> Batches:
        config.require_state_partitions()
        source, number = get_partition() if side is None else 2 * get_partition() + side, 0
        token = np.array(tokens, np.int32)
        for batch in route(batches):
            workers = batch.column("worker")
            numbers = np.arange(number, number + batch.num_rows)
            number += batch.num_rows
            of = np.full(batch.num_rows, source, np.int32)
            latest = [_find_latest(packet) if config.event else None for packet in batch.column("packet")]
            times = pa.array(latest, pa.timestamp("ms", "UTC")).cast(_ROUTED.types[-1])
            to = pa.array(token[workers.to_numpy()])
            columns = [to, workers, pa.array(of), pa.array(numbers), batch.column("packet"), times]
            yield pa.RecordBatch.from_arrays(columns, schema=_ROUTED)
        if heartbeats:
            w = len(tokens)
            given = token, np.arange(w, dtype=np.int32), np.full(w, -1, np.int32), np.full(w, number)
            columns = [*map(pa.array, given), pa.nulls(w, pa.binary()), pa.nulls(w, _ROUTED.types[-1])]
            yield pa.RecordBatch.from_arrays(columns, schema=_ROUTED)

    return rows


def _find_latest(packet: pa.BinaryScalar) -> int:
    return int(to_milliseconds(tuple_packets.read_packet(packet).column("time")).max())


def send_heartbeats(heartbeats: DataFrame, tokens: list[int], moment: Column) -> DataFrame:
    """Heartbeats to every worker for each row, with this time, in the columns of ``route_to_workers``."""
    workers = F.array(
        *(F.struct(F.lit(token).alias("token"), F.lit(w).alias("worker")) for w, token in enumerate(tokens))
    )
    return heartbeats.select(F.explode(workers).alias("to")).select(
        "to.*",
        F.lit(-1).alias("source"),
        F.lit(0).cast("long").alias("number"),
        F.lit(None).cast("binary").alias("packet"),
        moment.alias(_LATEST),
    )


def apply_operators(
    streams: Sequence[DataFrame],
    config: DataflowConfig,
    tokens: list[int],
    batch_time: Column,
    lateness_ms: int | None,
    operator: type[WorkerOperator] = WorkerOperator,
) -> DataFrame:
    """Apply workers and mergers to packets; returns results and counts as rows of ``PARCELS``.

    One of the streams of packets (``route_to_workers``) has heartbeats. In event time each has a watermark, and Spark
    takes the least: no tuple is late because another stream is ahead. The first of the workers' tokens are also the
    mergers'.

    ``lateness_ms`` is how late a tuple may be in event time. In batch time, it is None if no watermark is needed. With
    a watermark, Spark runs an additional batch without rows after each batch.
    """
    if config.event:
        streams = [packets.withWatermark(_LATEST, f"{lateness_ms} milliseconds") for packets in streams]
    packets = reduce(DataFrame.unionByName, streams)
    if not config.event and lateness_ms is not None:
        packets = packets.withColumn(_LATEST, batch_time).withWatermark(_LATEST, "0 seconds")
    arriving = packets.withColumn("batch_ms", F.unix_millis(batch_time))
    mode = "EventTime" if config.event else "None"
    rows = _apply_operator(arriving.select(*PACKETS.names), operator(config, tokens), mode)
    if config.observe is not None:
        report = F.col("kind") == REPORT
        of = F.when(report, F.col("sender")), F.col("blob").cast("string"), config.workers, config.observe
        rows = observe_workers(rows, *of).where(~report)
    if config.mergers_keep:
        return _apply_operator(rows, MergerOperator(config, tokens), "None")
    if config.split and isinstance(config, KeyedOperatorConfig):
        return place_rows(rows, config.mergers, F.col("merger")).mapInArrow(make_stateless_merger(config), PARCELS)
    return rows


def _apply_operator(rows: DataFrame, operator: WorkerOperator | MergerOperator, mode: str) -> DataFrame:
    """Apply Spark's operator to the rows of each token, in one of Spark's time modes."""
    groups: Any = rows.groupBy("token")
    if hasattr(groups, "transformWithState"):
        return groups.transformWithState(operator, PARCELS, "Append", mode)
    if hasattr(groups, "transformWithStateInPandas"):  # the only one in Spark 4.0, and not in Connect
        return groups.transformWithStateInPandas(PandasOperator(operator), PARCELS, "Append", mode)
    through = " through Spark Connect" if is_remote(rows.sparkSession) else ""
    raise UsageError(
        f"pyspark {pyspark.__version__} keeps no states of Python{through}; valid for keyed_map: Spark 4.0 or later, "
        "through Spark Connect 4.1 or later"
    )


def unpack_results(
    parcels: DataFrame,
    schema: StructType,
    columns: Callable[[int, int, pa.RecordBatch], list[pa.Array]],
    checkpoint: Where | None,
) -> DataFrame:
    """Unpack the rows of parcels, which ``apply_operators`` returns, to rows of a schema.

    ``columns`` (kind, sender, rows of a parcel) returns the result's columns, which are cast to the schema's types.
    Parcels that exceeded the limit are in the query's checkpoint.
    """
    arrow = convert_schema_to_arrow(schema)

    def rows(batches: Batches) -> Batches:
        for batch in batches:
            described = (batch.column(name).to_pylist() for name in ("kind", "sender", "blob"))
            for kind, sender, blob in zip(*described, strict=True):
                arrays = columns(kind, sender, read_rows(fetch_blob(blob, checkpoint)))
                cast = [array.cast(of) for array, of in zip(arrays, arrow.types, strict=True)]
                yield pa.RecordBatch.from_arrays(cast, schema=arrow)

    return parcels.mapInArrow(rows, schema)
