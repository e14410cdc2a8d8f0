"""PLANNED over a DataFrame that isn't a stream, without Python at the executors.

Spark SQL counts the rows, the driver makes the plan, and Spark SQL routes by it. What the plan moves or splits is in
small tables, which are joined by broadcast. All else goes to its home, by Spark's own hash of the key.

Hot keys and buckets are counted by sketches, where Spark has ``approx_top_k`` (4.1 and later), so that keys aren't
shuffled to be counted. A hot key's count is then an estimate. By that a worker gets at most 1 % of the mean load more,
or else each key is counted. Costs are summed by key.

A key that the plan splits is divided by chance: each of its rows draws one of the key's workers, as often as the plan
says. So a worker has some √n rows more or fewer than planned, of n rows that are drawn. A bucket that the plan splits
is divided by the hashes of its keys, and each of these stays whole.
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

#: A name for the column of the workers, where users don't see it.
WORKER = "__unskew_worker"
_KEY, _BUCKET, _ROW, _COST = "__unskew_key", "__unskew_bucket", "__unskew_row", "__unskew_cost"
_OWN = "__unskew_own"
_SOURCE = 0  # of the whole DataFrame
_SEED = 0  # of what is divided afresh
_BITS = 53  # of a number that a row draws, as many as a double has
#: A sketch tracks so many times as many keys as can be hot: at least 7 times, to find them all.
_TRACKED = 20
_MOST_TRACKED = 3 << 17  # of which a task's sketch takes some 20 MB
#: How much of the mean load a worker may get because hot keys were estimated.
_ERROR = 0.01


class PlannedBySpark(Planned):
    """PLANNED with Spark's hashes: a key's bucket is its hash modulo the number of buckets."""

    def _buckets(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return (keys.view(np.int64) % (BUCKETS * self.workers)).view(np.uint64)

    def find_buckets(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The bucket of each key; a bucket's is itself."""
        return self._buckets(keys)

    def find_overfull(self, counts: SourceCounts) -> NDArray[np.bool_]:
        """Which workers would be beyond their caps if each key were at its home, bool[W]."""
        loads = np.bincount(bucket_homes(self._buckets(counts.keys)), counts.loads, self.workers)
        return loads > self._caps(float(counts.tuples))

    def list_remembered(self) -> NDArray[np.int64]:
        """The hashes of the keys of which replicas are remembered, each once."""
        keys = np.unique(self._replicas.key)
        return keys[keys >= BUCKETS * self.workers].view(np.int64)

    def _identity(self) -> str:
        return f"{super()._identity()} hash=xxhash64"


class KeyLoads(NamedTuple):
    """The k keys of a DataFrame.

    Attributes
    ----------
    keys : uint64[k]
        Their hashes, ascending.
    loads : float64[k]
        The sum of each key's costs.
    tuples : int64[k]
        Each key's rows.

    """

    keys: NDArray[np.uint64]
    loads: NDArray[np.float64]
    tuples: NDArray[np.int64]


class KeyDivision(NamedTuple):
    """How the loads of k keys are divided between W workers, in p parts.

    Attributes
    ----------
    key : int64[p]
        The number of the key of each part. A key has at least one part.
    worker : int32[p]
        The worker of each part.
    amounts : float64[p]
        The load of each part. It is 0 only if the key's load is.
    workers : int
        W.

    """

    key: NDArray[np.int64]
    worker: NDArray[np.int32]
    amounts: NDArray[np.float64]
    workers: int

    def count_divided(self) -> int:
        """How many keys have several parts."""
        return int((np.bincount(self.key) > 1).sum())

    def find_fullest(self) -> float:
        """The load of the fullest worker, over the mean. 1 if there is no load."""
        loads = np.bincount(self.worker, self.amounts, self.workers)
        return float(loads.max() / loads.mean()) if loads.any() else 1.0


def count_loads(df: DataFrame, key: Column, cost: Column) -> KeyLoads:
    """Count a DataFrame by every key, by a job of Spark's. ``key`` and ``cost`` are as for ``route_frame``."""
    hashed = df.select(F.xxhash64(F.lit(_SEED), key).alias(_KEY), cost.alias(_COST))
    found = hashed.groupBy(_KEY).agg(F.sum(_COST).alias("load"), F.count("*").alias("tuples")).toArrow()
    keys, loads, tuples = (found.column(name).to_numpy() for name in (_KEY, "load", "tuples"))
    keys = keys.astype(np.int64).view(np.uint64)
    order = np.argsort(keys)
    return KeyLoads(keys[order], loads[order].astype(np.float64), tuples[order].astype(np.int64))


def divide_keys(counted: KeyLoads, workers: int, slack: float) -> tuple[Quotas, KeyDivision]:
    """Divide keys between W workers afresh: k keys have at most k + W − 1 parts."""
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
    """Add the column ``WORKER``, as ``divide_keys`` says. No plan is kept, and none of an earlier batch followed.

    Parameters
    ----------
    df, key
        As for ``route_frame``.
    counted : KeyLoads
        What ``count_loads`` has counted of these.
    workers : int
        W ≥ 1.
    slack : float
        PLANNED's.

    """
    quotas, division = divide_keys(counted, workers, slack)
    routing = Routing("PLANNED", workers, seed=_SEED)
    return _choose_workers(_hash_keys(df, key, routing), quotas, routing), division


