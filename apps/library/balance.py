"""Spread the rows of a stream or DataFrame over workers by a key.

``balance`` returns the rows for any Spark code that follows; ``balanced_map`` runs a Python function on each worker's
rows. Both use the same router.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructType

from unskew.apps.driver.plans.batch_planner import add_feedback
from unskew.apps.driver.plans.planned_frame import WORKER, route_frame
from unskew.apps.driver.plans.planned_routing import add_planner
from unskew.apps.library.route_options import RouteOptions
from unskew.apps.metrics.balance_observation import Observation, observe_keys
from unskew.apps.metrics.task_reports import WorkerReport
from unskew.apps.router import tuple_packets
from unskew.apps.router.router import Routing
from unskew.apps.router.row_keys import Key, is_plain, make_key_column
from unskew.apps.router.tuple_packets import make_column_router, send_packets
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.apps.worker.usage_reports import WorkerUsage, map_at_workers, parse_result_type
from unskew.durations import Duration
from unskew.errors import UsageError
from unskew.grouping.registry import SINGLE_OWNER
from unskew.spark.compat import (
    apply_to_arrays,
    find_same_column,
    get_type,
    is_simple,
    map_in_arrow,
    place_rows,
    require_frame,
)
from unskew.spark.micro_batches import get_batch_number

Batches = Iterator[pa.RecordBatch]

_UNWRITTEN = "PLANNED_without_checkpoint"  # the router in plans, where another driver may route otherwise
_KEY = "__unskew_key"  # where it isn't a column as it is


def balance(
    df: DataFrame,
    key: Key,
    workers: int,
    grouping: str = "BOUNDED_LOAD",
    checkpoint: str | None = None,
    *,
    source: str | Column | None = None,
    sources: int | None = None,
    time: str | Column | None = None,
    max_ahead: Duration = 3600.0,
    cost: str | Column | None = None,
    weights: Sequence[float] | None = None,
    most_workers: int | None = None,
    seed: int = 0,
    name: str = "",
    worker_column: str = "worker",
    **options: Any,
) -> DataFrame:
    """Repartition a DataFrame so that all partitions get about the same number of rows, however skewed the key is.

    Partition *i* has exactly the rows of worker *i*, which the new column ``worker`` names. Most groupings spread a hot
    key over several workers, so merge their partial results by key. Filter before this call, because Spark moves no
    filter below it, and call it before a shuffle: behind one, rows must be sorted, and streams may be refused.

    Parameters
    ----------
    df : DataFrame
        A stream, a static DataFrame, or a batch in ``foreachBatch``.
    key : str, Column, or a list of these
        The column to balance by, or several that are the key together. Any type but maps; null is a key, too.
    workers : int
        W ≥ 1: the number of partitions of the result.
    grouping, options : str
        The rule that chooses a row's worker, one of ``unskew.grouping.registry.STANDALONE``, and its own parameters
        (``unskew.grouping.get_parameters`` lists them).
    checkpoint : str, optional
        The query's ``checkpointLocation``, which all executors must see. The routers' states are kept with it, so that
        a batch that runs again is routed as before. Default: each batch starts with new routers.
    source, sources : str or Column, int; int ≥ 1
        A row's source, the same within a task (default: the task's number; for Kafka ``"partition"``, and don't set
        ``minPartitions``), and for BOUNDED_LOAD their number (default: a static DataFrame's tasks if known, or 1).
    time, max_ahead : str or Column, timestamp; timedelta, number (s) or str
        The scheme's clock (default: the batch's time). A stream's row further ahead of its batch doesn't advance it.
    cost : str or Column, number
        Balance this, not rows; null, NaN, < 0 and > 1e100 count as 0. For BOUNDED_LOAD, PLANNED and FULL_KNOWLEDGE.
    weights, most_workers : sequence of W floats > 0; int ≥ 1
        The workers' speeds, and the most workers that a key may have (default: W). For BOUNDED_LOAD and PLANNED.
    seed, name, worker_column : int; str; str
        The scheme's seed; a name that tells apart several calls in a query, the same after a restart; the new column.

    Raises
    ------
    UsageError
        An argument or column is invalid, or a stream's shuffle isn't checked by Spark. The query fails with it if the
        checkpoint is another query's, or an executor doesn't see it.
    EnvironmentFault
        Spark doesn't say where the checkpoint is.

    Examples
    --------
    >>> events = spark.range(100_000, numPartitions=1).selectExpr(
    ...     "if(id % 2 = 0, 'hot', concat('user ', id % 1000)) AS user", "id"
    ... )
    >>> placed = balance(events, "user", workers=4)
    >>> [row["count"] for row in placed.groupBy("worker").count().orderBy("worker").collect()]
    [26419, 27018, 25612, 20951]

    """
    require_frame(df)
    route = RouteOptions(
        workers, grouping, checkpoint, source, sources, time, max_ahead,
        cost, weights, most_workers, seed, name, options,
    )  # fmt: skip
    routing = route.make_routing(df)
    if (there := find_same_column(df, worker_column)) is not None:
        raise UsageError(f"there is a column {there!r} already; name another one with worker_column=")
    columns = {"key": make_key_column(df, key)} | route.make_columns(df)
    df = route.stabilise_order(df)
    if route.is_counted(df):
        routed = route_frame(df, columns["key"], routing, worker_column, columns.get("cost"))
        return place_rows(routed, routing.workers, F.col(worker_column))
    routing = add_planner(df, routing)
    function, given = make_column_router(routing, list(columns)), list(columns.values())
    # Without a checkpoint a plan lasts as long as its driver: `kafka_sink` refuses what depends on it.
    lasting = {} if routing.planner is None or routing.checkpoint is not None else {"name": _UNWRITTEN}
    worker = apply_to_arrays(df, function, given, IntegerType(), **lasting)
    return place_rows(df.withColumn(worker_column, worker), routing.workers, F.col(worker_column))


def balanced_map(
    df: DataFrame,
    key: Key,
    workers: int,
    work: Callable[[Batches], Batches],
    schema: StructType | str,
    grouping: str = "BOUNDED_LOAD",
    checkpoint: str | None = None,
    *,
    source: str | Column | None = None,
    sources: int | None = None,
    time: str | Column | None = None,
    max_ahead: Duration = 3600.0,
    cost: str | Column | None = None,
    weights: Sequence[float] | None = None,
    most_workers: int | None = None,
    seed: int = 0,
    name: str = "",
    observe: str | None = None,
    **options: Any,
) -> DataFrame:
    """Run a Python function on each worker's rows, which are divided as by ``balance``.

    The function is called once for each worker and batch, with the rows as Arrow batches. Use it for functions that
    gain from few keys a worker, such as a cache or a model by key: for any other, ``df.repartition(workers)`` is even,
    too. A hot key's rows may be at several workers, whose results you then merge; ``keyed_map`` keeps a state per key.

    Parameters
    ----------
    df, key, workers, grouping, checkpoint, source, sources, time, max_ahead, cost, weights, most_workers, seed, name
        As for ``balance``. A stream with a checkpoint also takes the groupings with feedback, as ``keyed_map`` does;
        leave ``name`` out then, because a checkpoint has the plans of only one call.
    work : iterator of pyarrow.RecordBatch → iterator of pyarrow.RecordBatch
        A function as for ``DataFrame.mapInArrow``. It gets the columns of ``df`` in Arrow's plain types.
    schema : StructType or str
        The columns that ``work`` yields.
    observe : str, optional
        As for ``keyed_map``. With it, the result's columns are nullable. Ignored for a static DataFrame.
    options
        As for ``balance``.

    Returns
    -------
    DataFrame
        What ``work`` has yielded at all workers.

    Raises
    ------
    UsageError, EnvironmentFault
        As ``balance``.

    Examples
    --------
    Each worker counts its rows. KEY gives it all rows of some of the seven shops:

    >>> events = spark.range(700).selectExpr("concat('shop ', id % 7) AS shop", "id")
    >>> def count(batches):
    ...     yield pa.record_batch({"rows": [sum(batch.num_rows for batch in batches)]})
    >>> found = balanced_map(events, "shop", 4, count, "rows long", "KEY")
    >>> sorted(row["rows"] for row in found.collect())
    [100, 100, 200, 300]

    """
    require_frame(df)
    route = RouteOptions(
        workers, grouping, checkpoint, source, sources, time, max_ahead,
        cost, weights, most_workers, seed, name, options,
    )  # fmt: skip
    feedback = checkpoint is not None and df.isStreaming
    routing = route.make_routing(df, feedback=feedback)
    names, by, columns = list(df.columns), make_key_column(df, key), route.make_columns(df)
    df = route.stabilise_order(df)
    if route.is_counted(df):
        routed = route_frame(df, by, routing, WORKER, columns.get("cost"))
        return map_in_arrow(place_rows(routed, routing.workers, F.col(WORKER)), names, work, schema)
    if feedback:
        if time is not None:
            df.select(time)  # Spark refuses one that there isn't
        schema = parse_result_type(df.sparkSession, schema)
        routing = add_feedback(df.sparkSession, routing, moving=False)
    routing = add_planner(df, routing)
    if isinstance(key, str) and key in names and is_simple(key) and is_plain(get_type(df, key)):
        own = key  # which packets have encoded
    else:
        own, df = _KEY, df.withColumn(_KEY, by)
    watched = Observation(observe, routing.grouping) if observe is not None and df.isStreaming else None
    if watched is not None and routing.grouping not in SINGLE_OWNER:  # keys that aren't split have one worker each
        df = observe_keys(df, F.col(own), watched.name)
    reporting = watched is not None or routing.plans is not None
    carry = [*names, own] if reporting and own not in names else names
    source_column, time_column, cost_column = map(columns.get, ("source", "time", "cost"))
    arrived = send_packets(df, routing, own, carry, source=source_column, time=time_column, cost=cost_column)
    if reporting:
        return map_at_workers(arrived, work, schema, names, own, routing.workers, watched, _report_to_driver(routing))

    def unpack(batches: Batches) -> Batches:
        return work(
            tuple_packets.decode_dictionaries(tuple_packets.read_packet(packet))
            for batch in batches
            for packet in batch.column("packet")
        )

    return arrived.mapInArrow(unpack, schema)


def _report_to_driver(routing: Routing) -> Callable[[WorkerUsage], None] | None:
    """How a worker reports to the driver, if there are plans."""
    if routing.plans is None:
        return None
    monitors, reports = WorkerMonitors(routing), routing.reports

    def tell(worked: WorkerUsage) -> None:
        batch, keys = get_batch_number(), worked.keys
        assert batch is not None
        assert reports is not None
        monitor = monitors.report(worked.worker, batch, keys, worked.busy)
        report = WorkerReport(len(keys), len(keys.hashes), worked.busy, monitor=monitor)
        reports.send(batch, worked.worker, report)

    return tell
