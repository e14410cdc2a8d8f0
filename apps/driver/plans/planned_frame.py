"""PLANNED for DataFrames that aren't streams, without Python at the executors.

Spark SQL counts the rows, the driver makes the plan, and Spark SQL routes with it. What the plan moves or splits is in
small tables, for broadcast joins. All else goes to its home, by Spark's hash of the key.

From Spark 4.1 on, which has ``approx_top_k``, sketches count hot keys and buckets without a shuffle of the keys. Hot
keys' counts are then estimates, which add at most 1 % of the mean load to a worker, or else each key is counted. Costs
are summed by key.

A split key is divided randomly: each row draws one of the key's workers, in the plan's proportions. So of n rows drawn,
a worker has some √n more or fewer than planned. A split bucket is divided by its keys' hashes, and each key stays
whole.
"""

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.visibility import require_own_query
from unskew.apps.driver.plans.planner import BatchPlans
from unskew.apps.router.planner_protocol import QUOTAS, unpack_value
from unskew.apps.router.router import Routing
from unskew.grouping.planned.counts import BUCKETS, SourceCounts, bucket_homes
from unskew.grouping.planned.planned import Planned
from unskew.grouping.planned.quotas import Quotas
from unskew.spark.compat import has_function
from unskew.spark.micro_batches import get_driver_batch

#: The name of the workers' column if users don't see it.
WORKER = "__unskew_worker"
_KEY, _BUCKET, _ROW, _COST = "__unskew_key", "__unskew_bucket", "__unskew_row", "__unskew_cost"
_OWN = "__unskew_own"
_SOURCE = 0  # the whole DataFrame
_SEED = 0  # without earlier plans
_BITS = 53  # of a row's random number: a double's
#: A sketch tracks this multiple of the most keys that can be hot: at least 7, to find them all.
_TRACKED = 20
_MOST_TRACKED = 3 << 17  # a task's sketch then takes some 20 MB
#: The most additional load of a worker, over the mean, from estimates of hot keys.
_ERROR = 0.01


