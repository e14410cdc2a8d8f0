"""`keyed_map` in somebody else's job: files in, Parquet out; the states are Spark's."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from tests.apps.keyed import driver
from tests.apps.keyed.driver import Tally
from unskew import keyed_map

pytestmark = pytest.mark.spark

ROWS, FILES, START = 400, 5, 1_700_000_000_000
cloudpickle.register_pickle_by_value(driver)  # the tasks can't import the tests


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, list[tuple[str, int, int]]]:
    """A stream of five batches, and its rows (user, value, ms): 3 s each, hot user 0; the last one is far ahead."""
    folder = tmp_path / "events"
    folder.mkdir()
    rng = np.random.default_rng(0)
    everything = []
    for number in range(FILES):
        n = ROWS if number < FILES - 1 else 1
        users = [f"u{0 if hot else who}" for hot, who in zip(rng.random(n) < 0.6, rng.integers(1, 40, n), strict=True)]
        values = rng.integers(-9, 9, n).tolist()
        ms = np.sort(START + 3000 * number + rng.integers(0, 3000, n)).tolist()
        ms = ms if number < FILES - 1 else [START + 3_600_000]
        everything += zip(users, values, ms, strict=True)
        times = pa.array(ms, pa.timestamp("ms", "UTC"))
        pq.write_table(pa.table({"user": users, "value": values, "at": times}), folder / f"{number}.parquet")
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder)), everything


def collect(df: DataFrame, tmp_path: Path) -> list[dict]:
    """Run the stream to its end; its rows."""
    out = str(tmp_path / "out")
    writer = df.writeStream.format("parquet").option("path", out).option("checkpointLocation", str(tmp_path / "cp"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return df.sparkSession.read.parquet(out).collect()


@pytest.mark.parametrize(
    ("grouping", "more"),
    [("KEY", {}), ("D_CHOICES", {}), pytest.param("SHUFFLE", {"merge_every": "2 batches"}, marks=pytest.mark.slow)],
)
def test_windows_by_event_time(events, tmp_path, grouping, more):
    stream, rows = events
    told = keyed_map(
        stream, "user", 3, Tally(), grouping, str(tmp_path / "cp"), window=2.0, time="at", lateness=0.0, **more
    )
    assert told.columns == ["user", "window", "kind", "n", "total"]
    truth = defaultdict(list)
    for user, value, ms in rows[:-1]:
        truth[ms // 2000 * 2000, user].append(value)
    found = {
        (round(row["window"].timestamp() * 1000), row["user"]): (row["n"], row["total"])
        for row in collect(told, tmp_path)
        if row["kind"] == "finished"
    }
    assert found == {place: (len(values), sum(values)) for place, values in truth.items()}


@pytest.mark.parametrize("grouping", ["KEY", "PARTIAL_KEY"])
def test_states_outlive_batches_and_restarts(events, tmp_path, grouping):
    stream, rows = events
    later = [(tmp_path / "events" / f"{number}.parquet", tmp_path / f"{number}.later") for number in (3, 4)]
    for file, place in later:
        file.rename(place)
    for _ in range(2):
        split = {"merge_every": "1 batches"} if grouping != "KEY" else {}
        told = keyed_map(stream, "user", 3, Tally(), grouping, str(tmp_path / "cp"), ttl=3600.0, **split)
        found = collect(told, tmp_path)
        for file, place in later:
            if place.exists():
                place.rename(file)
    truth = defaultdict(list)
    for user, value, _ in rows:
        truth[user].append(value)
    most: dict[str, tuple[int, int]] = {}
    for row in found:
        most[row["user"]] = max(most.get(row["user"], (0, 0)), (row["n"], row["total"]))
    assert most == {user: (len(values), sum(values)) for user, values in truth.items()}
