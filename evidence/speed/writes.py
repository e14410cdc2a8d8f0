"""A partitioned table whose largest partition has much of the rows, written by `balanced_write` and as people do it.

    python -m evidence.speed.writes [static] [stream] [--format FORMAT] [--partitions K …] [--writers W …]
                                    [--rows N] [--repeats N] [--upload-ms-per-mb MS] [--small]

N rows (Zipf 1.2 over K partitions), in 16 files, are written by W tasks:

* hash: `repartition(W, partition)`, by which a partition has one file, and one task
* none: `repartition(W)`, by which each task has a file of each partition; left out beyond 6,400 files
* rebalance: `hint("rebalance", col(partition))` with adaptive execution, which aims at the rows' bytes ÷ W for a task
* `balanced_write`

`static` writes them at once, `stream` in eight batches in `foreachBatch`. *fullest ÷ mean* is that of the tasks, by
rows; of a stream the median of its batches. *× hash* is the time ÷ that of hash in the same repeat, the median of all.
With MS above 0 a column more has the time with uploads, of 16 tasks at a time, as large as their files: it is computed
and added, as the machine has no 16 cores.

`--format delta` needs a pyspark of 4.0 to 4.2, `--format iceberg` one of 4.0 or 4.1, in an environment of its own:
`uv pip install -e '.[app]' psutil`, then `uv pip install pyspark==4.1.3`. `--small` tries it in a minute.
"""

import argparse
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.speed.measuring import in_turns, on_slots, open_plain_spark
from evidence.table_formats import CATALOG, fetch_archives, make_settings
from evidence.tables import make_table, print_table
from unskew import balanced_write
from unskew.errors import EnvironmentFault
from unskew.spark.setting_names import PARTITIONS

PARTS = ("static", "stream")
FORMATS = ("parquet", "delta", "iceberg")
SOURCES, SLOTS, FILES_A_BATCH, MOST_FILES = 16, 16, 2, 6_400
BALANCED = "`balanced_write`"
#: Name → how rows come to the tasks that write them. (``balanced_write`` places and writes them itself.)
WAYS: dict[str, Callable[[DataFrame, int], DataFrame] | None] = {
    "hash": lambda df, writers: df.repartition(writers, "place"),
    "none": lambda df, writers: df.repartition(writers),
    "rebalance": lambda df, _: df.hint("rebalance", F.col("place")),
    BALANCED: None,
}
_SCHEMA = "place string, id long, text string"


class TaskFiles(NamedTuple):
    """What the tasks of a write have written, those that have rows."""

    rows: tuple[int, ...]  #: The rows and the bytes of each task, in the tasks' order.
    sizes: tuple[int, ...]
    files: int  #: The files of all tasks.


@dataclass(frozen=True)
class Written:
    """A run: its seconds, and what each of its batches has written."""

    seconds: float
    batches: tuple[TaskFiles, ...]

    @property
    def files(self) -> int:
        """The files of all batches."""
        return sum(batch.files for batch in self.batches)

    @property
    def megabytes(self) -> float:
        """Their size."""
        return sum(sum(batch.sizes) for batch in self.batches) / 1e6

    def find_fullest(self, writers: int) -> float:
        """The rows of the fullest task, over the mean of so many; of several batches the median."""
        return statistics.median(max(batch.rows) * writers / sum(batch.rows) for batch in self.batches)

    def add_uploads(self, ms_per_mb: float) -> float:
        """The seconds with the time of uploads, 16 tasks at a time.

        >>> Written(1.0, (TaskFiles((1, 1), (3_000_000, 1_000_000), 2),)).add_uploads(100)
        1.3
        """
        most = sum(max(on_slots(batch.sizes, SLOTS)) for batch in self.batches)
        return self.seconds + most / 1e6 * ms_per_mb / 1e3

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.files:,} files"


