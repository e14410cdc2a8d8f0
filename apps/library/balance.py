"""Balance the user's own DataFrame: a grouping chooses the worker of each row.

``balance`` returns Spark rows, for any Spark code that follows. ``balanced_map`` runs a Python function at the workers:
it sends Arrow packets instead of rows. Both use the same router.
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
    """Route each row by its key: partition *i* of the result has exactly the rows of worker *i*.

    Parameters
    ----------
    df : DataFrame
        A stream, or a static DataFrame. With a static one, each run starts with new routers, unless it is a stream's
        batch in ``foreachBatch`` of a session without Spark Connect.
    key : str, Column, or a list of these
        The column to balance by, or several that are the key together. Any type whose values Spark can compare: also
        decimal, boolean, date, timestamp, struct, array, and float (all NaN are one key, and both zeros), but no map.
        Null is a key of its own.
    workers : int
        W ≥ 1: the number of partitions of the result.
    grouping : str
        One of the groupings in ``unskew.grouping.registry.STANDALONE``.
    checkpoint : str
        The query's ``checkpointLocation``, which all executors must see. The routers' states are kept beside it, one
        version a batch. So a batch that Spark runs again is routed as it was before. Without it, each batch starts with
        new routers; PLANNED remembers its replicas as long as the process lives.
    source : str or Column, int
        The number of the source that a row comes from. It must be the same for all rows of a task. Default: the task's
        number. For a Kafka topic, give its ``partition`` column, and don't set ``minPartitions``.
    sources : int
        S ≥ 1: the number of sources, for BOUNDED_LOAD, whose bounds depend on it. Other groupings don't need it.
        Default: the number of tasks of a static DataFrame, if Spark knows it without a job; otherwise 1. Spark knows it
        where there is no join, aggregation or other exchange, in a session without Spark Connect. Of a Kafka stream it
        isn't known: the plan names the topic, and only the brokers know its partitions.
    time : str or Column, timestamp
        The schemes' clock. Default: the batch's time, which a replay repeats. A row in which it is null doesn't put the
        clock on.
    max_ahead : timedelta, number (s) or str
        How far a row's ``time`` may be ahead of the batch's. One that is further doesn't put the clock on, because it
        would make pools and loads stand still until all others have caught up. The row is routed all the same. A static
        DataFrame has no batch's time, and there all times count.
    cost : str or Column, number
        What each row costs its worker, in any unit, such as its bytes or its expected milliseconds. The workers' costs
        are then balanced, instead of the numbers of their rows. A cost that is null, negative, NaN or above 1e100
        counts as 0. Groupings: those in ``unskew.grouping.registry.COSTED``.
    weights : sequence of W floats
        The workers' speeds, in any unit, each above 0: a worker of speed 2 gets twice the load of one of speed 1.
        Groupings: those in ``unskew.grouping.registry.WEIGHTED``.
    most_workers : int
        At least 1: a key, such as a noisy tenant, has at most so many workers, the same ones for ever and at all
        sources. If it has more rows than these workers' share, they get more than the others, and their tasks take
        longer. Other keys leave these workers as long as one of their own has room. Default: all W. Groupings: those in
        ``unskew.grouping.registry.CAPPED``. BOUNDED_LOAD's ``internals`` say how many keys are limited.
    seed : int
        The scheme's seed.
    name : str
        Needed if one query has several calls of ``balance`` or ``balanced_map``: it names the call's routers in the
        checkpoint. Give each call a name of its own, and the same one after a restart.
    worker_column : str
        Name of the int column that is added.
    options
        The scheme's own parameters (``unskew.grouping.get_parameters`` lists them).

    Raises
    ------
    UsageError
        The grouping is unknown, or needs feedback or a cost that isn't given, or can't use the cost, weights or
        ``most_workers``. A parameter or the number of workers is invalid, or ``name``, or the checkpoint's address.
        There is no such key, or its type isn't one of those above; the cost isn't a number, or the time that a
        scheme uses no timestamp; ``df`` has a column ``worker_column``, in any case of letters unless
        ``spark.sql.caseSensitive`` is true. Or a stream is behind a shuffle, and Spark wouldn't notice if its rows came
        in another order.
        The query fails with it in two cases: the checkpoint isn't the query's own, or an executor doesn't see it.
        Tasks check this before they write anything.
    EnvironmentFault
        Spark doesn't say where the checkpoint is.

    Notes
    -----
    Behind a shuffle (a join, an aggregation, ``repartition``) rows come in any order, and a task that runs again would
    route them otherwise. So a static DataFrame is sorted first, by a hash of its rows, unless the grouping is KEY.
    Spark doesn't sort streams. There, Spark 4.2 notices and ends the query, which goes on from its checkpoint when it
    is started again. On Spark 4.1 set ``spark.sql.shuffle.orderIndependentChecksum.enabled`` and
    ``spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch`` to true. Otherwise, and on 4.0, the call is
    refused: balance before the shuffle, or in ``foreachBatch``. An external shuffle service may lack these checksums.

    With PLANNED, a DataFrame that isn't a stream is counted by a job that runs in this call, and routed by Spark SQL
    without Python (``unskew.apps.driver.plans.planned_frame``). So it is for batches in ``foreachBatch``, too, where
    Python may not be run. Its workers' caps are kept up to chance, and to 1 % of the mean where hot keys are estimated.

    Counts never depend on the routing. But several workers may have rows of the same key. So aggregate each worker's
    rows first, and then merge these partial results by key. The ``worker`` column has each row's worker.

    Spark treats the router as non-deterministic: it evaluates it once a row, and moves no filter below it. So apply
    filters to ``df`` itself: rows that are dropped after ``balance`` have been routed too.

    If the result is used twice, as in ``placed.union(placed)`` or a self-join, Spark may route twice. Each row gets the
    same worker both times, because both routers begin with the same state and write the same state.

    Examples
    --------
    Every other row has the same key. A worker gets a quarter of the rows all the same:

    >>> events = spark.range(100_000, numPartitions=1).selectExpr(
    ...     "if(id % 2 = 0, 'hot', concat('user ', id % 1000)) AS user", "id"
    ... )
    >>> placed = balance(events, "user", workers=4)
    >>> [row["count"] for row in placed.groupBy("worker").count().orderBy("worker").collect()]
    [26419, 27018, 25612, 20951]

    The last worker is twice as fast:

    >>> placed = balance(events, "user", workers=4, weights=[1, 1, 1, 2])
    >>> [row["count"] for row in placed.groupBy("worker").count().orderBy("worker").collect()]
    [21368, 21615, 21064, 35953]

    The key is two columns, and the call is part of a chain:

    >>> events.transform(balance, ["user", "id"], workers=4, grouping="KEY").columns
    ['user', 'id', 'worker']

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
    """Route tuples as ``balance`` does, and run ``work`` at each worker over its tuples, as ``mapInArrow`` does.

    Parameters
    ----------
    df, key, workers, grouping, checkpoint, source, sources, time, max_ahead, cost, weights, most_workers, seed, name
        As for ``balance``. A stream with a checkpoint also takes groupings with feedback, as ``keyed_map`` does. With
        these, leave ``name`` out: a checkpoint has the plans of one call alone.
    **options
        As for ``balance``.
    work : iterator of pyarrow.RecordBatch → iterator of pyarrow.RecordBatch
        A function as ``DataFrame.mapInArrow`` takes it. It runs once a worker and batch. It gets ``df``'s columns,
        in Arrow's plain types.
    schema : StructType or str
        What ``work`` yields.
    observe : str, optional
        As for ``keyed_map``. The columns of the result may then be null. It is ignored over a static DataFrame.

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
