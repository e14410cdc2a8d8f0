"""What it costs to keep a state per key: CPU a touched key, beside Spark's own ways to do it.

    python -m evidence.speed.state --part keys [--keys N ...] [--touched SHARE ...] [--theirs N] [--batches N]

Each contestant adds up a number per key, over the same stream, in the same state store (RocksDB, changelog), one Spark
on two cores, 4 state partitions, after some batches that warm the JVM. A first batch has all keys; the others touch a
share of them. The table has the median of these: CPU (driver, JVM and Python workers) and wall time a touched key, and
a batch's wall time. Spark's own ways are tried with fewer keys: with as many they would take hours.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from evidence.speed.measuring import open_spark, run_files
from evidence.tables import make_table, print_table
from unskew import keyed_map
from unskew.operators import KeyedOperator, Now

PARTITIONS = 4
SUM = "sum long"
_WARM = (1_000, 1.0, 30)  # keys, share, batches; before that the JVM's compiler is half of what a batch costs


class Sum(KeyedOperator):
    """The sum of a key's values, published when the key's state ends."""

    columns = ("value",)
    state = results = pa.schema([("sum", pa.int64())])

    def update(self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now) -> tuple[None, pa.RecordBatch]:
        total = states.column(0).fill_null(0).to_numpy(zero_copy_only=False).copy()
        np.add.at(total, tuples.column("slot").to_numpy(), tuples.column("value").to_numpy())
        return None, pa.RecordBatch.from_arrays([pa.array(total)], schema=self.state)


class RowSum(StatefulProcessor):
    """The same sum for ``transformWithState``, a group a key."""

    def init(self, handle: Any) -> None:
        self._sum = handle.getValueState("sum", SUM)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        before = self._sum.get()
        self._sum.update(((before[0] if before else 0) + sum(row["value"] for row in rows),))
        return iter([])

    def close(self) -> None:
        pass


class PandasSum(RowSum):
    """The same sum for ``transformWithStateInPandas``."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        before = self._sum.get()
        self._sum.update(((before[0] if before else 0) + sum(int(frame["value"].sum()) for frame in rows),))
        return iter([])


def grouped_sum(_: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    """The same sum for ``applyInPandasWithState``."""
    before = state.get[0] if state.exists else 0
    state.update((before + sum(int(frame["value"].sum()) for frame in frames),))
    return iter([])


CONTESTANTS: dict[str, Callable[[DataFrame, str], DataFrame]] = {
    "unskew, KEY": lambda df, path: keyed_map(df, "key", PARTITIONS, Sum(), "KEY", path, ttl=1e6),
    "transformWithState": lambda df, _: df.groupBy("key").transformWithState(RowSum(), SUM, "Append", "None"),
    "transformWithStateInPandas": lambda df, _: df.groupBy("key").transformWithStateInPandas(
        PandasSum(), SUM, "Append", "None"
    ),
    "applyInPandasWithState": lambda df, _: df.groupBy("key").applyInPandasWithState(
        grouped_sum, SUM, SUM, "append", GroupStateTimeout.NoTimeout
    ),
}


def batches(keys: int, share: float, count: int) -> Iterator[list[pa.Table]]:
    """The batches: ``key``, ``value``. The first one has all keys, the others a share of them."""
    rng = np.random.default_rng(0)
    touched = [np.arange(keys), *(rng.choice(keys, round(keys * share), replace=False) for _ in range(count - 1))]
    for ids in touched:
        yield [pa.table({"key": [f"key {i}" for i in ids], "value": np.ones(len(ids), np.int64)})]


def measured(spark: SparkSession, name: str, keys: int, share: float, count: int) -> tuple[float, float, float]:
    """CPU and wall time a touched key (µs), and a batch's wall time (s): the median of ``count`` batches.

    The first two batches aren't counted: that with all keys, and the one after it.
    """
    taken, _ = run_files(spark, ["key string, value long"], CONTESTANTS[name], batches(keys, share, count + 2))
    cpu, wall = map(statistics.median, zip(*taken[2:], strict=True))
    touched = round(keys * share)
    return 1e6 * cpu / touched, 1e6 * wall / touched, wall


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--touched", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--theirs", type=int, default=2_000, help="Most keys that Spark's own ways are tried with.")
    parser.add_argument("--batches", type=int, default=5)
    arguments = parser.parse_args(given)
    table = make_table("", "keys", "touched", "CPU µs a touched key", "wall µs", "a batch, s")
    with open_spark("local[2]", PARTITIONS, ["KEY"]) as spark:
        for name in CONTESTANTS:
            measured(spark, name, *_WARM)
            for keys in arguments.keys:
                for share in arguments.touched:
                    if name != next(iter(CONTESTANTS)) and keys * share > arguments.theirs:
                        continue
                    figures = measured(spark, name, keys, share, arguments.batches)
                    row = [f"{keys:,}", f"{round(keys * share):,}", *(f"{figure:,.1f}" for figure in figures)]
                    print(name, *row, flush=True)
                    table.add_row(name, *row)
    print_table(table)