def route_frame(df: DataFrame, key: Column, routing: Routing, name: str, cost: Column | None = None) -> DataFrame:
    """Add an int column with each row's worker. The DataFrame is counted at once, by a job of Spark's.

    Parameters
    ----------
    df : DataFrame
        It isn't a stream. Its tasks give their rows in the same order in each attempt (``stabilise_order``).
    key : Column
        The key, of any type that Spark hashes. Null is a separate key.
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
    # A separate column: within an expression Spark would count only the rows for which that is evaluated.
    shared = _assign_buckets(hashed.withColumn(_ROW, F.monotonically_increasing_id()), quotas, routing)
    alone = range(_find_first_key(quotas, routing), len(quotas.keys))
    return _join_quotas(shared, quotas, alone, _KEY, F.xxhash64(_ROW), F.col(WORKER)).drop(_KEY, _BUCKET, _ROW, _COST)


def _count_keys(hashed: DataFrame, planner: PlannedBySpark) -> SourceCounts:
    """What a router counts: keys alone if they are hot or remembered, the others by their buckets."""
    tracked = _choose_tracked(planner)
    if tracked is not None and has_function(hashed.sparkSession, "approx_top_k"):
        counted, keys, estimates = _count_frequent_keys(hashed, planner, tracked)
        counts = _separate_hot_keys(counted, keys, estimates, tracked, planner)
        if counts is not None:
            return counts
    return _count_all_keys(hashed, planner)


def _choose_tracked(planner: PlannedBySpark) -> int | None:
    """How many keys a sketch of the frequent ones tracks. None: it would be too large, or loads aren't counts."""
    most = _TRACKED * planner.workers
    if planner.uses_cost or most > _MOST_TRACKED * planner.threshold:
        return None
    # As many as its table has room for: three quarters of a power of two.
    return 3 << max(0, math.ceil(math.log2(most / planner.threshold / 3)))


def _mark_remembered(df: DataFrame, planner: PlannedBySpark) -> DataFrame:
    """The DataFrame with the column ``remembered``, which is null for keys of which no replica is remembered."""
    remembered = planner.list_remembered()
    if not len(remembered):
        return df.withColumn("remembered", F.lit(None).cast("boolean"))
    table = pa.table({_KEY: remembered, "remembered": np.ones(len(remembered), np.bool_)})
    return df.join(F.broadcast(df.sparkSession.createDataFrame(table)), _KEY, "left")


def _count_frequent_keys(
    hashed: DataFrame, planner: PlannedBySpark, tracked: int
) -> tuple[SourceCounts, NDArray[np.uint64], NDArray[np.float64]]:
    """Count the remembered keys and the buckets exactly, and the frequent keys nearly so, in one pass.

    Both are sketches of a task's rows, so that no keys are shuffled. One that tracks as many items as there are is
    exact. A frequent key's estimate may be too high, as ``_separate_hot_keys`` says, and is never too low.
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
    """The items and counts that ``approx_top_k`` has found."""
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
    """Take the hot ones of the frequent keys out of their buckets.

    Parameters
    ----------
    counted : SourceCounts
        The exact counts of the buckets, and of the remembered keys.
    keys : uint64[n]
        The frequent keys: all whose count is above twice the greatest error of the sketch.
    estimates : float64[n]
        Their counts, which may be too high by the error.
    tracked : int
        How many keys the sketch has tracked.
    planner : PlannedBySpark
        Whose counts they are.

    Returns
    -------
    SourceCounts or None
        A bucket and its hot keys have together what is in the bucket. None: keys that leave a worker may have less
        than it seems by more than ``_ERROR`` of the mean load, so that the worker would be left with too much.

    Notes
    -----
    The sketch is that of Anderson et al., *A High-Performance Algorithm for Identifying Frequent Items in Data
    Streams*, IMC 2017. Its error is at most the others' load / (tracked/3 − hot keys) with near certainty (theorem 4).
    And it lists no key whose estimate isn't above twice the error.

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
    """Count each key, by a shuffle of all keys."""
    load = F.sum(_COST) if planner.uses_cost else F.count("*")
    counted = hashed.groupBy(_KEY, _BUCKET).agg(load.alias("load"), F.count("*").alias("tuples"))
    # With both sums this is the same aggregate as that of the keys. Otherwise Spark would make it anew for the total.
    total = counted.agg(F.sum("load").alias("total"), F.sum("tuples").alias("rows"))
    least = F.when(F.col("rows") > 0, F.col("total") * (planner.threshold / planner.workers))
    alone = (F.col("load") > 0) & (F.col("load") >= least)
    counted = _mark_remembered(counted.crossJoin(F.broadcast(total)), planner)
    # A hash that is a bucket's number belongs to that bucket.
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
