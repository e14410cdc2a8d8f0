"""Several streams in one ``keyed_map``: each has a watermark of its own, and the least counts."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from tests.apps.stateful.in_time import in_time
from tests.harness.streams import drain_to_files, draw_users, read_in_order, write_in_order
from unskew import UsageError, keyed_map, watch
from unskew.operators import IntervalJoin

START, FILES, ROWS, LAG = 1_700_000_000_000, 6, 300, 8_000
JOIN = {"within": "2 s", "after": "1 s", "left": "ad string", "right": "price double", "side": "click", "how": "full"}


def write_side(folder: Path, numbers: range, *, click: bool, seed: int) -> None:
    """A file a batch, of 3 s: of ads, or of clicks that come ``LAG`` ms later than the ads of their times."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        rng = np.random.default_rng([seed, number, int(click)])
        users = draw_users(rng, ROWS, 0.4, 30)
        ms = START + 3000 * number + rng.integers(0, 3000, ROWS) - (LAG if click else 0)
        own = {"price": rng.random(ROWS)} if click else {"ad": [f"ad {each}" for each in rng.integers(0, 9, ROWS)]}
        ids = {"id": rng.permutation(ROWS) + ROWS * number, "click": np.full(ROWS, click)}
        at = pa.array(ms, pa.timestamp("ms", "UTC"))
        write_in_order(folder, number, pa.table({"user": users, "at": at, **ids, **own}))


def test_a_stream_that_lags_behind_loses_nothing(spark, tmp_path, seed):
    folders, checkpoint, out = [tmp_path / "ads", tmp_path / "clicks"], str(tmp_path / "cp"), str(tmp_path / "out")

    def drain(_: int) -> list:
        streams = [read_in_order(spark, folder) for folder in folders]
        given = {"theta_max": 0.0, "window": 1, "time": "at", "lateness": "3 s", "ttl": "3 s", "observe": "own"}
        found = keyed_map(streams, "user", 4, IntervalJoin(**JOIN), "MIXED", checkpoint, **given)
        return watch(drain_to_files(found, out, checkpoint), name="own").rows()

    batches = []
    for numbers in (range(3), range(3, FILES)):
        for folder, click in zip(folders, (False, True), strict=True):
            write_side(folder, numbers, click=click, seed=seed)
        batches += in_time(drain)
    found = Counter(spark.read.parquet(out).collect())
    static = [spark.read.parquet(str(folder)) for folder in folders]
    truth = keyed_map(static, "user", 4, IntervalJoin(**JOIN), "KEY", time="at")
    wanted = Counter(truth.collect())
    both = [row for row in wanted if row.left_id is not None and row.right_id is not None]
    # What is alone at the end isn't published yet, as its partner might come.
    end = START + 3000 * (FILES - 1) - LAG - 3000
    early = Counter({row: n for row, n in wanted.items() if max(row.left_time or 0, row.right_time or 0) < end - 3000})
    assert both
    assert early
    assert not early - found
    assert not found - wanted
    assert sum(batch.moved for batch in batches), "keys have moved with their tuples"


def test_streams_that_do_not_fit_are_refused(spark):
    rows = spark.range(3).select(F.col("id").cast("string").alias("user"))
    stream = spark.readStream.format("rate").load().select(F.col("value").alias("user"))
    work = IntervalJoin(id="n")
    for given, says in (
        ([], "df has no DataFrame"),
        ([rows, stream], "some of the DataFrames are streams"),
        ([rows, "x"], "df is a str"),
        (
            [rows.withColumn("n", F.lit(1)), spark.range(3).select(F.col("id").alias("user"))],
            "key is string in the first",
        ),
    ):
        with pytest.raises(UsageError, match=says):
            keyed_map(given, "user", 2, work, "KEY")
