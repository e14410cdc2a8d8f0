"""`balance` and `balanced_map` in somebody else's job: files in, Parquet out, nothing of our topology."""

import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.balance import balance, balanced_map

pytestmark = pytest.mark.spark

ROWS = 600
FILES = 5
KEY_TYPES = {"string": str, "int": int, "binary": lambda n: b"%d" % n}


@pytest.fixture
def events(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of five batches: hot user 0, a nested payload that the router must leave alone."""
    key_type = getattr(request, "param", "string")
    folder = tmp_path / "events"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(FILES):
        users = [
            KEY_TYPES[key_type](0 if hot else int(n))
            for hot, n in zip(rng.random(ROWS) < 0.6, rng.integers(1, 99, ROWS), strict=True)
        ]
        rows = {"user_id": users, "payload": [{"n": number * ROWS + i} for i in range(ROWS)]}
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table(rows), file)
        os.utime(file, (number, number))  # the order in which Spark reads them
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def collect(df: DataFrame, tmp_path: Path) -> list[dict]:
    """Run the stream to its end; its rows."""
    out = str(tmp_path / "out")
    writer = df.writeStream.format("parquet").option("path", out).option("checkpointLocation", str(tmp_path / "cp"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return df.sparkSession.read.parquet(out).collect()


CASES = [("KEY", "string"), ("KEY", "int"), ("PARTIAL_KEY", "binary"), ("SHUFFLE", "string"), ("DYNAMIC_KEY", "int")]


@pytest.mark.parametrize(("grouping", "events"), CASES, indirect=["events"])
def test_rows_are_placed_where_the_grouping_says(events, tmp_path, grouping):
    placed = balance(events, key="user_id", workers=6, grouping=grouping, checkpoint=str(tmp_path / "cp"))
    rows = collect(placed.withColumn("partition", F.spark_partition_id()), tmp_path)
    assert sorted(row["payload"]["n"] for row in rows) == list(range(ROWS * FILES))
    assert all(row["partition"] == row["worker"] for row in rows)
    workers = defaultdict(set)
    for row in rows:
        workers[row["user_id"] if not isinstance(row["user_id"], bytearray) else bytes(row["user_id"])].add(
            row["worker"]
        )
    most = {"KEY": 1, "PARTIAL_KEY": 2, "SHUFFLE": 6, "DYNAMIC_KEY": 2}[grouping]
    assert max(len(w) for w in workers.values()) == most


def test_learned_state_outlives_a_batch_and_a_restart(events, tmp_path):
    later = [(tmp_path / "events" / f"{number}.parquet", tmp_path / f"{number}.later") for number in (3, 4)]
    for file, place in later:
        file.rename(place)
    for batches in (3, 5):
        placed = balance(events, key="user_id", workers=7, grouping="SHUFFLE", checkpoint=str(tmp_path / "cp"))
        rows = collect(placed.select("worker"), tmp_path)
        loads = np.bincount([row["worker"] for row in rows], minlength=7)
        assert loads.sum() == ROWS * batches
        # One source, batches of 600 over 7 workers: round robin that forgot its turn would be as many apart.
        assert loads.max() - loads.min() <= 1
        for file, place in later:
            if place.exists():
                place.rename(file)


def test_work_over_packets(events, tmp_path):
    def work(batches):
        seen = 0
        for batch in batches:
            seen += batch.num_rows
        if seen:
            yield pa.record_batch([pa.array([seen])], ["n"])

    counted = balanced_map(events, "user_id", 4, work, "n long", "PARTIAL_KEY", str(tmp_path / "cp"))
    rows = collect(counted, tmp_path)
    assert sum(row["n"] for row in rows) == ROWS * FILES
    assert FILES <= len(rows) <= 4 * FILES  # once a worker and batch


def test_a_batch_job_needs_no_checkpoint(spark):
    df = spark.range(1000).withColumn("key", F.col("id") % 10)
    placed = balance(df, key="key", workers=3, grouping="KEY").withColumn("partition", F.spark_partition_id())
    assert placed.where("partition != worker").count() == 0
    assert placed.groupBy("key").agg(F.count_distinct("worker").alias("n")).where("n > 1").count() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grouping": "PARTIAL"}, "unknown grouping 'PARTIAL'; valid: SHUFFLE"),
        ({"workers": 0}, "workers is 0"),
        ({"grouping": "PARTIAL_KEY", "choices": 1}, "choices is 1"),
        ({"d": 3}, "has no parameter 'd'"),
    ],
)
def test_bad_arguments_fail_on_the_driver(spark, change, message):
    with pytest.raises(ValueError, match=message):
        balance(spark.range(1), **({"key": "id", "workers": 2} | change))
