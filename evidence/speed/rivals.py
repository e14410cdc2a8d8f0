"""What people would use instead against a hot key, beside ours: rate, CPU, replication and balance.

    python -m evidence.speed.rivals [--seconds S] [--batches N] [--works 0,1ms] [--streams R80,ZIPF] [--only NAME,...]

Tuples come from Kafka, each has work in Python, and each task counts its tuples by key; W = 10. The tuples get to the
workers by a grouping (``balanced_map``), or by what Spark has. Work is slept, except *of CPU*: so W workers wait side
by side on any machine. A batch has as many tuples as W workers do in ``--seconds``. The counts of all tasks go to the
driver, which merges them, for all contestants alike; Spark's own count is a contestant where tuples cost nothing. The
first ``--warm`` batches aren't counted.

CPU is that of the driver, the JVM and Python. *workers a key* is over all counted batches. *max/mean* is of the tuples
that a worker gets, the mean over the batches; with more tasks than workers, W slots take the tasks as they become free.
Both depend on the stream and the contestant alone, not on the machine.

The picture has each contestant's rate, in a panel for each stream and cost of a tuple.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.speed.measuring import SOURCES, WORKERS, capped, on_slots, open_bench, open_spark, settings
from evidence.speed.native import FIELDS, cut
from evidence.tables import make_table, print_table
from unskew import balanced_map
from unskew.apps.splitter.kafka_source import read_topic
from unskew.grouping import measures
from unskew.grouping.registry import COLOURS
from unskew.kafka.connection import Connection
from unskew.spark.micro_batches import get_partition

GROUPINGS = ("KEY", "PARTIAL_KEY", "D_CHOICES", "BOUNDED_LOAD", "PLANNED")
NATIVE = "groupBy(key).count()"
DDL = "task int, key string, tuples long"
_OTHERS = "#bbbbbb"  # colour of contestants that are no groupings

#: (a stream of tuples with ``key``, ``source`` and ``offset``, the query's checkpoint) → rows of ``DDL``.
Contestant: TypeAlias = Callable[[DataFrame, str], DataFrame]


@dataclass(frozen=True)
class Work:
    """Work in Python on each tuple; a task's tuples are counted by key.

    ``seconds``: What a tuple costs, s. ``busy``: Whether the cost is CPU; else it is slept, as if the work waited for a
    server: so any machine has W workers.
    """

    seconds: float
    busy: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = get_partition()
        for batch in batches:
            self._spend(batch.num_rows * self.seconds)
            counted = batch.column("key").value_counts()
            keys = counted.field("values").cast(pa.string())
            tasks = pa.repeat(pa.scalar(task, pa.int32()), len(keys))
            yield pa.record_batch([tasks, keys, counted.field("counts")], ["task", "key", "tuples"])

    def _spend(self, seconds: float) -> None:
        if not self.busy:
            time.sleep(seconds)
            return
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pc.sum(pa.array(range(100)))


MOST = 1_000_000  # tuples of a batch for each second that it may take
STREAMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "R80": ("COUNTRY_SKEW_R80", {}),
    "ZIPF": ("ZIPF", {"z": 1.2, "keys": 10_000}),
}
WORKS: Mapping[str, Work] = {
    "0": Work(0.0),
    "10us": Work(10e-6),
    "100us": Work(100e-6),
    "1ms": Work(1e-3),
    "100us of CPU": Work(100e-6, busy=True),
}


def ours(work: Work, grouping: str) -> Contestant:
    """Tuples go to workers by a grouping, with ``balanced_map``."""
    return lambda df, checkpoint: balanced_map(
        df.select("key", "source"), "key", WORKERS, work.__call__, DDL, grouping, checkpoint, source="source"
    )


def partitioned(work: Work, tasks: int, *columns: str, salts: int = 1) -> Contestant:
    """Tuples go to tasks by ``repartition`` with these columns (one may be ``salt``), or round robin without any."""

    def placed(df: DataFrame, _: str) -> DataFrame:
        salted = df.withColumn("salt", F.pmod(F.hash("offset"), F.lit(salts))).select("key", *columns[1:])
        return salted.repartition(tasks, *columns).mapInArrow(work.__call__, DDL)

    return placed


def native(df: DataFrame, _: str) -> DataFrame:
    """The keys alone, for Spark's own count, which may combine tuples before its shuffle."""
    return df.select("key")


def contestants(work: Work) -> dict[str, Contestant]:
    """All contestants by name; Spark's own count, which has no work in Python, only where tuples cost nothing."""
    found = {name: ours(work, name) for name in GROUPINGS} | {
        "repartition by key": partitioned(work, WORKERS, "key"),
        "… 10 × as many": partitioned(work, 10 * WORKERS, "key"),
        "… salted by 2": partitioned(work, WORKERS, "key", "salt", salts=2),
        "… salted by W": partitioned(work, WORKERS, "key", "salt", salts=WORKERS),
        "… round robin": partitioned(work, WORKERS),
    }
    return found | ({} if work.seconds else {NATIVE: native})


@dataclass(frozen=True)
class Figures:
    """What a contestant's run gave; not a number where there is no such figure."""

    rate: float
    cpu: float  # s a million tuples
    replication: float = float("nan")
    straggling: float = float("nan")


def size(work: Work, seconds: float) -> int:
    """How many tuples a batch has, a multiple of the sources."""
    busy = min(WORKERS, os.cpu_count() or 1) if work.busy else WORKERS
    tuples = min(MOST * seconds, busy * seconds / work.seconds if work.seconds else np.inf)
    return max(1, round(tuples / SOURCES)) * SOURCES


