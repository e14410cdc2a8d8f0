"""Joins and lookups in which a few keys have most of the rows, beside what people do without us.

    python -m evidence.speed.joins [static] [streams] [lookups] [--rows N] [--batches N] [--repeats N]

`static`: N rows (Zipf 1.2 over a tenth as many keys, and one key with 30 % more) join a table with a row for each key,
in 16 tasks. `balanced_join` beside Spark's sort-merge join, the same with adaptive execution as it comes and tuned by
hand, and with keys salted by hand. Broadcast joins are off. The fullest task is that of the join, by the records that
it reads.

`streams`: two streams, of batches of N / 20 left and N / 100 right rows. In the third batch a key gets hot on the left.
`balanced_join` beside Spark's stream–stream join, with and without salts. Spark's workers are loaded as by a hash.

`lookups`: a stream of batches of N / 20 rows whose key is looked up. `balanced_lookup` with several groupings beside
`balanced_map` with SHUFFLE and a dictionary in each Python process. *asked* is the number of keys that were asked for,
*held* that of rows at workers after the last batch, both ÷ the distinct keys. The lookup itself costs nothing here.
"""

import argparse
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.speed.measuring import in_turns, open_plain_spark, run_files
from evidence.speed.processes import spent
from evidence.speed.stream_joins import compare_streams, read_loads
from evidence.tables import make_table, print_table
from unskew import balanced_join, balanced_lookup, balanced_map, spark_settings
from unskew.apps.driver.python_processes import prepare_python
from unskew.spark.setting_names import CO_PARTITION, PARTITIONS

PARTS = ("static", "streams", "lookups")
TASKS, WORKERS, SALT = 16, 10, 16
_ADAPTIVE = "spark.sql.adaptive"
_TUNED = {
    f"{_ADAPTIVE}.enabled": "true",
    f"{_ADAPTIVE}.skewJoin.skewedPartitionThresholdInBytes": "2m",
    f"{_ADAPTIVE}.skewJoin.skewedPartitionFactor": "1.2",
    f"{_ADAPTIVE}.advisoryPartitionSizeInBytes": "6m",
    f"{_ADAPTIVE}.coalescePartitions.enabled": "false",
}


@dataclass(frozen=True)
class Taken:
    """What a run took: seconds, CPU seconds, and the records that tasks of its join read."""

    seconds: float
    cpu: float
    tasks: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.cpu:.1f} CPU s, fullest {max(self.tasks):,} of {sum(self.tasks):,}"


def write_sides(folder: Path, rows: int) -> None:
    """The two tables, in 16 and 4 files."""
    rng, keys = np.random.default_rng(1), rows // 10
    shares = np.arange(1, keys + 1) ** -1.2
    key = rng.permutation(keys)[rng.choice(keys, rows, p=shares / shares.sum())]
    key[rng.random(rows) < 0.3] = key[0]
    payload = rng.integers(0, 1 << 60, rows)
    for name, of, files in (("left", key, 16), ("right", np.arange(keys), 4)):
        (folder / name).mkdir()
        for number, part in enumerate(np.array_split(np.arange(len(of)), files)):
            texts = [f"{value:050d}" for value in payload[part % rows].tolist()]
            table = pa.table({"key": pa.array(of[part]).cast(pa.string()), f"{name}_id": part, f"{name}_text": texts})
            pq.write_table(table, folder / name / f"{number:02}.parquet")


def salted(left: DataFrame, right: DataFrame) -> DataFrame:
    """Every row salted, as one does who doesn't know the hot keys."""
    salt = F.floor(F.rand(1) * SALT).cast("int")
    copies = right.withColumn("salt", F.explode(F.array(*map(F.lit, range(SALT)))))
    return left.withColumn("salt", salt).join(copies, ["key", "salt"]).drop("salt")


