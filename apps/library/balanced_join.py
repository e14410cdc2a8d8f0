"""``balanced_join``: a join in which hot keys are spread over several tasks.

A static left side is counted by key, and PLANNED divides it between the tasks; Spark then joins within each task. Two
streams are joined by stateful workers (``stream_join``).
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType

from unskew.apps.driver.plans.planned_frame import WORKER, route_pair
from unskew.apps.library.route_options import RouteOptions
from unskew.apps.router.row_keys import make_key_column
from unskew.durations import Duration
from unskew.errors import UsageError
from unskew.spark.compat import (
    choose_tokens,
    explain_missing_column,
    get_plan,
    get_type,
    is_on,
    list_nodes,
    quote_name,
    require_frame,
)
from unskew.spark.setting_names import CO_PARTITION, PARTITIONS

if TYPE_CHECKING:
    from unskew.apps.worker.joining.config import Condition

log = logging.getLogger(__name__)

#: A join as a user may call it → as Spark does.
JOINS = {
    **dict.fromkeys(("inner",), "inner"),
    **dict.fromkeys(("left", "leftouter", "left_outer"), "left"),
    **dict.fromkeys(("semi", "leftsemi", "left_semi"), "leftsemi"),
    **dict.fromkeys(("anti", "leftanti", "left_anti"), "leftanti"),
    **dict.fromkeys(("right", "rightouter", "right_outer"), "right"),
    **dict.fromkeys(("full", "fullouter", "full_outer", "outer"), "full"),
}
#: The joins of two streams, and of others.
_STREAMS = ("inner", "left", "right", "full")
_STATIC = ("inner", "left", "leftsemi", "leftanti")
_BROADCASTS = ("BroadcastHashJoin", "BroadcastNestedLoopJoin")


def balanced_join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    workers: int | None = None,
    how: str = "inner",
    checkpoint: str | None = None,
    *,
    cost: str | Column | None = None,
    weights: Sequence[float] | None = None,
    most_workers: int | None = None,
    seed: int = 0,
    name: str = "",
    within: Duration | None = None,
    after: Duration | None = None,
    left_time: str | Column | None = None,
    right_time: str | Column | None = None,
    lateness: Duration = 10.0,
    max_ahead: Duration = 3600.0,
    where: "Condition | None" = None,
    observe: str | None = None,
    **options: Any,
) -> DataFrame:
    """Join two DataFrames, or two streams, so that all tasks have about equally much to do, however skewed the key is.

    The result is that of ``left.join(right, on, how)``. Rows of a hot key are spread over several tasks, each of which
    gets all of its rows of the other side. If Spark would broadcast a static right side, it does.

    Parameters
    ----------
    left, right : DataFrame
        Both streams, or both static. A static left side, the one with the hot keys, is read twice: cache it if it is
        expensive to make. Of two streams, the side on which a key has more rows is divided.
    on : str or sequence of str
        The columns that must be equal, with the same names on both sides. Null equals nothing.
    workers : int
        W ≥ 1: the number of tasks. Default: ``spark.sql.shuffle.partitions``. For streams, see ``keyed_map``.
    how : str
        ``inner``, ``left``, ``leftsemi`` or ``leftanti``; for streams ``inner``, ``left``, ``right`` or ``full``.
    checkpoint : str, optional
        The query's ``checkpointLocation``. Streams need it. In ``foreachBatch`` keys keep their tasks with it.
    cost, weights, most_workers, seed, name, options
        As for ``balance`` with PLANNED; ``cost`` is a left row's. Streams take only ``most_workers`` and ``seed``.
    within, after : timedelta, number (s) or str
        Streams: a right row's time is at most ``within`` before the left one's and at most ``after`` after it.
        Default of ``after``: ``within``.
    left_time, right_time : str or Column, timestamp
        Streams: the rows' own times. Rows in which it is null are left out.
    where : callable, optional
        Streams: which pairs count: (n left rows, n right rows) → bool[n], as Arrow batches without the key.
    lateness, max_ahead, observe
        Streams: as for ``keyed_map``. Each stream has its own watermark, and the least counts.

    Returns
    -------
    DataFrame
        The joined rows in W partitions. For streams, a right column named as a left one gets the suffix ``_right``.

    Raises
    ------
    UsageError
        One side is a stream and the other isn't, an argument is invalid or for the other kind, a column is missing or
        has two types, or ``spark.sql.requireAllClusterKeysForCoPartition`` is true. For streams also as ``keyed_map``.
    EnvironmentFault
        As ``balance``, or for streams as ``keyed_map``.

    Examples
    --------
    >>> spark.conf.set("spark.sql.requireAllClusterKeysForCoPartition", "false")
    >>> clicks = spark.range(100_000).selectExpr("if(id % 2 = 0, 0, id % 1000) AS user", "id")
    >>> users = spark.range(1000).selectExpr("id AS user", "concat('user ', id) AS name")
    >>> spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    >>> joined = balanced_join(clicks, users, "user", workers=4)
    >>> sizes = joined.groupBy(F.spark_partition_id()).count().toArrow()["count"].to_pylist()
    >>> sum(sizes), max(sizes) < 1.06 * 25_000
    (100000, True)

    """
    kinds, how = _check_sides(left, right, on), _parse_join(how, stream=left.isStreaming)
    names = list(kinds)
    spark = left.sparkSession
    if workers is None:
        workers = int(spark.conf.get(PARTITIONS) or 1)
    of_streams = {"within": within, "after": after, "left_time": left_time, "right_time": right_time}
    of_streams |= {"where": where, "observe": observe}
    of_others = {"cost": cost, "weights": weights, "name": name or None, **options}
    _check_kind(of_others if left.isStreaming else of_streams, stream=left.isStreaming)
    if left.isStreaming:
        if within is None or left_time is None or right_time is None:
            lacking = next(each for each in ("within", "left_time", "right_time") if of_streams[each] is None)
            raise UsageError(f"{lacking} is missing; valid: a join of streams has within, left_time and right_time")
        from unskew.apps.library.stream_join import join_streams  # what other joins do without

        return join_streams(
            left, right, kinds, workers, how, checkpoint, within, after, left_time, right_time, lateness, max_ahead,
            where=where, observe=observe, most_workers=most_workers, seed=seed,
        )  # fmt: skip
    route = RouteOptions(
        workers, "PLANNED", checkpoint, max_ahead=max_ahead, cost=cost, weights=weights, most_workers=most_workers,
        seed=seed, name=name, options=options,
    )  # fmt: skip
    plain = left.join(right, names, how)
    found = _count_broadcasts(plain)
    if found and found > _count_broadcasts(left) + _count_broadcasts(right):
        log.info("Spark broadcasts the right side, so that no task can have more than its share")
        return plain
    if is_on(spark, CO_PARTITION):
        raise UsageError(
            f"{CO_PARTITION} is true, so that Spark would shuffle both sides once more, by the hash of the key; valid: "
            f"spark.conf.set({CO_PARTITION!r}, False)"
        )
    routing, costs = route.make_routing(left), route.make_source_and_cost(left).get("cost")
    left_key, right_key = (_make_key(side, kinds) for side in (left, right))
    pair = route_pair(route.stabilise_order(left), left_key, right, right_key, routing, costs)
    ours, theirs = (_place_rows(side, route.workers) for side in pair)
    return ours.join(theirs, [WORKER, *names], how).drop(WORKER)


def _check_sides(left: DataFrame, right: DataFrame, on: str | Sequence[str]) -> dict[str, DataType]:
    """The columns that must be equal, and the type by which they are compared.

    Raises ``UsageError`` as ``balanced_join``.
    """
    for name, side in (("left", left), ("right", right)):
        require_frame(side, name)
    if left.isStreaming != right.isStreaming:
        raise UsageError(
            "one side of balanced_join is a stream and the other isn't; valid: both, none, or a stream's batch in "
            "foreachBatch"
        )
    names = [on] if isinstance(on, str) else [*on]
    if not names or not all(isinstance(each, str) for each in names):
        raise UsageError(f"on is {on!r}; valid: a column's name, or a list of names")
    kinds: dict[str, DataType] = {}
    for each in names:
        for side in (left, right):
            if each not in side.columns:
                raise explain_missing_column(side, each)
        ours, theirs = (get_type(side, quote_name(each)) for side in (left, right))
        if ours != theirs and not all(isinstance(kind, NumericType) for kind in (ours, theirs)):
            raise UsageError(
                f"column {each!r} is {ours.simpleString()} on the left and {theirs.simpleString()} on the right; "
                "valid: one type, or two of numbers"
            )
        # Numbers of two types are compared as Spark's wider one, which a union of both has.
        column = quote_name(each)
        kinds[each] = ours if ours == theirs else left.select(column).union(right.select(column)).schema[0].dataType
    return kinds


def _check_kind(given: Mapping[str, Any], *, stream: bool) -> None:
    """Raise ``UsageError`` for an argument that is for the other kind of DataFrames."""
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        kinds = ("streams", "DataFrames that aren't") if stream else ("DataFrames that aren't streams", "streams")
        raise UsageError(f"{wrong[0]} is given for a join of {kinds[0]}; valid for {kinds[1]}")


def _parse_join(how: str, *, stream: bool) -> str:
    valid = _STREAMS if stream else _STATIC
    if JOINS.get(how) not in valid:
        raise UsageError(f"how is {how!r}; valid{' for streams' * stream}: {', '.join(valid)}")
    return JOINS[how]


def _make_key(side: DataFrame, kinds: Mapping[str, DataType]) -> Column:
    """The key of a side's rows, whose hash is that of the other side's equal keys."""
    return make_key_column(side, [F.col(quote_name(name)).cast(kind) for name, kind in kinds.items()])


def _place_rows(df: DataFrame, workers: int) -> DataFrame:
    """Put each row in its worker's partition, by a column that Spark knows afterwards: the join is by it, too."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(workers, F.col(WORKER))
    tokens = F.array(*map(F.lit, choose_tokens(workers, workers)))
    return df.withColumn(WORKER, F.get(tokens, F.col(WORKER))).repartition(workers, WORKER)


def _count_broadcasts(df: DataFrame) -> int:
    return sum(node in _BROADCASTS for node in list_nodes(get_plan(df)))
