"""What the schemes are for: work that costs time and has a state per key, with each grouping, and as it is done today.

    python -m evidence.speed.state --part schemes [--tuples N] [--batches N] [--streams R80,ZIPF] [--only NAME,...]

A tuple costs its worker a millisecond, which it sleeps: W = 10 workers wait side by side on any machine. The ideal
batch is all work spread evenly; the first `--warm` batches aren't counted (there schemes and the JVM learn). The
fragments of a split key meet every second batch; *states a key* is before they do. *max/mean* is of the tuples that a
worker gets, and doesn't depend on the machine; *batch / ideal* does, since it has each batch's fixed cost.

MIXED has a key at one worker at a time, as more partitions do: neither can balance R80, whose hottest key is eight
workers' work; of ZIPF it is one worker's. What MIXED learns of a batch is used two batches later, when the keys' states
have moved.

Beside the groupings are ways that people use today: Spark's own `transformWithState`, keyed, spread thinner, or salted.
The states of a salted key would have to be merged; here they aren't, and the time for it is left out.
"""

import argparse
import os
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from evidence.speed.measuring import WORKERS, Bench, on_slots, open_bench, open_spark
from evidence.speed.native import FIELDS, cut
from evidence.tables import make_table, print_table
from unskew.apps.cli.demo import NARROWED, SHORTENED
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.settings import Settings
from unskew.apps.splitter.kafka_source import read_topic
from unskew.grouping import get_parameters, measures
from unskew.grouping.registry import SINGLE_OWNER
from unskew.operators import Statistics
from unskew.spark.setting_names import PARTITIONS

GROUPINGS = (
    *("KEY", "MIXED"),
    *("PARTIAL_KEY", "D_CHOICES", "W_CHOICES", "DYNAMIC_KEY", "BOUNDED_LOAD", "PLANNED", "SHUFFLE"),
)
#: Name → the dataset, and its options.
STREAMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "R80": ("COUNTRY_SKEW_R80", {}),
    "ZIPF": ("ZIPF", {"z": 1.0, "keys": 10_000}),
}
_STATE = struct.Struct("<4d")


@dataclass(frozen=True)
class Rival:
    """A way to spread keys with `transformWithState`: so many tasks a worker, and so many salts a key."""

    tasks: int = 1
    salts: int = 1


#: The ways that are measured, by name.
RIVALS = {
    "repartition by key": Rival(),
    "10 × as many partitions": Rival(tasks=10),
    "key salted by 2": Rival(salts=2),
    "key salted by W": Rival(salts=WORKERS),
}


class RunningRow(StatefulProcessor):
    """Count, sum, least and largest of a key's values, each of which costs its time."""

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


def straggling(spark: SparkSession, run: Settings, rival: Rival) -> float:
    """Max/mean of the tuples of W slots, which take the tasks as they become free."""
    messages = spark.read.format("kafka").options(**run.connection.spark()).option("subscribe", run.topic).load()
    task = F.pmod(F.hash("key", "salt"), F.lit(run.workers * rival.tasks)).alias("task")
    counts = _tuples(messages, run, rival).groupBy(task).count().orderBy("task").collect()
    return measures.straggler_ratio(on_slots((row["count"] for row in counts), run.workers))


@dataclass
class Figures:
    """A contestant's figures: (tuples, s) of each batch; the others are 0 or empty where they aren't known."""

    batches: list[tuple[int, float]] = field(default_factory=list)
    states: int = 0
    size: int = 0
    loads: list[float] = field(default_factory=list)
    merging: float = 0.0

    def row(self, warm: int, states_of_key: int) -> list[str]:
        """The table's row, of the batches after the first ``warm``; ``states_of_key`` are KEY's states."""
        counted = self.batches[warm:]
        tuples, seconds = (sum(each) for each in zip(*counted, strict=True))
        ideal = tuples / 1000 / WORKERS
        loads = self.loads[warm:]
        balance = f"{sum(loads) / len(loads):.2f}" if loads else ""
        states, size = f"{self.states / states_of_key:.2f}", f"{self.size / 1024:,.0f}"
        merging = f"{1000 * self.merging:.0f}" if self.merging else ""
        return [f"{tuples / seconds:,.0f}", f"{seconds / ideal:.2f}", balance, states, size, merging]


