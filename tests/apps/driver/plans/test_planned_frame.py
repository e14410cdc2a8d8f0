"""PLANNED over DataFrames that aren't streams: Spark SQL counts and routes, and the driver plans."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.waiting import PATIENCE
from unskew import balance, balanced_map
from unskew.apps.driver.plans import planned_frame
from unskew.apps.driver.plans.planned_frame import PlannedBySpark, route_frame
from unskew.apps.router.router import Routing
from unskew.errors import UsageError
from unskew.grouping.planned.counts import BUCKETS, SourceCounts
from unskew.grouping.planned.quotas import Quotas
from unskew.spark.compat import get_plan, has_function

WORKERS = 20
ROWS = 200_000


def most(rows: int) -> float:
    """A worker's cap, and what is drawn beyond it by chance: 5 standard deviations."""
    return 1.05 * rows / WORKERS + 5 * np.sqrt(rows / WORKERS)


def skewed(spark: SparkSession) -> DataFrame:
    """Four fifths of the rows are alike. The others have 2,000 keys, or none: one row of a hundred."""
    number = F.xxhash64("id") % 2_000
    user = F.when(F.col("id") % 5 != 0, "hot").when(F.col("id") % 100 != 0, F.concat(F.lit("u"), number))
    return spark.range(ROWS, numPartitions=4).select(user.alias("user"))


def test_a_drawer_draws_what_the_plan_says():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 50, 1_000):
        workers = rng.permutation(n).astype(np.int32)
        amounts = rng.pareto(1.2, n) + (rng.random(n) < 0.8)
        share, own, other = planned_frame._make_alias_table(workers, amounts)
        drawn = np.bincount(own, share, n) + np.bincount(other, 1 - np.array(share), n)
        expected = np.bincount(workers, amounts * n / amounts.sum(), n)
        assert np.abs(drawn - expected).max() < 1e-9 * n
    assert planned_frame._make_alias_table(np.array([3], np.int32), np.array([0.0])) == ([1.0], [3], [3]), (
        "a key without load"
    )


def test_buckets_are_those_of_spark():
    """Spark's ``pmod`` of a signed hash; and a bucket is its own."""
    hashes = np.array([-1, -(2**63), 2**63 - 1, 0, 1279, 1280], np.int64)
    buckets = PlannedBySpark(WORKERS)._buckets(hashes.view(np.uint64))
    assert buckets.tolist() == [int(each) % 1280 for each in hashes]


class FrequentItems:
    """The sketch behind ``approx_top_k``: when its table is full, its median is subtracted from all counts."""

    def __init__(self, most: int) -> None:
        self.most, self.error, self.counts = most, 0, Counter()

    def add(self, items: Iterable[int], number: int = 1) -> None:
        for item in items:
            self.counts[item] += number
            if len(self.counts) > self.most:
                median = int(np.median(list(self.counts.values())))
                self.error += median
                self.counts = Counter({item: count - median for item, count in self.counts.items() if count > median})

    def merge(self, other: "FrequentItems") -> None:
        for item, count in other.counts.items():
            self.add([item], count)
        self.error += other.error

    def list_top(self) -> tuple[list[int], list[int]]:
        """The items that surely have more than the error, and their estimates."""
        found = {item: count + self.error for item, count in self.counts.items() if count > self.error}
        return list(found), list(found.values())


