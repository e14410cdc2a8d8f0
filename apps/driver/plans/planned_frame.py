"""PLANNED over a DataFrame that isn't a stream, without Python at the executors.

Spark SQL counts the rows by key, the driver makes the plan, and Spark SQL routes by it. What the plan moves or splits
is in small tables, which are joined by broadcast. All else goes to its home, by Spark's own hash of the key.

A key that the plan splits is divided by chance: each of its rows draws one of the key's workers, as often as the plan
says. So a worker has some √n rows more or fewer than planned, of n rows that are drawn. A bucket that the plan splits
is divided by the hashes of its keys, and each of these stays whole.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.visibility import require_own_query
from unskew.apps.driver.plans.planner import BatchPlans
from unskew.apps.router.planner_protocol import QUOTAS, unpack_value
from unskew.apps.router.router import Routing
from unskew.grouping.planned.counts import BUCKETS, SourceCounts
from unskew.grouping.planned.planned import Planned
from unskew.grouping.planned.quotas import Quotas
from unskew.spark.micro_batches import get_driver_batch

#: A name for the column of the workers, where users don't see it.
WORKER = "__unskew_worker"
_KEY, _BUCKET, _ROW, _COST = "__unskew_key", "__unskew_bucket", "__unskew_row", "__unskew_cost"
_OWN = "__unskew_own"
_SOURCE = 0  # of the whole DataFrame
_BITS = 53  # of a number that a row draws, as many as a double has


class PlannedBySpark(Planned):
    """PLANNED with Spark's hashes: a key's bucket is its hash modulo the number of buckets."""

    def _buckets(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return (keys.view(np.int64) % (BUCKETS * self.workers)).view(np.uint64)

    def list_remembered(self) -> NDArray[np.int64]:
        """The hashes of the keys of which replicas are remembered, each once."""
        keys = np.unique(self._replicas.key)
        return keys[keys >= BUCKETS * self.workers].view(np.int64)

    def _identity(self) -> str:
        return f"{super()._identity()} hash=xxhash64"


def route_frame(df: DataFrame, key: Column, routing: Routing, name: str, cost: Column | None = None) -> DataFrame:
    """Add an int column with each row's worker. The DataFrame is counted at once, by a job of Spark's.

    Parameters
    ----------
    df : DataFrame
        It isn't a stream. Its tasks give their rows in the same order in each attempt (``stabilise_order``).
    key : Column
        The key, of any type that Spark hashes. Null is a key of its own.
    routing : Routing
        It has a grouping that plans batches. With a checkpoint, and in ``foreachBatch`` of a session without Spark
        Connect, keys keep their replicas from batch to batch.
    name : str
        The name of the new column.
    cost : Column, optional
        Each row's cost, double, from 0 to ``MOST_COST``. The plan is then made of sums of costs, not of counts.

    Raises
    ------
    UsageError
        In ``foreachBatch`` the checkpoint isn't the query's own.
    EnvironmentFault
        The checkpoint can't be read or written.

    """
    plans = _open_plans(df.sparkSession, routing)
    hashed = _hash_keys(df, key, routing, cost)
    return _choose_workers(hashed, _plan_frame(hashed, plans, routing), routing).withColumnRenamed(WORKER, name)


def route_pair(
    left: DataFrame, left_key: Column, right: DataFrame, right_key: Column, routing: Routing, cost: Column | None = None
) -> tuple[DataFrame, DataFrame]:
    """Add the column ``WORKER`` to two DataFrames, such that equal keys meet: the rows of a join.

    The first one is counted at once, and routed as by ``route_frame``. A row of the second one goes to every worker
    that may have rows of its key in the first one. That is one worker, unless the plan splits the key.

    Parameters
    ----------
    left, left_key, routing, cost
        As for ``route_frame``, whose errors it raises.
    right, right_key
        The second DataFrame and its key, which has the type of the first one's.

    """
    plans = _open_plans(left.sparkSession, routing)
    hashed = _hash_keys(left, left_key, routing, cost)
    quotas = _plan_frame(hashed, plans, routing)
    copied = _assign_buckets(_hash_keys(right, right_key, routing), quotas, routing)
    alone = range(_find_first_key(quotas, routing), len(quotas.keys))
    if alone:
        table = {
            _KEY: pa.array(quotas.keys[alone.start :].view(np.int64)),
            _OWN: pa.array([sorted({*quotas.get_parts(quota)[0].tolist()}) for quota in alone], pa.list_(pa.int32())),
        }
        copied = copied.join(F.broadcast(right.sparkSession.createDataFrame(pa.table(table))), _KEY, "left")
        several = F.coalesce(F.col(_OWN), F.array(F.col(WORKER).cast("int")))
        copied = copied.withColumn(WORKER, F.explode(several)).drop(_OWN)
    return _choose_workers(hashed, quotas, routing), copied.drop(_KEY, _BUCKET)


def _hash_keys(df: DataFrame, key: Column, routing: Routing, cost: Column | None = None) -> DataFrame:
    hashed = df.withColumn(_KEY, F.xxhash64(F.lit(routing.seed), key))
    hashed = hashed.withColumn(_BUCKET, F.pmod(F.col(_KEY), F.lit(BUCKETS * routing.workers)))
    return hashed if cost is None else hashed.withColumn(_COST, cost)


def _make_planner(routing: Routing) -> PlannedBySpark:
    return PlannedBySpark(routing.workers, seed=routing.seed, **routing.options)


def _open_plans(spark: SparkSession, routing: Routing) -> tuple[BatchPlans, int]:
    """The plans of the query whose batch this is, if it is one, and the batch's number."""
    batch = get_driver_batch(spark)
    checkpoint = None if batch is None else routing.checkpoint
    if checkpoint is not None:
        require_own_query(spark, checkpoint)  # no task checks it, as the driver alone writes there
    return BatchPlans(lambda _: _make_planner(routing), checkpoint, routing.name), batch or 0


