"""Partitioned tables of few files, by even writers, beside a plain write of the same rows."""

import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.waiting import PATIENCE
from unskew import UsageError, balanced_write, watch
from unskew.apps.driver.plans.planned_frame import KeyLoads, divide_keys
from unskew.apps.library.balanced_write import _limit_files, estimate_bytes
from unskew.apps.library.table_writers import BATCH, BatchIdentity, TableTarget

ROWS = 20_000
PARTITIONS = 30


def make_rows(spark: SparkSession, exponent: float) -> DataFrame:
    """Rows of at most ``PARTITIONS`` days by Zipf's law. The later a day, the longer its texts."""
    share = np.cumsum((1.0 + np.arange(PARTITIONS)) ** -exponent)
    bounds = F.array(*map(F.lit, (share / share[-1])[:-1].tolist()))
    drawn = F.pmod(F.xxhash64("id"), F.lit(1_000_003)) / 1_000_003
    day = F.size(F.filter(bounds, lambda bound: bound <= drawn))
    rows = spark.range(ROWS, numPartitions=3).select("id", day.alias("number"))
    return rows.selectExpr("id", "repeat('x', number) AS text", "format_string('d%02d', number) AS day")


def list_files(folder: Path, kind: str = "parquet") -> list[Path]:
    return sorted(folder.rglob(f"part-*.{kind}"))


def sum_by_writer(table: DataFrame, cost: str = "1") -> list[float]:
    """The cost of each writer that has rows: Spark names a file by its task."""
    task = F.regexp_extract(F.input_file_name(), r"part-(\d+)-", 1)
    return [row.cost for row in table.groupBy(task).agg(F.sum(F.expr(cost)).alias("cost")).collect()]


def read(spark: SparkSession, folder: Path, like: DataFrame) -> DataFrame:
    return spark.read.parquet(str(folder)).select(*like.columns)


@given(
    loads=st.lists(st.one_of(st.floats(0.01, 100), st.just(1e4), st.just(0.0)), max_size=60),
    workers=st.integers(1, 40),
    seed=st.integers(0, 99),
)
def test_partitions_are_divided_into_few_parts_of_even_writers(loads, workers, seed):
    """K partitions have at most K + W − 1 parts, which add up, and no writer has more than 1.05 times the mean."""
    keys = np.sort(np.random.default_rng(seed).choice(2**62, len(loads), replace=False).astype(np.uint64))
    counted = KeyLoads(keys, np.array(loads, np.float64), np.ones(len(loads), np.int64))
    _, division = divide_keys(counted, workers, 0.05)
    assert len(division.key) <= len(loads) + workers - 1
    assert {*division.key.tolist()} == {*range(len(loads))}
    assert np.bincount(division.key, division.amounts, len(loads)) == pytest.approx(loads)
    assert division.find_fullest() <= 1.05 + 1e-6
    assert division.count_divided() <= workers - 1
    assert _limit_files(division, counted, None) == (None, len(division.key))


def test_a_target_limits_the_rows_of_a_file():
    """Of the rows that are largest, among the partitions that are above it."""
    counted = KeyLoads(np.array([1000, 2000], np.uint64), np.array([900.0, 100.0]), np.array([90, 1]))
    _, division = divide_keys(counted, 1, 0.05)
    assert _limit_files(division, counted, 1_000) == (None, 2)
    assert _limit_files(division, counted, 300) == (30, 4)
    assert _limit_files(division, counted, 50) == (1, 91)


@pytest.mark.parametrize("exponent", [0.0, 1.2, 3.0])
@pytest.mark.parametrize("workers", [4, 16])
def test_few_files_and_even_writers(spark, tmp_path, exponent, workers):
    rows = make_rows(spark, exponent)
    report = balanced_write(rows, str(tmp_path / "table"), "day", workers, cost=1)
    partitions = rows.select("day").distinct().count()
    assert report.partitions == partitions
    assert len(list_files(tmp_path)) <= report.files <= partitions + workers - 1
    assert report.divided <= workers - 1
    assert report.fullest <= 1.0501
    assert (report.writers, report.rows, report.cost) == (workers, ROWS, ROWS)
    table = read(spark, tmp_path / "table", rows)
    assert Counter(table.collect()) == Counter(rows.collect())
    mean = ROWS / workers
    assert max(sum_by_writer(spark.read.parquet(str(tmp_path / "table")))) <= 1.05 * mean + 5 * np.sqrt(mean)
    assert repr(report).startswith(f"WriteReport(files={report.files}, partitions={partitions}, ")


