"""Router and placement: put each row of a DataFrame on the worker that a grouping chooses.

>>> placed = balance(events, key="user_id", workers=32, grouping="DYNAMIC_KEY", checkpoint=path)  # doctest: +SKIP

Two ways, one router. ``balance`` keeps rows as Spark rows, for whatever Spark code follows. ``balanced_map`` is for
work in Python: it sends Arrow packets instead of rows, which is several times as fast.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructType

from unskew.apps.checkpoint.place import place_of
from unskew.apps.topology import packets
from unskew.apps.topology.placement import column, place
from unskew.apps.topology.router import Routing, in_a_stream
from unskew.apps.topology.routes import route_column
from unskew.grouping import named

Batches = Iterator[pa.RecordBatch]


def balance(
    df: DataFrame,
    key: str,
    workers: int,
    grouping: str = "BOUNDED_LOAD",
    checkpoint: str | None = None,
    *,
    source: str | Column | None = None,
    time: str | Column | None = None,
    seed: int = 0,
    worker_column: str = "worker",
    **options: Any,
) -> DataFrame:
    """Route each row by its key and place it: partition *i* of the result holds exactly the rows of worker *i*.

    Parameters
    ----------
    df : DataFrame
        Streaming, or static (then each run starts without memory).
    key : str
        The column to balance by: string, binary or integer; null is a key of its own.
    workers : int
        W ≥ 1: the number of partitions of the result.
    grouping : str
        A groupingType of ``unskew.grouping.registry.STANDALONE``.
    checkpoint : str
        The query's ``checkpointLocation``: what the routers learned is kept beside it. Needed to learn from batch to
        batch; without it, each batch starts cold.
    source : str or Column, int
        Which source a row comes from; must be the same for all rows of a task. Default: the task's number. For a
        Kafka topic use its ``partition`` column (and no ``minPartitions``).
    time : str or Column, timestamp
        The schemes' clock. Default: the batch's time, which a replay repeats.
    seed : int
        The scheme's seed.
    worker_column : str
        Name of the int column that is added.
    options
        The scheme's own parameters (``grouping.parameters``).

    Raises
    ------
    ValueError
        Unknown grouping, one that needs feedback from the workers, bad parameter, bad number of workers.

    Notes
    -----
    Counts never depend on the routing; but a key may be on several workers: aggregate the workers' partial results by
    key (the ``worker`` column tells them apart).

    """
    routing = _routing(df, grouping, workers, checkpoint, options, seed)
    columns = [F.col(key)]
    if source is not None:
        columns.append(column(source))
    uses_time = named(grouping).uses_time
    if uses_time:
        columns.append(F.current_timestamp() if time is None else column(time))
    route = F.arrow_udf(route_column(routing, source is not None, uses_time), IntegerType())  # pyright: ignore[reportCallIssue, reportArgumentType]
    return df.withColumn(worker_column, route(*columns)).repartitionById(workers, worker_column)


def balanced_map(
    df: DataFrame,
    key: str,
    workers: int,
    work: Callable[[Batches], Batches],
    schema: StructType | str,
    grouping: str = "BOUNDED_LOAD",
    checkpoint: str | None = None,
    *,
    source: str | Column | None = None,
    time: str | Column | None = None,
    seed: int = 0,
    **options: Any,
) -> DataFrame:
    """``balance`` and ``mapInArrow`` in one: run ``work`` at each worker over the tuples that it gets.

    Parameters
    ----------
    df, key, workers, grouping, checkpoint, source, time, seed, **options
        As for ``balance``; but a row whose key is null is left out.
    work : iterator of pyarrow.RecordBatch → iterator of pyarrow.RecordBatch
        As for ``DataFrame.mapInArrow``; sees ``df``'s columns, the key perhaps dictionary-encoded. It runs once a
        worker and batch.
    schema : StructType or str
        What ``work`` yields.

    """
    routing = _routing(df, grouping, workers, checkpoint, options, seed)
    placed = place(df, routing, key, list(df.columns), source=source, time=time)

    def unpack(batches: Batches) -> Batches:
        return work(packets.read(packet) for batch in batches for packet in batch.column("packet"))

    return placed.mapInArrow(unpack, schema)


def _routing(
    df: DataFrame, grouping: str, workers: int, checkpoint: str | None, options: dict[str, Any], seed: int
) -> Routing:
    place = None if checkpoint is None else place_of(df.sparkSession, checkpoint)
    routing = Routing(grouping.upper(), workers, place, options, seed)
    routing.check()
    return replace(routing, streaming=in_a_stream(df))
