"""Joins of two streams: all pairs, each once, with hot keys at several workers."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.apps.stateful.in_time import in_time
from tests.harness.streams import drain_to_files, read_in_order, write_in_order
from unskew import UsageError, balanced_join, watch
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.grouping.split_join.plan import JoinTable

START, FILES, ROWS, LAG, WORKERS = 1_700_000_000_000, 8, 4_000, 8_000, 4
SCHEMA = {"left": ["user", "at", "n", "price"], "right": ["user", "at", "n", "ad"]}


def write_side(folder: Path, numbers: range, *, right: bool, seed: int) -> None:
    """A file a batch, of 3 s. Half of the left rows have one key; the right side is a tenth, and 8 s behind."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        rng, rows = np.random.default_rng([seed, number, int(right)]), ROWS // 10 if right else ROWS
        hot = rng.random(rows) < (0.02 if right else 0.5)
        users = [None if who == 77 else f"u{who}" for who in np.where(hot, 0, rng.integers(1, 300, rows)).tolist()]
        us = 1000 * (START + 3000 * number - (LAG if right else 0)) + rng.integers(0, 3_000_000, rows)
        own = {"ad": [f"ad {each}" for each in rng.integers(0, 9, rows)]} if right else {"price": rng.random(rows)}
        ids = rng.permutation(rows) + rows * number
        at = pa.array(us, pa.timestamp("us", "UTC"))
        write_in_order(folder, number, pa.table({"user": users, "at": at, "n": ids, **own}))