@pytest.mark.ci
def test_bytes_are_even_and_rows_sorted(spark, tmp_path):
    """A file's rows have the order asked for, though the partition column is a string that may be null."""
    rows = make_rows(spark, 0.0).withColumn("day", F.when(F.col("id") % 7 != 0, F.col("day")))
    rows = rows.withColumn("day", F.when(F.col("id") % 11 != 0, F.col("day")).otherwise(""))
    balanced_write(rows, str(tmp_path / "table"), "day", 5, sort_by=F.desc("id"), compression="gzip")
    table = spark.read.parquet(str(tmp_path / "table"))
    cost = "12 + length(text)"
    loads = sum_by_writer(table, cost)
    assert max(loads) <= 1.05 * sum(loads) / 5 + 5 * (12 + PARTITIONS) * np.sqrt(ROWS / 5)
    for file in list_files(tmp_path):
        ids = pq.read_table(file, partitioning=None)["id"].to_numpy()
        assert (np.diff(ids) < 0).all(), file
        assert file.name.endswith(".gz.parquet")
    plain = tmp_path / "plain"
    rows.write.partitionBy("day").parquet(str(plain))
    assert Counter(table.collect()) == Counter(read(spark, plain, table).collect())
    assert table.where("day IS null").count() == rows.where("day IS null OR day = ''").count()


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_other_formats_and_expressions(spark, tmp_path, kind):
    rows = make_rows(spark, 1.2).withColumn("time", F.timestamp_seconds(F.col("id") * 20))
    by = [F.to_date("time").alias("date"), "day"]
    report = balanced_write(rows, str(tmp_path / "table"), by, 3, kind)
    table = spark.read.schema(rows.schema).format(kind).load(str(tmp_path / "table"))
    assert Counter(table.select("id", "text", "day").na.fill("").collect()) == Counter(rows.drop("time").collect())
    files = list_files(tmp_path, kind)
    assert len(files) <= report.files <= report.partitions + 2
    assert {re.sub("=.*", "", each) for file in files for each in file.relative_to(tmp_path / "table").parts[:-1]} == {
        "date",
        "day",
    }


@pytest.mark.ci
def test_the_sizes_of_files(spark, tmp_path):
    rows = make_rows(spark, 1.2)
    report = balanced_write(rows, str(tmp_path / "small"), "day", 16, cost=1, min_file_size=ROWS)
    assert (report.writers, report.files, report.divided) == (1, report.partitions, 0)
    assert len(list_files(tmp_path / "small")) == report.files
    report = balanced_write(rows, str(tmp_path / "large"), "day", 2, cost=1, target_file_size=500)
    files = list_files(tmp_path / "large")
    assert max(pq.read_metadata(file).num_rows for file in files) == 500
    assert len(files) == pytest.approx(report.files, abs=2)
    assert balanced_write(rows.limit(0), str(tmp_path / "empty"), "day", 2).files == 0


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_a_batch_that_runs_again_is_written_once(spark, tmp_path, mode):
    """Also if its first attempt had written a partition that the second one hasn't."""
    own = spark.newSession()
    own.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    folder, table = tmp_path / "in", tmp_path / "table"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.txt").write_text("\n".join(f"{i} {n}" for n in range(1_000)))
    attempts: Counter[int] = Counter()

    def write(batch: DataFrame, number: int) -> None:
        attempts[number] += 1
        rows = batch.withColumn("day", F.when(F.length("value") < 5, "a").otherwise("b"))
        first = number == 1 and attempts[1] == 1
        balanced_write(rows.withColumn("day", F.lit("c")) if first else rows, str(table), "day", 4)
        if first:
            raise RuntimeError("a batch that fails")

    def drain() -> list[tuple[int, int, int]]:
        lines = own.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
        query = lines.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        started = query.foreachBatch(write).start()
        try:
            started.awaitTermination(PATIENCE)
        finally:
            started.stop()
        return [(write.batch, write.workers, write.report.rows) for write in watch(started).writes()]

    with pytest.raises(Exception, match="a batch that fails"):
        drain()
    assert drain() == [(0, 4, 1_000), (1, 4, 1_000), (1, 4, 1_000), (2, 4, 1_000)]
    assert attempts == {0: 1, 1: 2, 2: 1}
    found = spark.read.parquet(str(table))
    assert Counter(row.value for row in found.collect()) == Counter(f"{i} {n}" for i in range(3) for n in range(1_000))
    assert {row.day for row in found.select("day").distinct().collect()} == {"a", "b"}
    batches = sorted(each.name for each in table.iterdir() if each.is_dir())
    assert [re.sub(r"-[0-9a-f]{8}$", "", each) for each in batches] == [f"{BATCH}={i:08d}" for i in range(3)]


@pytest.mark.ci
def test_modes_and_batches_of_ones_own(spark, tmp_path):
    rows, path = make_rows(spark, 1.2), str(tmp_path / "table")
    for _ in range(2):
        balanced_write(rows, path, "day", 2, batch_id=7)
    assert read(spark, tmp_path / "table", rows).count() == ROWS
    assert [each.name for each in tmp_path.glob("table/batch*")] == ["batch_id=7"]
    path = str(tmp_path / "other")
    for number in (1, 2):
        balanced_write(rows, path, "day", 2, mode="append")
        assert read(spark, tmp_path / "other", rows).count() == number * ROWS
    with pytest.raises(Exception, match="already exists"):
        balanced_write(rows, path, "day", 2)
    balanced_write(rows, path, "day", 2, mode="overwrite")
    assert read(spark, tmp_path / "other", rows).count() == ROWS


