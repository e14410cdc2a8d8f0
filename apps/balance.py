"""Balance the user's own DataFrame: each row goes to the worker that a grouping chooses.

>>> balanced = balance(events, key="user_id", workers=32, grouping="DYNAMIC_KEY", checkpoint=path)  # doctest: +SKIP

``balance`` keeps rows as Spark rows, for any Spark code that follows. ``balanced_map`` is for work in Python: it sends
Arrow packets instead of rows, which is several times as fast. Both use the same router.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructType

from unskew.apps.checkpoint.location import location_in
from unskew.apps.routing import packets
from unskew.apps.routing.batches import in_a_stream
from unskew.apps.routing.packets import column, packets_at_workers, route_column
from unskew.apps.routing.router import Routing
from unskew.apps.spark import column_of, placed
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
    name: str = "",
    worker_column: str = "worker",
    **options: Any,
) -> DataFrame:
    """Route each row by its key: partition *i* of the result has exactly the rows of worker *i*.

    Parameters
    ----------
    df : DataFrame
        Streaming, or static (then each run starts cold).
    key : str
        The column to balance by: string, binary or integer; null is a key of its own.
    workers : int
        W ≥ 1: the number of partitions of the result.
    grouping : str
        A groupingType of ``unskew.grouping.registry.STANDALONE``.
    checkpoint : str
        The query's ``checkpointLocation``, where all executors see it; beside it the routers' states are kept from
        batch to batch. Without it, each batch starts cold.
    source : str or Column, int
        Which source a row comes from; must be the same for all rows of a task. Default: the task's number. For a
        Kafka topic use its ``partition`` column (and no ``minPartitions``).
    time : str or Column, timestamp
        The schemes' clock. Default: the batch's time, which a replay repeats.
    seed : int
        The scheme's seed.
    name : str
        Where ``balance`` or ``balanced_map`` is called several times for one query: a name for each call, the same
        after a restart, by which the routers' states are told apart.
    worker_column : str
        Name of the int column that is added.
    options
        The scheme's own parameters (``grouping.parameters``).

    Raises
    ------
    ValueError
        Unknown grouping, one that needs feedback from the workers, bad parameter, bad number of workers.
    UsageError
        Bad name. (In the tasks, before they write anything: the checkpoint isn't the query's, or an executor doesn't
        see it.)

    Notes
    -----
    Counts never depend on the routing. But a key may be at several workers, so aggregate the workers' partial results
    by key; the ``worker`` column has the worker of each.

    To Spark the router is non-deterministic: Spark evaluates it once a row, and moves no filter below it. So filter
    ``df`` itself by its own columns: rows that are dropped after ``balance`` have been routed, too. Where the result
    is used twice (``placed.union(placed)``, a self-join), Spark may route twice. Each row gets the same worker both
    times, because both routers begin with the same state, and leave the same.

    """
    routing = _routing(df, grouping, workers, checkpoint, options, seed, name)
    columns = [F.col(key)]
    if source is not None:
        columns.append(column(source))
    uses_time = named(grouping).uses_time
    if uses_time:
        columns.append(F.current_timestamp() if time is None else column(time))
    route = column_of(df, route_column(routing, source is not None, uses_time), columns, IntegerType())
    return placed(df.withColumn(worker_column, route), workers, F.col(worker_column))


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
    name: str = "",
    **options: Any,
) -> DataFrame:
    """``balance`` and ``mapInArrow`` in one: run ``work`` at each worker over the tuples that it gets.

    Parameters
    ----------
    df, key, workers, grouping, checkpoint, source, time, seed, name, **options
        As for ``balance``; but rows with a null key are left out.
    work : iterator of pyarrow.RecordBatch → iterator of pyarrow.RecordBatch
        As for ``DataFrame.mapInArrow``; sees ``df``'s columns, the key perhaps dictionary-encoded. It runs once a
        worker and batch.
    schema : StructType or str
        What ``work`` yields.

    """
    routing = _routing(df, grouping, workers, checkpoint, options, seed, name)
    arrived = packets_at_workers(df, routing, key, list(df.columns), source=source, time=time)

    def unpack(batches: Batches) -> Batches:
        return work(packets.read(packet) for batch in batches for packet in batch.column("packet"))

    return arrived.mapInArrow(unpack, schema)


def _routing(
    df: DataFrame,
    grouping: str,
    workers: int,
    checkpoint: str | None,
    options: dict[str, Any],
    seed: int,
    name: str,
) -> Routing:
    routing = Routing(grouping.upper(), workers, options=options, seed=seed, name=name)
    routing.check()
    location = None if checkpoint is None else location_in(df.sparkSession, checkpoint)
    return replace(routing, checkpoint=location, streaming=in_a_stream(df))