def stream(spark: SparkSession, connection: Connection, name: str, tuples: int) -> DataFrame:
    """The tuples of a topic as a stream, so many a batch."""
    kind, _ = STREAMS[name]
    run = replace(settings(connection, "KEY", Path("none")), source_type=kind, topic=name, max_tuples=tuples)
    key = cut(F.col("value"), FIELDS[kind]).alias("key")
    return read_topic(spark, run).select(F.col("partition").alias("source"), "offset", key)


def raced(df: DataFrame, name: str, contestant: Contestant, tuples: int, warm: int, counted: int) -> Figures:
    """Run a contestant for ``warm`` batches and those that are counted."""

    def sink(rows: DataFrame) -> pa.Table:
        return (rows.groupBy("key").count() if name == NATIVE else rows).toArrow()

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = str(Path(folder) / "checkpoint")
        found = capped(contestant(df, checkpoint), checkpoint, warm + counted, sink)
    wall, spent = found.seconds(warm)
    rate, cost = counted * tuples / wall, spent / counted / tuples * 1e6
    if name == NATIVE:
        return Figures(rate, cost)
    counts = found.returned[warm:]
    replicas = pa.concat_tables(counts).group_by(["task", "key"]).aggregate([])
    balance = [measures.straggler_ratio(on_slots(_loads(batch), WORKERS)) for batch in counts]
    return Figures(rate, cost, len(replicas) / len(replicas["key"].unique()), float(np.mean(balance)))


def _loads(batch: pa.Table) -> list[int]:
    """The tuples of each task that had any, in the tasks' order."""
    summed = batch.group_by("task").aggregate([("tuples", "sum")]).sort_by("task")
    return summed["tuples_sum"].to_pylist()


def cells(figures: Figures) -> list[str]:
    """A contestant's figures as a table's row shows them."""
    forms = ("{:,.0f}", "{:,.1f}", "{:.2f}", "{:.2f}")
    return ["" if np.isnan(v) else form.format(v) for form, v in zip(forms, astuple(figures), strict=True)]


def show(found: Mapping[tuple[str, str, str], Figures]) -> None:
    """Print the figures of (stream, cost, contestant)."""
    heads = "stream", "a tuple costs", "", "tuples/s", "CPU s a million tuples", "workers a key", "max/mean"
    table = make_table(*heads, left=3, title=f"W = {WORKERS}, {os.cpu_count()} cores")
    for names, figures in found.items():
        table.add_row(*names, *cells(figures))
    print_table(table)


def draw(rates: Mapping[tuple[str, str, str], float], path: Path) -> None:
    """Draw the rates (tuples/s) of (stream, cost, contestant) into a file."""
    streams = list(dict.fromkeys(stream for stream, _, _ in rates))
    costs = list(dict.fromkeys(cost for _, cost, _ in rates))
    names = list(dict.fromkeys(name for _, _, name in rates))
    size = 1.5 + 2.6 * len(costs), 0.8 + (0.6 + 0.25 * len(names)) * len(streams)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(streams), len(costs), squeeze=False, sharey=True)
    for row, stream in zip(panels, streams, strict=True):
        for axes, cost in zip(row, costs, strict=True):
            values = [rates.get((stream, cost, name), 0.0) for name in names]
            bars = axes.barh(names, values, color=[COLOURS.get(name, _OTHERS) for name in names])
            axes.bar_label(bars, [f"{v:,.0f}" if v else "" for v in values], fontsize=7, padding=2)
            axes.set_title(f"{stream}, a tuple costs {cost}", fontsize=9)
            axes.set_xlim(0, 1.3 * max(values))
            axes.set_xticks([])
            axes.spines[["top", "right", "bottom"]].set_visible(False)
    panels[0][0].invert_yaxis()  # of all: the first name is at the top
    figure.supxlabel("tuples/s", fontsize=9)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="ideal time of a batch (default: 2)")
    parser.add_argument("--batches", type=int, default=5, help="that are counted (default: 5)")
    parser.add_argument("--warm", type=int, default=3, help="batches before these, at least 1 (default: 3)")
    parser.add_argument("--works", default=",".join(WORKS), help=f"of {', '.join(WORKS)}")
    parser.add_argument("--streams", default=",".join(STREAMS), help=f"of {', '.join(STREAMS)}")
    parser.add_argument("--only", default="", help="contestants, by their names")
    parser.add_argument("--output", type=Path, default=Path("out/rivals.png"), help="the picture")
    arguments = parser.parse_args()
    known = contestants(WORKS["0"])
    only = arguments.only.split(",") if arguments.only else [*known]
    for given, valid in (arguments.works.split(","), WORKS), (arguments.streams.split(","), STREAMS), (only, known):
        if unknown := [name for name in given if name not in valid]:
            parser.error(f"there is no {unknown[0]!r}; valid: {', '.join(valid)}")
    works = {name: WORKS[name] for name in arguments.works.split(",")}
    count = arguments.warm + arguments.batches
    records = max(size(work, arguments.seconds) for work in works.values()) * (count + 1)
    found: dict[tuple[str, str, str], Figures] = {}
    with open_spark(f"local[{WORKERS}]", WORKERS, GROUPINGS) as spark, open_bench() as bench:
        for topic in arguments.streams.split(","):
            kind, options = STREAMS[topic]
            bench.publish(topic, kind, records=records, **options)
            for cost, work in works.items():
                tuples = size(work, arguments.seconds)
                for name, contestant in contestants(work).items():
                    if name not in only:
                        continue
                    rows = stream(spark, bench.connection, topic, tuples)
                    figures = raced(rows, name, contestant, tuples, arguments.warm, arguments.batches)
                    found[topic, cost, name] = figures
                    print(topic, cost, name, *cells(figures), flush=True)
    show(found)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    draw({names: figures.rate for names, figures in found.items()}, arguments.output)
    print(f"the picture: {arguments.output}")


if __name__ == "__main__":
    main()