def _plan_frame(hashed: DataFrame, of: tuple[BatchPlans, int], routing: Routing) -> Quotas:
    """Count a DataFrame with hashed keys by a job of Spark's, and plan who gets how much of what."""
    plans, batch = of
    answer = plans.join(None, batch, _SOURCE)
    if answer.startswith(QUOTAS):  # what this batch's earlier attempt was routed by
        return unpack_value(Quotas, answer[len(QUOTAS) :])
    planner = _make_planner(routing)
    planner.load(answer[1:])
    plans.count(None, batch, _SOURCE, _count_keys(hashed, planner))
    return unpack_value(Quotas, plans.quotas(batch, _SOURCE))


def _find_first_key(quotas: Quotas, routing: Routing) -> int:
    """The first of the quotas that are of keys: those before it are of buckets."""
    return int(np.searchsorted(quotas.keys, np.uint64(BUCKETS * routing.workers)))


def _assign_buckets(hashed: DataFrame, quotas: Quotas, routing: Routing) -> DataFrame:
    """The DataFrame with the column ``WORKER``: the worker of each row's bucket, or of its key's part of the bucket."""
    home = F.floor(F.col(_BUCKET) / BUCKETS).cast("int")
    return _join_quotas(hashed, quotas, range(_find_first_key(quotas, routing)), _BUCKET, F.xxhash64(_KEY), home)


def _choose_workers(hashed: DataFrame, quotas: Quotas, routing: Routing) -> DataFrame:
    """The DataFrame with the column ``WORKER``, and without those of ``_hash_keys``."""
    # A column of its own: within an expression Spark would count only the rows for which that is evaluated.
    shared = _assign_buckets(hashed.withColumn(_ROW, F.monotonically_increasing_id()), quotas, routing)
    alone = range(_find_first_key(quotas, routing), len(quotas.keys))
    return _join_quotas(shared, quotas, alone, _KEY, F.xxhash64(_ROW), F.col(WORKER)).drop(_KEY, _BUCKET, _ROW, _COST)