def divide(quotas: Quotas, counts: dict[int, int], planner: PlannedBySpark) -> NDArray[np.float64]:
    """What each worker gets of keys with these counts, where rows and keys are drawn just as often as planned."""
    loads = np.zeros(planner.workers)
    own = {int(key): quotas.get_parts(quota) for quota, key in enumerate(quotas.keys)}
    for key, count in counts.items():
        bucket = key % (BUCKETS * planner.workers)
        workers, amounts = own.get(key) or own.get(bucket) or (np.array([bucket // BUCKETS]), np.ones(1))
        np.add.at(loads, workers, count * amounts / amounts.sum() if amounts.sum() else count / len(workers))
    return loads


def count_rows(rows: NDArray[np.int64]) -> dict[int, int]:
    return dict(zip(*(each.tolist() for each in np.unique(rows, return_counts=True)), strict=True))


def count_frequent_keys(
    rows: NDArray[np.int64], tasks: int, planner: PlannedBySpark
) -> tuple[SourceCounts | None, int]:
    """What a plan is made of, and the error of the sketch: ``_count_frequent_keys`` without Spark."""
    tracked = planned_frame._choose_tracked(planner)
    assert tracked is not None
    sketch = FrequentItems(tracked)
    for part in np.array_split(rows, tasks):
        of_task = FrequentItems(tracked)
        of_task.add(part.tolist())
        sketch.merge(of_task)
    buckets, loads = np.unique(rows % (BUCKETS * planner.workers), return_counts=True)
    keys, estimates = sketch.list_top()
    counted = SourceCounts(len(rows), buckets.astype(np.uint64), loads.astype(np.float64))
    found = planned_frame._separate_hot_keys(
        counted, np.array(keys, np.uint64), np.array(estimates, np.float64), tracked, planner
    )
    return found, sketch.error


@pytest.mark.ci
@given(
    seed=st.integers(0, 2**32 - 1),
    exponent=st.floats(0, 2),
    hot=st.floats(0, 0.9),
    tasks=st.integers(1, 3),
    order=st.sampled_from(["drawn", "sorted", "hot last"]),
)
def test_estimated_keys_are_planned_as_well_as_counted_ones(seed, exponent, hot, tasks, order):
    """The plan keeps its bound, up to what estimates may cost, however the rows are ordered."""
    rng = np.random.default_rng(seed)
    number, workers, threshold = 20_000, 4, 0.2
    hashes = rng.integers(2**12, 2**63, 8_000)
    share = (1 + np.arange(len(hashes))) ** -exponent
    rows = rng.choice(hashes, number, p=share / share.sum())
    rows[rng.random(number) < hot] = hashes[0]
    if order != "drawn":
        rows = np.sort(rows)
    if order == "hot last":
        rows = rows[np.argsort(rows == hashes[0], kind="stable")]
    planner = PlannedBySpark(workers, threshold=threshold)
    found, error = count_frequent_keys(rows, tasks, planner)
    counts = count_rows(rows)
    event("every key is counted" if found is None else "estimated" if error else "exact")
    if found is None:
        return
    assert found.loads.sum() == number
    assert (found.loads >= 0).all()
    assert {key for key, count in counts.items() if count >= threshold * number / workers} <= {*found.keys.tolist()}
    quotas = planner.divide([found])[0]
    cap = 1.05 * number / workers + 1
    assert divide(quotas, counts, planner).max() <= cap + planned_frame._ERROR * number / workers


def test_keys_are_counted_where_estimates_would_cost_too_much(monkeypatch):
    """After 20,000 keys of one row each, ten hot keys of one home are estimated too high, and most of them leave."""
    planner = PlannedBySpark(4, threshold=0.1)
    hot = BUCKETS * 4 * np.arange(10**6, 10**6 + 10) + np.arange(10)
    rows = np.concatenate([2**40 + 7 * np.arange(20_000), np.repeat(hot, 1_000)])
    assert count_frequent_keys(rows, 1, planner)[0] is None
    monkeypatch.setattr(planned_frame, "_ERROR", np.inf)
    found, _ = count_frequent_keys(rows, 1, planner)
    assert found is not None
    assert divide(planner.divide([found])[0], count_rows(rows), planner).max() > 1.06 * len(rows) / 4


def test_what_a_sketch_tracks():
    """Three quarters of a power of two; nothing if it would be too large, or for costs."""
    tracked = [planned_frame._choose_tracked(PlannedBySpark(workers)) for workers in (1, 16, 196, 197)]
    assert tracked == [3_072, 49_152, 393_216, None]
    for options in ({"threshold": 0.0}, {"balance": "cost"}):
        assert planned_frame._choose_tracked(PlannedBySpark(4, **options)) is None


@pytest.mark.parametrize("there", ["none", "another"])
def test_a_checkpoint_that_is_not_the_querys(tmp_path, there):
    """In ``foreachBatch``. It would get this query's plans, and give it another's."""
    if there != "none":
        (tmp_path / "metadata").write_text(f'{{"id":"{there}"}}')
    of_job = {"streaming.sql.batchId": "3", "sql.streaming.queryId": "own"}
    batch = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=of_job.get)))
    with pytest.raises(UsageError, match=rf"is not that of the query \(the query there: {there}, this one: own\)"):
        route_frame(cast("Any", batch), cast("Any", None), Routing("PLANNED", WORKERS, str(tmp_path)), "worker")
    assert not (tmp_path / "unskew").exists()


@pytest.mark.parametrize("shuffled", [False, pytest.param(True, marks=pytest.mark.ci)])
def test_a_frame_is_balanced_without_python(spark, shuffled):
    rows = skewed(spark)
    if shuffled:
        rows = rows.repartition(3)
    placed = balance(rows, "user", WORKERS, "PLANNED")
    assert "Python" not in get_plan(placed)
    assert "Arrow" not in get_plan(placed)
    assert placed.columns == ["user", "worker"]
    found = placed.withColumn("at", F.spark_partition_id()).groupBy("user", "worker", "at").count().collect()
    assert all(row.worker == row["at"] for row in found)
    expected = {row.user: row["count"] for row in rows.groupBy("user").count().collect()}
    counts, loads, split = Counter(), np.zeros(WORKERS), Counter()
    for row in found:
        counts[row.user] += row["count"]
        loads[row.worker] += row["count"]
        split[row.user] += 1
    assert counts == expected
    assert None in counts
    assert loads.max() <= most(ROWS)
    assert [key for key, number in split.items() if number > 1] == ["hot"]