#: Name → settings of the session, and the join.
JOINS: dict[str, tuple[dict[str, str], Callable[[DataFrame, DataFrame], DataFrame]]] = {
    "Spark's own": ({}, lambda left, right: left.join(right, "key")),
    "… adaptive, as it comes": ({f"{_ADAPTIVE}.enabled": "true"}, lambda left, right: left.join(right, "key")),
    "… adaptive, tuned by hand": (_TUNED, lambda left, right: left.join(right, "key")),
    f"… salted by hand, {SALT}": ({}, salted),
    "`balanced_join`": ({CO_PARTITION: "false"}, lambda left, right: balanced_join(left, right, "key", TASKS)),
}


def run_join(spark: SparkSession, folder: Path, name: str) -> Taken:
    """One join, whose result is thrown away."""
    conf, join = JOINS[name]
    own = spark.newSession()
    usual = {f"{_ADAPTIVE}.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1", PARTITIONS: str(TASKS)}
    for setting, value in (usual | conf).items():
        own.conf.set(setting, value)
    sides = (own.read.parquet(str(folder / side)) for side in ("left", "right"))
    group = uuid.uuid4().hex
    cpu, began = spent(), time.monotonic()
    joined = join(*sides)
    spark.sparkContext.setJobGroup(group, name)
    joined.write.format("noop").mode("overwrite").save()
    return Taken(time.monotonic() - began, spent() - cpu, tuple(read_records(spark, group)))


def read_records(spark: SparkSession, group: str) -> Iterator[int]:
    """The records that each task of a group's last stage has read from shuffles."""
    tracker: Any = spark.sparkContext.statusTracker()
    stages = [stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds]
    store: Any = spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001
    found = store.taskList(max(stages), store.lastStageAttempt(max(stages)).attemptId(), 100_000)
    for number in range(found.size()):
        yield found.apply(number).taskMetrics().get().shuffleReadMetrics().recordsRead()


def compare_joins(spark: SparkSession, rows: int, repeats: int) -> None:
    """The table of joins."""
    with tempfile.TemporaryDirectory() as folder:
        write_sides(Path(folder), rows)
        run_join(spark, Path(folder), "`balanced_join`")  # compiles
        measured = in_turns(
            {name: lambda _, name=name: run_join(spark, Path(folder), name) for name in JOINS}, repeats, str
        )
    table = make_table("", "join tasks", "fullest ÷ mean of one copy each", "rows copied", "seconds", "CPU seconds")
    everything = rows + rows // 10
    for name, runs in measured.items():
        tasks = runs[-1].tasks
        fullest, copied = max(tasks) / (everything / TASKS), sum(tasks) - everything
        taken = (f"{statistics.median(getattr(run, what) for run in runs):.1f}" for what in ("seconds", "cpu"))
        table.add_row(name, str(len(tasks)), f"{fullest:.2f}", f"{copied:,}", *taken)
    print_table(table)


#: What a Python process knows in each run, as a dictionary in a UDF has it: Spark's workers import this module once.
KNOWN: dict[str, dict[int, str]] = {}


@dataclass(frozen=True)
class Names:
    """A lookup of names, which notes in a folder how many keys it is asked for."""

    folder: str

    def __call__(self, keys: pa.Array) -> pa.Table:
        Path(self.folder, f"{os.getpid()}-{uuid.uuid4().hex}").write_text(str(len(keys)))
        return pa.table({"key": keys, "name": pc.binary_join_element_wise("name ", keys.cast(pa.string()), "")})

    def asked(self) -> int:
        """The number of keys, of all calls."""
        return sum(int(file.read_text()) for file in Path(self.folder).iterdir())