def _count_keys(hashed: DataFrame, planner: PlannedBySpark) -> SourceCounts:
    """What a router counts: keys alone if they are hot or remembered, the others by their buckets."""
    load = F.sum(_COST) if planner.uses_cost else F.count("*")
    counted = hashed.groupBy(_KEY, _BUCKET).agg(load.alias("load"), F.count("*").alias("tuples"))
    total = counted.agg(F.sum("load").alias("total"))
    alone = (F.col("load") > 0) & (F.col("load") >= F.col("total") * (planner.threshold / planner.workers))
    counted = counted.crossJoin(F.broadcast(total))
    remembered = planner.list_remembered()
    if len(remembered):
        table = pa.table({_KEY: remembered, "remembered": np.ones(len(remembered), np.bool_)})
        counted = counted.join(F.broadcast(hashed.sparkSession.createDataFrame(table)), _KEY, "left")
        alone = alone | F.col("remembered").isNotNull()
    of_bucket = ~alone | (F.col(_KEY) == F.col(_BUCKET))  # a hash that is a bucket's number belongs to that bucket
    found = (
        counted.groupBy(F.when(of_bucket, F.col(_BUCKET)).otherwise(F.col(_KEY)).alias("key"))
        .agg(F.sum("load").alias("load"), F.sum("tuples").alias("tuples"))
        .toArrow()
    )
    keys, loads, tuples = (found.column(name).to_numpy() for name in ("key", "load", "tuples"))
    keys = keys.astype(np.int64).view(np.uint64)
    order = np.argsort(keys)
    return SourceCounts(int(tuples.sum()), keys[order], loads[order].astype(np.float64))


def _join_quotas(df: DataFrame, quotas: Quotas, which: range, on: str, drawn: Column, otherwise: Column) -> DataFrame:
    """The DataFrame with the column ``WORKER``: what the rows draw of these quotas, and ``otherwise`` without one."""
    if not which:
        return df.withColumn(WORKER, otherwise)
    drawers = [_make_alias_table(*quotas.get_parts(quota)) for quota in which]
    columns = {
        on: pa.array(quotas.keys[which.start : which.stop].view(np.int64)),
        "__unskew_share": pa.array([share for share, _, _ in drawers], pa.list_(pa.float64())),
        _OWN: pa.array([own for _, own, _ in drawers], pa.list_(pa.int32())),
        "__unskew_other": pa.array([other for _, _, other in drawers], pa.list_(pa.int32())),
    }
    share, own, other = (F.col(name) for name in list(columns)[1:])
    joined = df.join(F.broadcast(df.sparkSession.createDataFrame(pa.table(columns))), on, "left")
    size = F.size(own)
    at = F.shiftrightunsigned(drawn, 64 - _BITS) / F.lit(2.0**_BITS) * size
    slot = F.least(F.floor(at).cast("int"), size - 1)
    drawn_worker = F.when(at - slot < F.get(share, slot), F.get(own, slot)).otherwise(F.get(other, slot))
    worker = F.when(own.isNull(), otherwise).otherwise(drawn_worker)
    return joined.withColumn(WORKER, worker).drop(*list(columns)[1:])


def _make_alias_table(
    workers: NDArray[np.int32], amounts: NDArray[np.float64]
) -> tuple[list[float], list[int], list[int]]:
    """How to draw one of n workers as often as its amount says, by one number from [0, n).

    Its whole part is a slot. In slot i worker ``own[i]`` is drawn if the fraction is below ``share[i]``, and
    ``other[i]`` if not. This is the alias method: Walker, *An Efficient Method for Generating Discrete Random Variables
    with General Distributions*, ACM TOMS, 1977.

    >>> _make_alias_table(np.array([7, 9], np.int32), np.array([3.0, 1.0]))
    ([1.0, 0.5], [7, 9], [7, 7])
    """
    n, total = len(workers), float(amounts.sum())
    left = (amounts * (n / total) if total else np.ones(n)).tolist()
    share, other = [1.0] * n, workers.tolist()
    small = [slot for slot in range(n) if left[slot] < 1]
    large = [slot for slot in range(n) if left[slot] > 1]
    while small and large:
        slot, giver = small.pop(), large[-1]
        share[slot], other[slot] = left[slot], int(workers[giver])
        left[giver] -= 1 - left[slot]
        if left[giver] <= 1:
            large.pop()
            if left[giver] < 1:
                small.append(giver)
    return share, workers.tolist(), other