def write_source(folder: Path, rows: int, partitions: int) -> None:
    """The rows, in 16 files."""
    rng = np.random.default_rng(1)
    shares = np.arange(1, partitions + 1) ** -1.2
    place = rng.permutation(partitions)[rng.choice(partitions, rows, p=shares / shares.sum())]
    payload = rng.integers(0, 1 << 60, rows)
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), SOURCES)):
        places = [f"p{value:04d}" for value in place[part].tolist()]
        texts = [f"{value:050d}" for value in payload[part].tolist()]
        pq.write_table(pa.table({"place": places, "id": part, "text": texts}), folder / f"{number:02}.parquet")


def find_files(folder: Path) -> set[Path]:
    """The data files of a table's folder: in a log of Delta there are others."""
    return {file for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts}


def measure_files(files: Iterable[Path]) -> TaskFiles:
    """What tasks have written: all formats name a file by its task."""
    rows, sizes, count = Counter[int](), Counter[int](), 0
    for file in files:
        named = re.match(r"(?:part-)?(\d{5})-", file.name)
        assert named, file
        task = int(named[1])
        rows[task] += pq.read_metadata(file).num_rows
        sizes[task] += file.stat().st_size
        count += 1
    tasks = sorted(rows)
    return TaskFiles(tuple(rows[task] for task in tasks), tuple(sizes[task] for task in tasks), count)


@dataclass(frozen=True)
class Trial:
    """A table that is written: by so many tasks, in this format."""

    spark: SparkSession  #: It has the format.
    source: Path  #: The folder of the rows.
    kind: str  #: The format.
    writers: int  #: W.
    warehouse: Path  #: The folder of Iceberg's catalog.

    def run(self, part: str, way: str, repeat: int) -> Written:
        """Write a new table."""
        with tempfile.TemporaryDirectory() as folder:
            name = f"{CATALOG}.bench.t{time.time_ns()}"
            if self.kind == "iceberg":
                self.spark.sql(f"CREATE TABLE {name} ({_SCHEMA}) USING iceberg PARTITIONED BY (place)")
            place = (
                self.warehouse / "bench" / name.rpartition(".")[2] if self.kind == "iceberg" else Path(folder, "table")
            )
            write = partial(self._write, way, str(place), name)
            try:
                return self._run_static(write, place) if part == "static" else self._run_stream(write, place, folder)
            finally:
                if self.kind == "iceberg":
                    self.spark.sql(f"DROP TABLE {name} PURGE")

    def _run_static(self, write: Callable[[DataFrame, str], None], place: Path) -> Written:
        began = time.monotonic()
        write(self.spark.read.schema(_SCHEMA).parquet(str(self.source)), "")
        return Written(time.monotonic() - began, (measure_files(find_files(place)),))

    def _run_stream(self, write: Callable[[DataFrame, str], None], place: Path, folder: str) -> Written:
        seconds, batches, known = [], [], set[Path]()

        def write_batch(batch: DataFrame, number: int) -> None:
            began = time.monotonic()
            write(batch, f"batch={number}")
            seconds.append(time.monotonic() - began)
            files = find_files(place)
            batches.append(measure_files(files - known))
            known.update(files)

        rows = self.spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", FILES_A_BATCH)
        writer = rows.parquet(str(self.source)).writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).foreachBatch(write_batch).start().awaitTermination()
        return Written(sum(seconds), tuple(batches))

    def _write(self, way: str, path: str, table: str, rows: DataFrame, batch: str) -> None:
        """Write a table or, with a name, a batch."""
        place = WAYS[way]
        if place is None:
            to: dict[str, Any] = {"table": table} if self.kind == "iceberg" else {"path": path}
            balanced_write(rows, by="place", workers=self.writers, format=self.kind, **to)
            return
        placed = place(rows, self.writers)
        if self.kind == "iceberg":
            placed.writeTo(table).options(**{"distribution-mode": "none", "fanout-enabled": "false"}).append()
        elif self.kind == "delta":
            writer = placed.write.format("delta").mode("append").option("optimizeWrite", "false")
            writer.partitionBy("place").save(path)
        else:
            placed.write.partitionBy("place").parquet(f"{path}/{batch}" if batch else path)