@pytest.mark.ci
@pytest.mark.parametrize(("workers", "keys"), [(WORKERS, 2_000), (1, 50_000)])
def test_sketches_count_as_a_shuffle_of_all_keys_does(spark, workers, keys):
    """Exactly if there are no more keys than a sketch tracks; hot keys up to its error if there are more.

    In the second round replicas are remembered.
    """
    number = F.pmod(F.xxhash64("id"), F.lit(keys))
    rows = spark.range(ROWS, numPartitions=4).select(F.when(F.col("id") % 5 != 0, -1).otherwise(number).alias("user"))
    planner = PlannedBySpark(workers)
    tracked = planned_frame._choose_tracked(planner)
    hashed = planned_frame._hash_keys(rows, F.col("user"), Routing("PLANNED", workers))
    for _ in range(2):
        exact, found = planned_frame._count_all_keys(hashed, planner), planned_frame._count_keys(hashed, planner)
        assert found.tuples == exact.tuples == ROWS
        assert found.keys.tolist() == exact.keys.tolist()
        error = 0 if tracked > keys or not has_function(spark, "approx_top_k") else 3 * ROWS / tracked
        assert np.abs(found.loads - exact.loads).max() <= error
        planner.begin()
        planner.divide([exact])
    assert bool(len(planner.list_remembered())) == (workers > 1)


@pytest.mark.ci
def test_work_over_a_frame(spark):
    """The work runs once a worker; null is a key of its own."""
    rows = skewed(spark)

    def count(batches):
        number = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"number": [number]})

    found = [row.number for row in balanced_map(rows, "user", WORKERS, count, "number long", "PLANNED").collect()]
    assert len(found) == WORKERS
    assert sum(found) == ROWS
    assert max(found) <= most(ROWS)


def test_any_type_of_key_and_an_empty_frame(spark):
    rows = skewed(spark)
    assert balance(rows.limit(0), "user", WORKERS, "PLANNED").collect() == []
    numbers = balance(spark.range(1_000), "id", WORKERS, "PLANNED", threshold=0.0)
    assert sorted(row.id for row in numbers.collect()) == list(range(1_000))
    assert max(Counter(row.worker for row in numbers.collect()).values()) <= 53


@pytest.mark.ci
@pytest.mark.parametrize("remembers", [True, False])
def test_batches_of_a_stream(spark, tmp_path, remembers):
    """In ``foreachBatch``, with a checkpoint, keys keep their replicas, and a batch that runs again its plan."""
    rng = np.random.default_rng(0)
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    keys = [f"u{key}" for key in rng.zipf(1.4, 60_000)]
    for i in range(6):
        (folder / f"{i}.txt").write_text("\n".join(keys[10_000 * i : 10_000 * (i + 1)]))
    batches: dict[int, list[dict[tuple[str, int], int]]] = defaultdict(list)

    def drain() -> None:
        def place(batch: DataFrame, number: int) -> None:
            given = {"checkpoint": str(checkpoint)} if remembers else {}
            placed = balance(batch.withColumnRenamed("value", "user"), "user", WORKERS, "PLANNED", **given)
            found = {(row.user, row.worker): row["count"] for row in placed.groupBy("user", "worker").count().collect()}
            batches[number].append(found)
            if number == 3 and len(batches[3]) == 1:
                raise RuntimeError("a batch that fails")

        rows = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
        query = rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        started = query.foreachBatch(place).start()
        try:
            started.awaitTermination(PATIENCE)
        finally:
            started.stop()

    with pytest.raises(Exception, match="a batch that fails"):
        drain()
    drain()
    assert sorted(batches) == list(range(6))
    assert len(batches[3]) == 2
    assert batches[3][0] == batches[3][1]
    assert sum(sum(found[-1].values()) for found in batches.values()) == 60_000
    workers: dict[str, set[int]] = defaultdict(set)
    for found in batches.values():
        loads = np.bincount([worker for _, worker in found[-1]], list(found[-1].values()), WORKERS)
        assert loads.max() <= most(10_000)
        for user, worker in found[-1]:
            workers[user].add(worker)
    assert np.mean([len(each) for each in workers.values()]) <= (1.05 if remembers else 1.5)
    waves = Path(checkpoint) / "unskew" / "waves"
    assert waves.exists() == remembers