def ours(spark: SparkSession, run: Settings) -> Figures:
    """Run a topology with one of the groupings."""
    figures, loaded = Figures(), set()

    def batch(report: BatchReport) -> None:
        states = report.states
        assert states is not None
        figures.states = max(figures.states, int(states.states.sum()))
        figures.size = max(figures.size, int(states.size.sum()))
        if states.merged:
            figures.merging = max(figures.merging, states.merging)
        if report.loads.any():
            loaded.add(report.batch.number)
            figures.loads.append(measures.straggler_ratio(report.loads))

    def note(progress: Mapping[str, Any]) -> None:
        if progress["batchId"] in loaded:
            figures.batches.append((run.batch_limit, progress["durationMs"]["triggerExecution"] / 1000))

    assert StreamingJob(run, [batch], [note]).run(spark).drained
    return figures


def theirs(spark: SparkSession, run: Settings, rival: Rival) -> Figures:
    """Run a rival over the same topic."""
    before = str(spark.conf.get(PARTITIONS))
    spark.conf.set(PARTITIONS, str(run.workers * rival.tasks))
    try:
        with tempfile.TemporaryDirectory() as folder:
            location = str(Path(folder) / "checkpoint")
            rows = _tuples(read_topic(spark, run), run, rival).groupBy("key", "salt")
            counted = rows.transformWithState(RunningRow(run.cost.mean), "nothing long", "Append", "None")
            query = counted.writeStream.format("noop").option("checkpointLocation", location).start()
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
        spark.conf.set(PARTITIONS, before)
    return Figures(batches, row["n"], row["size"], [straggling(spark, run, rival)] * len(batches))


def settings(bench: Bench, kind: str, topic: str, name: str, tuples: int) -> Settings:
    """A topology with a grouping, over a topic with messages of a dataset, in batches of so many tuples."""
    narrowed = NARROWED if name == "BOUNDED_LOAD" else {}  # other groupings' ``window`` is something else
    options = {k: v for k, v in {**SHORTENED, **narrowed}.items() if k in get_parameters(name)}
    stream = {"source_type": kind, "topic": topic, "speed": "x1", "trigger": 0.0, "max_tuples": tuples}
    merging = {"ttl": 86_400.0, "merge_every": None if name in SINGLE_OWNER else "2 batches"}
    work = Statistics("offset", when="end")
    return bench.settings(name, f"{topic}-{name}", options=options, work=work, **stream, **merging)


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=40_000, help="Of a batch; a multiple of the sources.")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="Batches at the beginning that aren't counted.")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--only", default="", help="Contestants, by their names.")
    arguments = parser.parse_args(given)
    valid = [*GROUPINGS, *RIVALS]
    chosen = arguments.only.split(",") if arguments.only else valid
    if unknown := [name for name in chosen if name not in valid]:
        parser.error(f"--only has {unknown[0]!r}; valid: {', '.join(valid)}")
    groupings = [name for name in chosen if name in GROUPINGS]
    with open_spark(f"local[{WORKERS}]", WORKERS, groupings) as spark, open_bench() as bench:
        for stream in arguments.streams.split(","):
            kind, options = STREAMS[stream]
            topic = f"bench-{stream.lower()}"
            bench.publish(topic, kind, records=arguments.tuples * arguments.batches, **options)
            print(f"{kind}: batches of {arguments.tuples:,} tuples of 1 ms, W = {WORKERS}, {os.cpu_count()} cores")
            table = make_table("", "tuples/s", "batch / ideal", "max/mean", "states a key", "state, KiB", "merge, ms")
            keys = 0
            for name in chosen:
                grouping = name if name in GROUPINGS else "KEY"
                run = settings(bench, kind, topic, grouping, arguments.tuples)
                figures = ours(spark, run) if name in GROUPINGS else theirs(spark, run, RIVALS[name])
                keys = keys or figures.states
                row = figures.row(arguments.warm, keys)
                print(name, *row, flush=True)
                table.add_row(name, *row)
            print_table(table)