def choose_ways(partitions: int, writers: int, batches: int) -> list[str]:
    """The ways that don't write too many files."""
    return [way for way in WAYS if way != "none" or partitions * writers * batches <= MOST_FILES]


def make_rows(
    case: Sequence[str], writers: int, runs: dict[str, list[Written]], ms_per_mb: float, most: int
) -> list[list[str]]:
    """The rows of a case's table: what the last run has written, and the times of all beside those of hash."""
    found = []
    for way in WAYS:
        if way not in runs:
            found.append([*case, way, f"{most:,}", *["–"] * (5 if ms_per_mb else 4)])
            continue
        last, own = runs[way][-1], runs[way]
        row = [f"{last.files:,}", f"{last.megabytes:.1f}", f"{last.find_fullest(writers):.2f}"]
        row += [f"{statistics.median(run.seconds for run in own):.1f}"]
        row += [divide_by_hash(own, runs["hash"], lambda run: run.seconds)]
        if ms_per_mb:
            row += [divide_by_hash(own, runs["hash"], lambda run: run.add_uploads(ms_per_mb))]
        found.append([*case, way, *row])
    return found


def divide_by_hash(own: Sequence[Written], by_hash: Sequence[Written], read: Callable[[Written], float]) -> str:
    """A time ÷ that of hash in the same repeat, the median."""
    ratios = [read(run) / read(other) for run, other in zip(own, by_hash, strict=True)]
    return f"{statistics.median(ratios):.2f}"


def compare_writes(
    spark: SparkSession, folder: Path, parts: Sequence[str], given: argparse.Namespace
) -> list[list[str]]:
    """The rows of the table."""
    found = []
    for partitions in given.partitions:
        source = folder / f"source-{partitions}"
        write_source(source, given.rows, partitions)
        size = sum(file.stat().st_size for file in source.iterdir())
        cases: list[tuple[str, int]] = [(part, writers) for part in parts for writers in given.writers]
        for part, writers in cases:
            batches = 1 if part == "static" else SOURCES // FILES_A_BATCH
            spark.conf.set(PARTITIONS, str(writers))
            spark.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", f"{size // batches // writers}b")
            trial = Trial(spark, source, given.format, writers, folder / "warehouse")
            ways = choose_ways(partitions, writers, batches)
            trial.run(part, BALANCED, 0)  # compiles
            runs = in_turns({way: partial(trial.run, part, way) for way in ways}, given.repeats, str)
            most = partitions * writers * batches
            found += make_rows([part, str(partitions), str(writers)], writers, runs, given.upload_ms_per_mb, most)
    return found


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What is to be compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="static, stream; by default both")
    parser.add_argument("--format", choices=FORMATS, default="parquet")
    parser.add_argument("--partitions", type=int, nargs="+", default=[24, 200, 2_000])
    parser.add_argument("--writers", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--upload-ms-per-mb", type=float, default=0.0, metavar="MS")
    parser.add_argument("--small", action="store_true", help="few rows, 24 partitions, 4 writers, once")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; valid: {', '.join(PARTS)}")
    given.parts = given.parts or [*PARTS]
    if given.small:
        given.rows, given.partitions, given.writers, given.repeats = 20_000, [24], [4], 1
    try:
        given.jars = [] if given.format == "parquet" else fetch_archives(given.format, pyspark.__version__)
    except EnvironmentFault as fault:
        parser.error(str(fault))
    return given


def main() -> None:
    given = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        settings = {"spark.driver.memory": "4g", "spark.ui.enabled": "false"}
        settings |= make_settings(given.format, given.jars, Path(folder, "warehouse"))
        with open_plain_spark(settings) as spark:
            if given.format == "iceberg":
                spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.bench")
            rows = compare_writes(spark, Path(folder), given.parts, given)
    heads = [
        "files",
        "MB",
        "fullest ÷ mean",
        "seconds",
        "× hash",
        *["× hash with uploads"] * bool(given.upload_ms_per_mb),
    ]
    table = make_table("", "partitions", "writers", "way", *heads, left=1)
    for row in rows:
        table.add_row(*row)
    print_table(table)


if __name__ == "__main__":
    main()
