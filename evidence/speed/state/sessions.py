"""Sessions of a Zipf stream, beside Spark's own session windows and `transformWithState`.

    python -m evidence.speed.state --part sessions [--tuples N] [--keys N] [--theirs N] [--batches N]

All get the same files, one a batch: 10 s of event time, tuples of Zipf keys (z = 1); a session ends with a gap of 5 s.
W is 10, the state's partitions 4. The table has the median of the batches after the first two: tuples/s of wall time,
and CPU (driver, JVM, Python workers) a tuple. `transformWithState` gets fewer tuples: it takes a millisecond a key.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from evidence.speed.measuring import open_spark, run_files
from evidence.tables import make_table, print_table
from unskew import keyed_map
from unskew.operators import Sessions

WORKERS, PARTITIONS, WARM = 10, 4, 2
GAP, SPAN, LATENESS = 5, 10, 1  # s
START = 1_700_000_000_000
DDL = "key string, at timestamp"
SESSION = "start long, last long, count long"
GROUPINGS = ("KEY", "D_CHOICES", "BOUNDED_LOAD", "PLANNED")


class RowSessions(StatefulProcessor):
    """Sessions for ``transformWithState``: one open session a key, closed by a later tuple or by its timer."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._open = handle.getValueState("open", SESSION)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        before = self._open.get()
        start, last, count = before or (0, 0, 0)
        for ms in sorted(round(1000 * row["at"].timestamp()) for row in rows):
            if count and ms - last > 1000 * GAP:
                yield Row(start=start, last=last, count=count)
                count = 0
            start, last, count = (start if count else ms), ms, count + 1
        if before and before[1] != last:
            self._handle.deleteTimer(before[1] + 1000 * GAP)
        self._open.update((start, last, count))
        self._handle.registerTimer(last + 1000 * GAP)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        start, last, count = self._open.get()
        self._open.clear()
        yield Row(start=start, last=last, count=count)

    def close(self) -> None:
        pass


def _ours(grouping: str) -> Callable[[DataFrame, str], DataFrame]:
    every = None if grouping == "KEY" else "2 batches"
    return lambda df, path: keyed_map(
        df, "key", WORKERS, Sessions(gap=GAP), grouping, path, time="at", lateness=LATENESS, merge_every=every
    )


def _native(df: DataFrame, _: str) -> DataFrame:
    return (
        df.withWatermark("at", f"{LATENESS} seconds").groupBy(F.session_window("at", f"{GAP} seconds"), "key").count()
    )


def _rows(df: DataFrame, _: str) -> DataFrame:
    watermarked = df.withWatermark("at", f"{LATENESS} seconds").groupBy("key")
    return watermarked.transformWithState(RowSessions(), SESSION, "Append", "EventTime")


CONTESTANTS: dict[str, Callable[[DataFrame, str], DataFrame]] = {
    **{f"unskew, {name}": _ours(name) for name in GROUPINGS},
    "session_window": _native,
    "transformWithState": _rows,
}


def files(tuples: int, keys: int, batches: int) -> Iterator[list[pa.Table]]:
    """The batches: ``key``, ``at``."""
    rng = np.random.default_rng(0)
    cumulated = np.cumsum(1 / np.arange(1, keys + 1))
    for number in range(batches):
        ranks = np.searchsorted(cumulated, rng.random(tuples) * cumulated[-1])
        at = np.sort(rng.integers(0, 1000 * SPAN, tuples)) + START + number * 1000 * SPAN
        yield [pa.table({"key": pa.array(ranks).cast(pa.string()), "at": pa.array(at, pa.timestamp("ms", "UTC"))})]


def measured(spark: SparkSession, name: str, tuples: int, keys: int, batches: int) -> tuple[float, float, float]:
    """Tuples/s, CPU µs a tuple, and a batch's wall time (s): the median of the batches after the first two."""
    taken, _ = run_files(spark, [DDL], CONTESTANTS[name], files(tuples, keys, batches))
    cpu, wall = map(statistics.median, zip(*taken[WARM:], strict=True))
    return tuples / wall, 1e6 * cpu / tuples, wall


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=500_000, help="Of a batch.")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--theirs", type=int, default=5_000, help="Of a batch for transformWithState.")
    parser.add_argument("--batches", type=int, default=8)
    arguments = parser.parse_args(given)
    table = make_table("", "tuples a batch", "tuples/s", "CPU µs a tuple", "a batch, s")
    with open_spark("local[2]", PARTITIONS, GROUPINGS) as spark:
        for name in CONTESTANTS:
            tuples = arguments.theirs if name == "transformWithState" else arguments.tuples
            rate, cost, batch = measured(spark, name, tuples, arguments.keys, arguments.batches)
            row = [f"{tuples:,}", f"{rate:,.0f}", f"{cost:,.2f}", f"{batch:.1f}"]
            print(name, *row, flush=True)
            table.add_row(name, *row)
    print_table(table)
