"""What people do today with a hot key and a state: Spark's own `transformWithState`, keyed, spread thinner, or salted.

A salted key's states aren't merged here, which they would have to be: that is left out of the rivals' time.
"""

import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.measuring import on_slots
from benchmarks.native import FIELDS, cut
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.source import source
from unskew.grouping import measures

_STATE = struct.Struct("<4d")


@dataclass(frozen=True)
class Rival:
    """A way to spread keys: so many tasks a worker, and so many salts a key."""

    tasks: int = 1
    salts: int = 1


def rivals(workers: int) -> dict[str, Rival]:
    """What is tried, by name."""
    return {
        "repartition by key": Rival(),
        "10 × as many partitions": Rival(tasks=10),
        "key salted by 2": Rival(salts=2),
        "key salted by W": Rival(salts=workers),
    }


class RunningRow(StatefulProcessor):
    """Count, sum, least and largest of a key's values, and a cost of each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("running", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        before = self._state.get()
        count, total, least, most = _STATE.unpack(before[0]) if before else (0.0, 0.0, float("inf"), float("-inf"))
        values = [row["value"] for row in rows]
        time.sleep(len(values) * self._seconds)
        now = count + len(values), total + sum(values), min(least, *values), max(most, *values)
        self._state.update((_STATE.pack(*now),))
        return iter([])

    def close(self) -> None:
        pass


def _tuples(messages: DataFrame, run: Settings, rival: Rival) -> DataFrame:
    salt = F.pmod(F.hash("offset"), F.lit(rival.salts)).alias("salt")
    key = cut(F.col("value"), FIELDS[run.source_type]).alias("key")
    return messages.select(key, salt, F.col("offset").cast("double").alias("value"))


def stream(spark: SparkSession, run: Settings, rival: Rival) -> DataFrame:
    """The rival's query over the run's topic."""
    processor = RunningRow(run.cost.mean)
    rows = _tuples(source(spark, run), run, rival).groupBy("key", "salt")
    return rows.transformWithState(processor, "nothing long", "Append", "None")


def straggling(spark: SparkSession, run: Settings, rival: Rival) -> float:
    """Max/mean of the tuples that W slots get which take the tasks as they become free."""
    messages = spark.read.format("kafka").options(**run.connection.spark()).option("subscribe", run.source_name).load()
    task = F.pmod(F.hash("key", "salt"), F.lit(run.workers * rival.tasks)).alias("task")
    counts = _tuples(messages, run, rival).groupBy(task).count().orderBy("task").collect()
    return measures.straggling(on_slots((row["count"] for row in counts), run.workers))


def raced(spark: SparkSession, run: Settings, rival: Rival) -> tuple[list[tuple[int, float]], int, int]:
    """(tuples, s) of each batch, the states at the end, and their bytes (keys and values)."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(run.workers * rival.tasks))
    try:
        with tempfile.TemporaryDirectory() as folder:
            location = str(Path(folder) / "checkpoint")
            writer = stream(spark, run, rival).writeStream.format("noop").option("checkpointLocation", location)
            query = writer.start()
            query.processAllAvailable()
            query.stop()
            batches = [
                (progress["numInputRows"], progress["durationMs"]["triggerExecution"] / 1000)
                for progress in query.recentProgress
                if progress["numInputRows"]
            ]
            states = spark.read.format("statestore").option("stateVarName", "running").load(location)
            size = F.octet_length("key.key") + F.octet_length("value.blob")
            row = states.agg(F.count("*").alias("n"), F.sum(size).alias("size")).collect()[0]
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
    return batches, row["n"], row["size"]