def look_up_with_dictionary(names: Names) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `balanced_map` that keeps what it knows in its process."""

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from evidence.speed.joins import KNOWN  # noqa: PLC0415  the process', not a copy that Spark has sent

        known = KNOWN.setdefault(names.folder, {})
        for batch in batches:
            keys = batch.column("key")
            new = [key for key in keys.unique().to_pylist() if key not in known]
            if new:
                answer = names(pa.array(new))
                known.update(zip(answer["key"].to_pylist(), answer["name"].to_pylist(), strict=True))
            found = pa.array([known[key] for key in keys.to_pylist()], pa.string())
            yield batch.append_column("name", found)

    return add


def draw_keys(stream: str, rows: int, rng: np.random.Generator, shares: np.ndarray) -> np.ndarray:
    """The keys of a batch: R80 has 80 % of its rows in one of 200 keys."""
    if stream == "R80":
        return np.where(rng.random(rows) < 0.8, 0, rng.integers(1, 200, rows))
    return np.searchsorted(shares, rng.random(rows))


def run_lookups(spark: SparkSession, stream: str, way: str, rows: int, batches: int, _repeat: int) -> tuple[float, ...]:
    """Rows/s, µs of CPU a row (after two batches); keys asked for and rows held, ÷ the distinct keys; max/mean."""
    rng = np.random.default_rng(0)
    weights = np.arange(1, 1_000_001) ** -1.0
    shares = np.cumsum(weights / weights.sum())
    drawn = [draw_keys(stream, rows, rng, shares) for _ in range(batches)]
    tables = ([pa.table({"key": keys, "id": np.arange(rows)})] for keys in drawn)
    distinct = len(np.unique(np.concatenate(drawn)))
    with tempfile.TemporaryDirectory() as folder:
        names = Names(folder)

        def look_up(df: DataFrame, checkpoint: str) -> DataFrame:
            if way != "dictionary":
                return balanced_lookup(df, "key", WORKERS, names, "name string", way, checkpoint, observe="own")
            added, ddl = look_up_with_dictionary(names), "key long, id long, name string"
            return balanced_map(df, "key", WORKERS, added, ddl, "SHUFFLE", checkpoint, observe="own")

        taken, measured = run_files(spark, ["key long, id long"], look_up, tables, read_loads)
        asked = names.asked()
    cpu, seconds = (statistics.median(each) for each in zip(*taken[2:], strict=True))
    uneven = max(max(batch.loads) / np.mean(batch.loads) for batch in measured)
    held = sum(measured[-1].states) or asked  # a dictionary holds what it has asked for
    return rows / seconds, 1e6 * cpu / rows, asked / distinct, held / distinct, float(uneven)


def compare_lookups(spark: SparkSession, rows: int, batches: int, repeats: int) -> None:
    """The table of lookups."""
    table = make_table("stream", "", "rows/s", "CPU, µs a row", "asked", "held", "max/mean", left=2)
    ways = ("dictionary", "SHUFFLE", "KEY", "PLANNED")
    for stream in ("R80", "Zipf 1.0, a million keys"):
        contestants = {way: partial(run_lookups, spark, stream, way, rows, batches) for way in ways}
        for way, runs in in_turns(contestants, repeats).items():
            rate, cpu, asked, held, uneven = (statistics.median(each) for each in zip(*runs, strict=True))
            name = "SHUFFLE, a dictionary in each process" if way == "dictionary" else f"`balanced_lookup`, {way}"
            table.add_row(stream, name, f"{rate:,.0f}", f"{cpu:.1f}", f"{asked:.3f}", f"{held:.3f}", f"{uneven:.2f}")
    print_table(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="static, streams, lookups; by default all")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    parts = given.parts or [*PARTS]
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; valid: {', '.join(PARTS)}")
    os.environ["PYSPARK_PYTHON"] = prepare_python()
    more = {"spark.driver.memory": "4g", "spark.ui.enabled": "false", "spark.sql.files.maxPartitionBytes": "64m"}
    with open_plain_spark(spark_settings(workers=2) | more | {PARTITIONS: "2"}) as spark:
        if "static" in parts:
            compare_joins(spark, given.rows, given.repeats)
        if "streams" in parts:
            spark.conf.set(PARTITIONS, "4")
            compare_streams(spark, given.rows // 20, given.batches, given.repeats)
            spark.conf.set(PARTITIONS, "2")
        if "lookups" in parts:
            compare_lookups(spark, given.rows // 20, given.batches, given.repeats)


if __name__ == "__main__":
    main()