def test_the_estimate_of_bytes(spark):
    row = spark.sql(
        "SELECT 1 AS a, 'abc' AS b, cast(null AS string) AS c, named_struct('x', 1L, 'y', 'zz') AS d, "
        "array(1, 2) AS e, map('k', 1) AS f, true AS g, cast(1 AS decimal(30, 2)) AS h, X'0102' AS i, "
        "array('p', 'q') AS j"
    )
    estimate = row.select(estimate_bytes({field.name: field.dataType for field in row.schema})).first()
    wanted = 4 + (4 + 3) + 4 + (8 + 4 + 2) + (4 + 8) + (4 + len("{k -> 1}")) + 1 + 16 + (4 + 2) + (4 + len("[p, q]"))
    assert estimate[0] == wanted


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"by": []}, r"by is \[\]; valid: a column's name, a Column, or a list of these"),
        ({"by": "dya"}, "there is no column 'dya'.*day"),
        ({"by": ["day", "DAY"]}, "by has 'day' twice"),
        ({"by": ["day", "id", "text"]}, "by has all columns of df"),
        ({"workers": 0}, "workers is 0"),
        ({"workers": 2**31}, "workers is 2147483648"),
        ({"format": "orc"}, "format is 'orc'; valid: parquet, json, csv, delta, iceberg"),
        ({"mode": "merge"}, "mode is 'merge'; valid: append"),
        ({"mode": "append", "batch_id": 3}, "mode is 'append' and batch_id is 3; valid: one of both"),
        ({"batch_id": "a/b"}, "batch_id is 'a/b'; valid: a number"),
        ({"path": None}, "path is None and table is None; valid: one of both"),
        ({"table": "a.b"}, "path is '.*' and table is 'a.b'; valid: one of both"),
        ({"path": None, "table": "a.b"}, "table is 'a.b' and format is 'parquet'; valid: path"),
        ({"format": "iceberg"}, "path is '.*' and format is 'iceberg'; valid: table"),
        ({"path": None, "table": "a.b", "format": "iceberg"}, "table is 'a.b'; valid: an Iceberg table that exists"),
        ({"format": "iceberg", "path": None, "table": "a.b", "mode": "error"}, "mode is 'error'; valid: append, over"),
        ({"format": "delta"}, "format is 'delta', and this session has no Delta Lake; set spark.jars.packages io"),
        ({"cost": 2}, "cost is 2; valid: a column's name, a Column, or 1"),
        ({"cost": "text"}, "cost is string; valid: a number"),
        ({"sort_by": "idd"}, "there is no column 'idd'"),
        ({"min_file_size": 0}, "min_file_size is 0"),
        ({"slack": -1}, "slack is -1"),
    ],
)
def test_what_does_not_fit_is_refused(spark, tmp_path, given: dict[str, Any], says):
    rows = make_rows(spark, 0.0)
    with pytest.raises(UsageError, match=says):
        balanced_write(rows, **({"path": str(tmp_path / "table"), "by": "day", "workers": 2} | given))
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize(("options", "own"), [({}, ("q", "7")), ({"TXNAPPID": "mine", "txnVersion": 9}, ("mine", 9))])
def test_delta_gets_a_batchs_number_or_the_users(options, own):
    """Never a half of each: another number of the user's application would be skipped as an old one."""
    df = Mock()
    target = TableTarget("delta", "folder", None, None, BatchIdentity("00000007-q", "q", 7))
    target.write(df, ["day"], [], 10, options)
    writer = df.write.format("delta").partitionBy("day")
    writer.mode.assert_called_once_with("append")
    given = {name.lower(): value for name, value in writer.mode().options.call_args.kwargs.items()}
    assert (given["txnappid"], given["txnversion"]) == own
    assert (given["optimizewrite"], given["maxrecordsperfile"]) == ("false", "10")


def test_a_stream_and_a_taken_name_are_refused(spark, tmp_path):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match="df is a stream; valid: a static DataFrame, or a stream's batch"):
        balanced_write(stream, str(tmp_path), "value", 2)
    rows = make_rows(spark, 0.0).withColumn("Batch_ID", F.lit(1))
    with pytest.raises(UsageError, match="by has an expression 'day', as a column of df; valid: its name, or an alias"):
        balanced_write(rows, str(tmp_path), F.lower("day").alias("day"), 2)
    with pytest.raises(UsageError, match="by has 'days', which is array<string>; valid: a number, string, date"):
        balanced_write(rows, str(tmp_path), F.array("day").alias("days"), 2)
    with pytest.raises(UsageError, match="df has a column 'Batch_ID', by which batches are kept apart"):
        balanced_write(rows, str(tmp_path), "day", 2, batch_id=1)
