"""PLANNED over DataFrames that aren't streams: Spark SQL counts and routes, and the driver plans."""

from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.waiting import PATIENCE
from unskew import balance, balanced_map
from unskew.apps.driver.plans import planned_frame
from unskew.apps.driver.plans.planned_frame import PlannedBySpark, route_frame
from unskew.apps.router.router import Routing
from unskew.errors import UsageError
from unskew.spark.compat import get_plan

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


@pytest.mark.spark
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


@pytest.mark.spark
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


@pytest.mark.spark
def test_any_type_of_key_and_an_empty_frame(spark):
    rows = skewed(spark)
    assert balance(rows.limit(0), "user", WORKERS, "PLANNED").collect() == []
    numbers = balance(spark.range(1_000), "id", WORKERS, "PLANNED", threshold=0.0)
    assert sorted(row.id for row in numbers.collect()) == list(range(1_000))
    assert max(Counter(row.worker for row in numbers.collect()).values()) <= 53


@pytest.mark.spark
@pytest.mark.parametrize("remembers", [True, pytest.param(False, marks=pytest.mark.ci)])
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
