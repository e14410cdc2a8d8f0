"""A query that runs already gets `balance`, with other workers and groupings from start to start."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.harness.streams import drain_to_files, read_in_order, write_in_order
from unskew import balance, balanced_map

pytestmark = [pytest.mark.spark, pytest.mark.ci]

ROWS, FILES_A_START, WINDOW_MS = 400, 2, 10_000
#: What each start puts before the aggregation: workers, grouping; None: nothing.
STARTS = (None, (4, "BOUNDED_LOAD"), (6, "PLANNED"), (3, "BOUNDED_LOAD"), None)


def test_its_counts_go_on_exactly(spark, tmp_path: Path):
    folder, checkpoint, out = tmp_path / "in", str(tmp_path / "cp"), str(tmp_path / "out")
    folder.mkdir()
    counted: Counter[tuple[int, str]] = Counter()

    def publish(number: int) -> None:
        users = ["u0" if row % 5 else f"u{row % 40}" for row in range(ROWS)]
        times = [1_700_000_000_000 + 3_000 * number + row for row in range(ROWS)]
        counted.update((time // WINDOW_MS, user) for time, user in zip(times, users, strict=True))
        at = pa.array([1_000 * time for time in times], pa.timestamp("us", "UTC"))
        write_in_order(folder, number, pa.table({"user": users, "at": at}))

    def place(events: DataFrame, workers: int, grouping: str) -> DataFrame:
        if grouping == "PLANNED":
            return balanced_map(events, "user", workers, iter, events.schema, grouping, checkpoint)
        return balance(events, "user", workers, grouping, checkpoint).drop("worker")

    for start, given in enumerate(STARTS):
        for number in range(FILES_A_START):
            publish(start * FILES_A_START + number)
        rows = read_in_order(spark, folder)
        rows = rows if given is None else place(rows, *given)
        windows = F.window("at", f"{WINDOW_MS} milliseconds")
        counts = rows.withWatermark("at", "1 second").groupBy(windows, "user").count()
        drain_to_files(counts.select(F.unix_millis("window.start").alias("start"), "user", "count"), out, checkpoint)
    found = [((row.start // WINDOW_MS, row.user), row["count"]) for row in spark.read.parquet(out).collect()]
    closed = max(window for (window, _), _ in found)
    assert sorted(found) == sorted((place, n) for place, n in counted.items() if place[0] <= closed)
    assert len({window for (window, _), _ in found}) > 1
