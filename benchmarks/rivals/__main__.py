"""What people would use instead against a hot key, beside ours: rate, CPU, replication and balance.

    python -m benchmarks.rivals [--seconds S] [--batches N] [--works 0,1ms] [--streams R80,ZIPF] [--only NAME,...]

Work in Python on each tuple, W = 10, from Kafka, tuples at once counted by key: with a grouping (``balanced_map``), and
with what Spark has. Work is slept, but for *of CPU*: so W workers wait side by side on any machine. A batch has as many
tuples as W workers do in ``--seconds``. What a task makes of its tuples goes to the driver, which merges it, for all
contestants alike; Spark's own count is there for tuples that cost nothing. The first ``--warm`` batches aren't counted.

CPU is that of the driver, the JVM and Python. *workers a key* is over all counted batches, *max/mean* is of the tuples
that a worker gets, the mean over the batches; with more tasks than workers, W slots take them as they become free.
Both are the stream's and the placement's alone, and don't depend on the machine.
"""

import argparse
import os
import tempfile
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import batches, on_slots
from benchmarks.native import FIELDS, cut
from benchmarks.rivals.contestants import GROUPINGS, NATIVE, WORKERS, Contestant, Work, contestants
from benchmarks.rivals.picture import draw
from benchmarks.topology import SOURCES, settings
from unskew.apps.run import session
from unskew.apps.topology.source import source
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.grouping import measures
from unskew.producers.publish import publish
from unskew.producers.registry import create

MOST = 1_000_000  # tuples of a batch for each second that it may take
STREAMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "R80": ("COUNTRY_SKEW_R80", {}),
    "ZIPF": ("ZIPF", {"z": 1.2, "keys": 10_000}),
}
WORKS: Mapping[str, Work] = {
    "0": Work(0.0), "10us": Work(10e-6), "100us": Work(100e-6), "1ms": Work(1e-3),
    "100us of CPU": Work(100e-6, busy=True),
}  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """What is told of a contestant; not a number where there is none."""

    rate: float
    cpu: float  # s a million tuples
    replication: float = float("nan")
    straggling: float = float("nan")


def size(work: Work, seconds: float) -> int:
    """Tuples of a batch, a multiple of the sources."""
    hands = min(WORKERS, os.cpu_count() or 1) if work.busy else WORKERS
    tuples = min(MOST * seconds, hands * seconds / work.seconds if work.seconds else np.inf)
    return max(1, round(tuples / SOURCES)) * SOURCES


def stream(spark: SparkSession, connection: Connection, name: str, tuples: int) -> DataFrame:
    """The tuples of a topic, so many a batch."""
    kind, _ = STREAMS[name]
    run = replace(settings(connection, "KEY", Path("none")), source_type=kind, source_name=name, max_tuples=tuples)
    key = cut(F.col("value"), FIELDS[kind]).alias("key")
    return source(spark, run).select(F.col("partition").alias("source"), "offset", key)


def raced(df: DataFrame, name: str, contestant: Contestant, tuples: int, warm: int, counted: int) -> Figures:
    """Run one contestant."""

    def sink(rows: DataFrame) -> pa.Table:
        return (rows.groupBy("key").count() if name == NATIVE else rows).toArrow()

    with tempfile.TemporaryDirectory() as folder:
        checkpoint = str(Path(folder) / "checkpoint")
        found = batches(contestant(df, checkpoint), checkpoint, warm + counted, sink)
    wall, spent = found.seconds(warm)
    rate, cost = counted * tuples / wall, spent / counted / tuples * 1e6
    if name == NATIVE:
        return Figures(rate, cost)
    given = found.given[warm:]
    placed = pa.concat_tables(given).group_by(["task", "key"]).aggregate([])
    balance = [measures.straggling(on_slots(_loads(batch), WORKERS)) for batch in given]
    return Figures(rate, cost, len(placed) / len(placed["key"].unique()), float(np.mean(balance)))


def _loads(batch: pa.Table) -> list[int]:
    """The tuples of each task that had any, in the tasks' order."""
    summed = batch.group_by("task").aggregate([("tuples", "sum")]).sort_by("task")
    return summed["tuples_sum"].to_pylist()


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
    everybody = contestants(WORKS["0"])
    only = arguments.only.split(",") if arguments.only else [*everybody]
    for given, valid in (arguments.works.split(","), WORKS), (arguments.streams.split(","), STREAMS), (only, everybody):
        if unknown := [name for name in given if name not in valid]:
            parser.error(f"there is no {unknown[0]!r}; valid: {', '.join(valid)}")
    works = {name: WORKS[name] for name in arguments.works.split(",")}
    count = arguments.warm + arguments.batches
    records = max(size(work, arguments.seconds) for work in works.values()) * (count + 1)
    conf = {"spark.executorEnv.UNSKEW_GROUPINGS": ",".join(GROUPINGS)}
    spark = session.start("rivals", f"local[{WORKERS}]", WORKERS, conf)
    found: dict[tuple[str, str, str], Figures] = {}
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        for topic in arguments.streams.split(","):
            kind, options = STREAMS[topic]
            ensure_topic(connection, topic, SOURCES)
            publish(connection, topic, create(kind, records=records, **options))
            for cost, work in works.items():
                tuples = size(work, arguments.seconds)
                for name, contestant in contestants(work).items():
                    if name not in only:
                        continue
                    rows = stream(spark, connection, topic, tuples)
                    told = raced(rows, name, contestant, tuples, arguments.warm, arguments.batches)
                    found[topic, cost, name] = told
                    print(topic, cost, name, *cells(told), flush=True)
    spark.stop()
    show(found)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    draw({place: figures.rate for place, figures in found.items()}, arguments.output)
    print(f"the picture: {arguments.output}")


def cells(figures: Figures) -> list[str]:
    forms = ("{:,.0f}", "{:,.1f}", "{:.2f}", "{:.2f}")
    return ["" if np.isnan(v) else form.format(v) for form, v in zip(forms, astuple(figures), strict=True)]


def show(found: Mapping[tuple[str, str, str], Figures]) -> None:
    table = Table("stream", "a tuple costs", "", box=MARKDOWN, title=f"W = {WORKERS}, {os.cpu_count()} cores")
    for column in ("tuples/s", "CPU s a million tuples", "workers a key", "max/mean"):
        table.add_column(column, justify="right")
    for place, figures in found.items():
        table.add_row(*place, *cells(figures))
    Console(width=140, highlight=False).print(table)


if __name__ == "__main__":
    main()