def test_all_pairs_come_once_and_a_hot_key_is_spread(spark, tmp_path, seed):
    folders, checkpoint, out = [tmp_path / "l", tmp_path / "r"], str(tmp_path / "cp"), str(tmp_path / "out")

    def drain(_: int) -> list:
        left, right = (read_in_order(spark, folder) for folder in folders)
        found = balanced_join(
            left, right, "user", WORKERS, checkpoint=checkpoint, within="2 s", after="1500400 us", left_time="at",
            right_time="at", lateness="3 s", observe="own", where=count_odd, seed=seed,
        )  # fmt: skip
        return watch(drain_to_files(found, out, checkpoint), name="own").rows()

    batches = []
    for numbers in (range(FILES // 2), range(FILES // 2, FILES)):
        for folder, right in zip(folders, (False, True), strict=True):
            write_side(folder, numbers, right=right, seed=seed)
        batches += in_time(drain)
    left, right = (spark.read.parquet(str(folder)) for folder in folders)
    close = "r.at BETWEEN l.at - INTERVAL 2 SECONDS AND l.at + INTERVAL 1500400 MICROSECONDS"
    wanted = left.alias("l").join(right.alias("r"), F.expr(f"l.user = r.user AND {close} AND (l.n + r.n) % 2 = 1"))
    columns = ["user", "at", "n", "price", "at_right", "n_right", "ad"]
    wanted = wanted.select("l.*", F.col("r.at").alias("at_right"), F.col("r.n").alias("n_right"), "r.ad")
    pairs = spark.read.parquet(out)
    assert pairs.columns == columns
    expected = Counter(wanted.collect())
    assert len(expected) > 1_000
    assert Counter(pairs.collect()) == expected
    table = JoinTable.of(PlanStateLog(checkpoint).newest().active)
    assert np.diff(table.starts).max() == WORKERS or len(table.keys) > 1, "the hot key has got places"
    even = [max(batch.loads) * WORKERS / batch.tuples for batch in batches if batch.tuples]
    assert even[0] > 1.8
    assert np.median(even[2 : FILES // 2]) < 1.25, even
    # Rows that come again much later are late, and have no pairs.
    again = pq.read_table(min(folders[0].glob("*.parquet")))
    write_in_order(folders[0], FILES, again)
    assert drain(2)[-1].late == (len(again) - again["user"].null_count, 0)
    assert spark.read.parquet(out).count() == pairs.count()


def test_an_outer_join_by_several_columns_is_sparks(spark, tmp_path, seed):
    """Rows without a partner come once, whether their key is split, null in part, or the other side's alone."""
    folders, checkpoint, out = [tmp_path / "l", tmp_path / "r"], str(tmp_path / "cp"), str(tmp_path / "out")
    for folder, right in zip(folders, (False, True), strict=True):
        write_side(folder, range(6), right=right, seed=seed)
    shop = F.when(F.col("n") % 7 > 0, F.lit(1).cast("int" if seed % 2 else "short"))

    def add_shop(left: DataFrame, right: DataFrame) -> tuple[DataFrame, DataFrame]:
        return left.withColumn("shop", shop), right.withColumn("shop", shop.cast("long"))

    def drain(_: int) -> None:
        left, right = add_shop(*(read_in_order(spark, folder) for folder in folders))
        found = balanced_join(
            left, right, ["user", "shop"], WORKERS, "full", checkpoint, within="200 ms", left_time="at",
            right_time="at", lateness="3 s", seed=seed,
        )  # fmt: skip
        drain_to_files(found, out, checkpoint)

    in_time(drain)
    left, right = add_shop(*(spark.read.parquet(str(folder)) for folder in folders))
    close = "l.user = r.user AND l.shop = r.shop AND abs(unix_micros(l.at) - unix_micros(r.at)) <= 200000"
    wanted = left.alias("l").join(right.alias("r"), F.expr(close), "full")
    key = [F.coalesce(f"l.{name}", f"r.{name}").alias(name) for name in ("user", "shop")]
    own = [F.col("l.at"), "l.n", "price", F.col("r.at").alias("at_right"), F.col("r.n").alias("n_right"), "ad"]
    expected = Counter(wanted.select(*key, *own).collect())
    pairs = Counter(spark.read.parquet(out).collect())
    assert not pairs - expected
    # What is alone at the end isn't published yet, as its partner might come.
    end = (START + 3000 * 5 - LAG - 3000 - 1200) / 1000
    early = Counter({row: n for row, n in expected.items() if row.at is None or row.at_right is None})
    early = Counter({row: n for row, n in early.items() if (row.at or row.at_right).timestamp() < end})
    assert len(early) > 100
    assert not early - pairs
    both = Counter({row: n for row, n in expected.items() if row.at is not None and row.at_right is not None})
    assert both
    assert not both - pairs


def test_what_does_not_fit_is_refused(spark):
    stream = spark.readStream.format("rate").load()
    good = {"within": "1 s", "left_time": "timestamp", "right_time": "timestamp", "checkpoint": "/nowhere"}
    for given, says in (
        ({"within": None}, "within is missing"),
        ({"right_time": "value"}, "the time of the right side|time is bigint"),
        ({"how": "leftsemi"}, "how is 'leftsemi'; valid for streams: inner, left, right, full"),
        ({"within": "soon"}, "within is 'soon'"),
        ({"cost": "value"}, "cost is given for a join of streams"),
        ({"checkpoint": None}, "checkpoint"),
    ):
        with pytest.raises(UsageError, match=says):
            balanced_join(stream, stream, "value", 2, **(good | given))
    rows = spark.range(3)
    with pytest.raises(UsageError, match="within is given for a join of DataFrames that aren't streams"):
        balanced_join(rows, rows, "id", 2, within="1 s")


def test_a_checkpoint_with_keys_of_another_type_is_refused(spark, tmp_path):
    """1.50 as decimal(9,2) isn't what the states have as 1.500: its rows would find no partner."""
    stream = spark.readStream.format("rate").load()
    for scale, day in ((2, "date"), (3, "date"), (2, "int")):
        own = stream.select("timestamp", F.col("value").cast(f"decimal(9,{scale})").alias("sum"))
        own = own.withColumn("day", F.unix_date(F.to_date("timestamp")) if day == "int" else F.to_date("timestamp"))
        given = {"within": "1 s", "left_time": "timestamp", "right_time": "timestamp", "checkpoint": str(tmp_path)}
        if (scale, day) == (2, "date"):
            balanced_join(own, own, ["sum", "day"], 2, **given)
        else:
            with pytest.raises(UsageError, match=r"decimal\(9,2\)"):
                balanced_join(own, own, ["sum", "day"], 2, **given)


def count_odd(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.Array:
    return pa.array((left.column("n").to_numpy() + right.column("n").to_numpy()) % 2 == 1)
