"""Workers of ``balanced_map`` that report what they had, in a row of their own."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from unskew.apps.measured import Load, Observation, occurring, of_workers
from unskew.apps.routing import packets
from unskew.apps.spark import arrow_schema

Batches = Iterator[pa.RecordBatch]

_WORKER, _REPORT = "__unskew_worker", "__unskew_report"


def reporting(
    arrived: DataFrame,
    work: Callable[[Batches], Batches],
    schema: StructType | str,
    names: list[str],
    key: str,
    workers: int,
    observation: Observation,
) -> DataFrame:
    """What ``work`` makes of packets at workers. Spark observes a report of each worker.

    Parameters
    ----------
    arrived : DataFrame
        The packets, each in the partition of its worker.
    work, schema
        As for ``balanced_map``.
    names : list of str
        The columns that ``work`` gets.
    key : str
        The key's column, which packets carry, too.
    workers : int
        W.
    observation : Observation
        What the observation is called.

    """
    kinds = schema if isinstance(schema, StructType) else arrived.sparkSession.createDataFrame([], schema).schema
    results = StructType([StructField(each.name, each.dataType) for each in kinds])
    reported = StructType([*results, StructField(_WORKER, IntegerType()), StructField(_REPORT, StringType())])

    empty = arrow_schema(results)

    def run(batches: Batches) -> Batches:
        return with_report(work, batches, names, key, empty)

    rows = of_workers(arrived.mapInArrow(run, reported), F.col(_WORKER), F.col(_REPORT), workers, observation)
    return rows.where(F.col(_REPORT).isNull()).drop(_WORKER, _REPORT)


def with_report(
    work: Callable[[Batches], Batches], arrived: Batches, names: list[str], key: str, results: pa.Schema
) -> Batches:
    """Run ``work`` over a worker's packets. Its results get two columns more, and a last row with the worker's report.

    Parameters
    ----------
    work : iterator of RecordBatch → iterator of RecordBatch
        The user's function.
    arrived : iterator of RecordBatch
        The packets, of ``packets.SCHEMA``. Of a worker without tuples there are none, and there is no report.
    names : list of str
        The columns that ``work`` gets.
    key : str
        The key's column.
    results : Schema
        Of the results, if ``work`` yields none.

    """
    worker, tuples, found = -1, 0, [np.empty(0, np.uint64)]

    def unpacked() -> Batches:
        nonlocal worker, tuples
        for batch in arrived:
            for number, packet in zip(batch.column("worker").to_pylist(), batch.column("packet"), strict=True):
                part = packets.read(packet)
                worker, tuples = number, tuples + part.num_rows
                found.append(occurring(part.column(key)))
                yield packets.plain(part.select(names))

    busy, yielded, schema = 0.0, iter(work(unpacked())), results
    while True:
        started = time.perf_counter()
        batch = next(yielded, None)
        busy += time.perf_counter() - started
        if batch is None:
            break
        schema = batch.schema
        yield _widened(
            batch.columns, schema, pa.nulls(batch.num_rows, pa.int32()), pa.nulls(batch.num_rows, pa.string())
        )
    if worker >= 0:
        load = Load(tuples, len(np.unique(np.concatenate(found))), busy)
        none = [pa.nulls(1, each.type) for each in schema]
        yield _widened(none, schema, pa.array([worker], pa.int32()), pa.array([load.text()]))


def _widened(columns: Sequence[pa.Array], schema: pa.Schema, worker: pa.Array, report: pa.Array) -> pa.RecordBatch:
    own = [pa.field(_WORKER, worker.type), pa.field(_REPORT, report.type)]
    nullable = [each.with_nullable(True) for each in schema]
    return pa.RecordBatch.from_arrays([*columns, worker, report], schema=pa.schema([*nullable, *own]))