class PlannedBySpark(Planned):
    """PLANNED with Spark's hashes: a key's bucket is its hash modulo the number of buckets."""

    def _buckets(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return (keys.view(np.int64) % (BUCKETS * self.workers)).view(np.uint64)

    def find_buckets(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The bucket of each key, or of each bucket itself."""
        return self._buckets(keys)

    def find_overfull(self, counts: SourceCounts) -> NDArray[np.bool_]:
        """Which workers would exceed their caps if each key were at its home, bool[W]."""
        loads = np.bincount(bucket_homes(self._buckets(counts.keys)), counts.loads, self.workers)
        return loads > self._caps(float(counts.tuples))

    def list_remembered(self) -> NDArray[np.int64]:
        """The distinct hashes of the keys with remembered replicas."""
        keys = np.unique(self._replicas.key)
        return keys[keys >= BUCKETS * self.workers].view(np.int64)

    def _identity(self) -> str:
        return f"{super()._identity()} hash=xxhash64"


class KeyLoads(NamedTuple):
    """The k keys of a DataFrame."""

    keys: NDArray[np.uint64]  #: uint64[k]: The hashes, ascending.
    loads: NDArray[np.float64]  #: float64[k]: The sum of each key's costs.
    tuples: NDArray[np.int64]  #: int64[k]: Each key's rows.


class KeyDivision(NamedTuple):
    """The division of k keys' loads between W workers, in p parts."""

    key: NDArray[np.int64]  #: int64[p]: The number of each part's key. A key has at least one part.
    worker: NDArray[np.int32]  #: int32[p]: Each part's worker.
    amounts: NDArray[np.float64]  #: float64[p]: Each part's load, which is 0 only if the key's is.
    workers: int  #: W.

    def count_divided(self) -> int:
        """The number of keys with several parts."""
        return int((np.bincount(self.key) > 1).sum())

    def find_fullest(self) -> float:
        """The fullest worker's load over the mean; 1 without load."""
        loads = np.bincount(self.worker, self.amounts, self.workers)
        return float(loads.max() / loads.mean()) if loads.any() else 1.0


def count_loads(df: DataFrame, key: Column, cost: Column) -> KeyLoads:
    """Count a DataFrame per key, in a Spark job. ``key`` and ``cost`` are as for ``route_frame``."""
    hashed = df.select(F.xxhash64(F.lit(_SEED), key).alias(_KEY), cost.alias(_COST))
    found = hashed.groupBy(_KEY).agg(F.sum(_COST).alias("load"), F.count("*").alias("tuples")).toArrow()
    keys, loads, tuples = (found.column(name).to_numpy() for name in (_KEY, "load", "tuples"))
    keys = keys.astype(np.int64).view(np.uint64)
    order = np.argsort(keys)
    return KeyLoads(keys[order], loads[order].astype(np.float64), tuples[order].astype(np.int64))


def divide_keys(counted: KeyLoads, workers: int, slack: float) -> tuple[Quotas, KeyDivision]:
    """Divide k keys between W workers, in at most k + W − 1 parts, regardless of earlier plans."""
    planner = PlannedBySpark(workers, seed=_SEED, slack=slack, threshold=0.0, balance="cost")
    quotas = planner.divide([SourceCounts(int(counted.tuples.sum()), counted.keys, counted.loads)])[0]
    away = np.searchsorted(counted.keys, quotas.keys)
    stays = np.ones(len(counted.keys), np.bool_)
    stays[away] = False
    key = np.concatenate([np.flatnonzero(stays), np.repeat(away, np.diff(quotas.firsts))])
    worker = np.concatenate([bucket_homes(planner.find_buckets(counted.keys[stays])), quotas.workers])
    parts = [quotas.get_parts(quota)[1] for quota in range(len(quotas.keys))]
    amounts = np.concatenate([counted.loads[stays], *parts])
    some = (amounts > 0) | (counted.loads[key] == 0)
    return quotas, KeyDivision(key[some], worker[some], amounts[some], workers)


def divide_frame(
    df: DataFrame, key: Column, counted: KeyLoads, workers: int, slack: float
) -> tuple[DataFrame, KeyDivision]:
    """Add the column ``WORKER`` according to ``divide_keys``. No plan is kept or followed.

    ``counted`` is what ``count_loads`` returns for the DataFrame and its key, ``workers`` at least 1, and ``slack``
    PLANNED's.
    """
    quotas, division = divide_keys(counted, workers, slack)
    routing = Routing("PLANNED", workers, seed=_SEED)
    return _choose_workers(_hash_keys(df, key, routing), quotas, routing), division


def route_frame(df: DataFrame, key: Column, routing: Routing, name: str, cost: Column | None = None) -> DataFrame:
    """Add an int column with each row's worker. The call runs a Spark job that counts the DataFrame.

    Parameters
    ----------
    df : DataFrame
        Not a stream. Its tasks give rows in the same order in each attempt (``stabilise_order``).
    key : Column
        The key, of any type that Spark hashes. Null is a separate key.
    routing : Routing
        Its grouping plans batches. With a checkpoint, and in ``foreachBatch`` without Spark Connect, keys keep their
        replicas between batches.
    name : str
        The name of the new column.
    cost : Column, optional
        Each row's cost, double, from 0 to ``MOST_COST``. The plan then balances costs, not counts.

    Raises
    ------
    UsageError
        In ``foreachBatch`` the checkpoint isn't the query's.
    EnvironmentFault
        The checkpoint can't be read or written.

    """
    plans = _open_plans(df.sparkSession, routing)
    hashed = _hash_keys(df, key, routing, cost)
    return _choose_workers(hashed, _plan_frame(hashed, plans, routing), routing).withColumnRenamed(WORKER, name)


def route_pair(
    left: DataFrame, left_key: Column, right: DataFrame, right_key: Column, routing: Routing, cost: Column | None = None
) -> tuple[DataFrame, DataFrame]:
    """Add the column ``WORKER`` to a join's two DataFrames, so that equal keys, which are of one type, meet.

    The left one is counted and routed as by ``route_frame``, whose errors it raises. A row of the right one goes to
    every worker that may have rows of its key in the left one: one, unless the plan splits the key.
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
    """The plans of the query whose batch this is, if any, and the batch's number."""
    batch = get_driver_batch(spark)
    checkpoint = None if batch is None else routing.checkpoint
    if checkpoint is not None:
        require_own_query(spark, checkpoint)  # no task checks it, because only the driver writes there
    return BatchPlans(lambda _: _make_planner(routing), checkpoint, routing.name), batch or 0


def _plan_frame(hashed: DataFrame, of: tuple[BatchPlans, int], routing: Routing) -> Quotas:
    """Count a DataFrame with hashed keys in a Spark job, and plan its quotas."""
    plans, batch = of
    answer = plans.join(None, batch, _SOURCE)
    if answer.startswith(QUOTAS):  # of this batch's earlier attempt
        return unpack_value(Quotas, answer[len(QUOTAS) :])
    planner = _make_planner(routing)
    planner.load(answer[1:])
    plans.count(None, batch, _SOURCE, _count_keys(hashed, planner))
    return unpack_value(Quotas, plans.quotas(batch, _SOURCE))


def _find_first_key(quotas: Quotas, routing: Routing) -> int:
    """The first quota of a key: those before it are of buckets."""
    return int(np.searchsorted(quotas.keys, np.uint64(BUCKETS * routing.workers)))


def _assign_buckets(hashed: DataFrame, quotas: Quotas, routing: Routing) -> DataFrame:
    """Add the column ``WORKER``: the worker of each row's bucket, or of its key's part of the bucket."""
    home = F.floor(F.col(_BUCKET) / BUCKETS).cast("int")
    return _join_quotas(hashed, quotas, range(_find_first_key(quotas, routing)), _BUCKET, F.xxhash64(_KEY), home)


def _choose_workers(hashed: DataFrame, quotas: Quotas, routing: Routing) -> DataFrame:
    """Add the column ``WORKER``, and remove those of ``_hash_keys``."""
    # A separate column: in an expression Spark would count only the rows for which it is evaluated.
    shared = _assign_buckets(hashed.withColumn(_ROW, F.monotonically_increasing_id()), quotas, routing)
    alone = range(_find_first_key(quotas, routing), len(quotas.keys))
    return _join_quotas(shared, quotas, alone, _KEY, F.xxhash64(_ROW), F.col(WORKER)).drop(_KEY, _BUCKET, _ROW, _COST)


def _count_keys(hashed: DataFrame, planner: PlannedBySpark) -> SourceCounts:
    """Count as a router does: hot or remembered keys alone, the others by bucket."""
    tracked = _choose_tracked(planner)
    if tracked is not None and has_function(hashed.sparkSession, "approx_top_k"):
        counted, keys, estimates = _count_frequent_keys(hashed, planner, tracked)
        counts = _separate_hot_keys(counted, keys, estimates, tracked, planner)
        if counts is not None:
            return counts
    return _count_all_keys(hashed, planner)


def _choose_tracked(planner: PlannedBySpark) -> int | None:
    """How many keys a sketch of frequent keys tracks; None if it would be too large, or loads aren't counts."""
    most = _TRACKED * planner.workers
    if planner.uses_cost or most > _MOST_TRACKED * planner.threshold:
        return None
    # The capacity of its table: three quarters of a power of two.
    return 3 << max(0, math.ceil(math.log2(most / planner.threshold / 3)))


def _mark_remembered(df: DataFrame, planner: PlannedBySpark) -> DataFrame:
    """Add the column ``remembered``, which is null for keys without a remembered replica."""
    remembered = planner.list_remembered()
    if not len(remembered):
        return df.withColumn("remembered", F.lit(None).cast("boolean"))
    table = pa.table({_KEY: remembered, "remembered": np.ones(len(remembered), np.bool_)})
    return df.join(F.broadcast(df.sparkSession.createDataFrame(table)), _KEY, "left")


def _count_frequent_keys(
    hashed: DataFrame, planner: PlannedBySpark, tracked: int
) -> tuple[SourceCounts, NDArray[np.uint64], NDArray[np.float64]]:
    """Count remembered keys and buckets exactly, and frequent keys approximately, in one pass.

    Both use sketches of a task's rows, so that no keys are shuffled. One that tracks all items is exact. A frequent
    key's estimate may be too high (see ``_separate_hot_keys``), but never too low.
    """
    items = BUCKETS * planner.workers + len(planner.list_remembered())
    marked = _mark_remembered(hashed.select(_KEY, _BUCKET), planner)
    item = F.when(F.col("remembered"), F.col(_KEY)).otherwise(F.col(_BUCKET))
    found = (
        marked.select(item.alias("item"), F.col(_KEY).alias("key"))
        .agg(
            F.expr(f"approx_top_k(item, {items}, {items})").alias("item"),
            F.expr(f"approx_top_k(key, {tracked}, {tracked})").alias("key"),
        )
        .toArrow()
    )
    (keys, loads), (frequent, estimates) = (_read_top(found.column(name)) for name in ("item", "key"))
    order = np.argsort(keys)
    return SourceCounts(int(loads.sum()), keys[order], loads[order]), frequent, estimates


def _read_top(top: pa.ChunkedArray) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """The items and counts of ``approx_top_k``."""
    entries = pa.concat_arrays([chunk.flatten() for chunk in top.chunks])
    item, count = (entries.field(name).to_numpy(zero_copy_only=False) for name in ("item", "count"))
    return item.astype(np.int64).view(np.uint64), count.astype(np.float64)


def _separate_hot_keys(
    counted: SourceCounts,
    keys: NDArray[np.uint64],
    estimates: NDArray[np.float64],
    tracked: int,
    planner: PlannedBySpark,
) -> SourceCounts | None:
    """Separate hot keys from their buckets. A bucket and its hot keys have the bucket's load together.

    The ``keys`` (uint64[n]) are the frequent ones: all whose estimated count (float64[n]) is above twice the greatest
    error of the sketch, which tracked as many keys as ``tracked``. An estimate may be too high by the error. The result
    is None if keys that leave a worker may be overestimated by more than ``_ERROR`` of the mean load, so that too much
    would remain at the worker.

    The sketch is that of Anderson et al., *A High-Performance Algorithm for Identifying Frequent Items in Data
    Streams*, IMC 2017. Its error is at most the others' load / (tracked/3 − hot keys) with near certainty (theorem 4).
    It lists only keys whose estimate is above twice the error.
    """
    workers, total = planner.workers, counted.tuples
    least = (estimates.min(initial=np.inf) - 1) / 2
    hot = (estimates >= planner.threshold * total / workers) & (keys >= BUCKETS * workers)
    hot &= ~np.isin(keys, counted.keys)
    keys, estimates = keys[hot], estimates[hot]
    buckets = planner.find_buckets(keys)
    at = np.searchsorted(counted.keys, buckets)
    claimed = np.bincount(at, estimates, len(counted.keys))
    estimates = np.floor(estimates * np.minimum(1, counted.loads / np.maximum(claimed, 1))[at])
    others = counted.loads - np.bincount(at, estimates, len(counted.keys))
    error = min(least, (total - estimates.sum()) / (tracked / 3 - len(keys)))
    leave = np.bincount(bucket_homes(buckets), minlength=workers)
    if (leave[planner.find_overfull(counted)] * error).max(initial=0) > _ERROR * total / workers:
        return None
    keys, loads = np.concatenate([counted.keys, keys]), np.concatenate([others, estimates])
    order = np.argsort(keys)
    return SourceCounts(total, keys[order], loads[order])


def _count_all_keys(hashed: DataFrame, planner: PlannedBySpark) -> SourceCounts:
    """Count each key, with a shuffle of all keys."""
    load = F.sum(_COST) if planner.uses_cost else F.count("*")
    counted = hashed.groupBy(_KEY, _BUCKET).agg(load.alias("load"), F.count("*").alias("tuples"))
    # With both sums this is the same aggregate as the keys', which Spark would otherwise compute again.
    total = counted.agg(F.sum("load").alias("total"), F.sum("tuples").alias("rows"))
    least = F.when(F.col("rows") > 0, F.col("total") * (planner.threshold / planner.workers))
    alone = (F.col("load") > 0) & (F.col("load") >= least)
    counted = _mark_remembered(counted.crossJoin(F.broadcast(total)), planner)
    # A hash equal to a bucket's number belongs to that bucket.
    of_bucket = ~(alone | F.col("remembered").isNotNull()) | (F.col(_KEY) == F.col(_BUCKET))
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
    """Add the column ``WORKER``: what the rows draw from these quotas, or ``otherwise`` without one."""
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
    """The table with which a random number in [0, n) draws one of n workers in proportion to its amount.

    Its integer part is a slot i, which draws ``own[i]`` if the fraction is below ``share[i]``, and ``other[i]`` if not.
    This is the alias method: Walker, *An Efficient Method for Generating Discrete Random Variables with General
    Distributions*, ACM TOMS, 1977.

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
