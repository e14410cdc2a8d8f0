"""What the schemes are for: work that costs time and has a state per key, with each grouping, and as it is done today.

    python -m benchmarks.state --part schemes [--tuples N] [--batches N] [--streams R80,ZIPF] [--only NAME,...]

A tuple costs its worker a millisecond, which it sleeps: W = 10 workers wait side by side on any machine. The ideal
batch is all work spread evenly; the first `--warm` batches aren't counted (there schemes learn, and the JVM). States
of a key that several workers have meet every second batch; *states a key* is before they do. *max/mean* is of the
tuples a worker gets: it doesn't depend on the machine, as *batch / ideal* does, which has each batch's fixed cost.

MIXED has a key at one worker at a time, as more partitions do: neither can balance R80, whose hottest key is eight
workers' work; of ZIPF it is one worker's. What MIXED learns of a batch holds two batches later, with the keys' states.
"""

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.state.rivals import Rival, raced, rivals, straggling
from unskew.apps.demo import NARROWED, SHORTENED
from unskew.apps.run import session
from unskew.apps.run.run import Run
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.sink import BatchReport
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.grouping import measures, parameters
from unskew.grouping.registry import OWNING
from unskew.producers.publish import publish
from unskew.producers.registry import create
from unskew.works import Running

SOURCES, WORKERS = 4, 10
GROUPINGS = ("KEY", "MIXED", "PARTIAL_KEY", "D_CHOICES", "W_CHOICES", "DYNAMIC_KEY", "BOUNDED_LOAD", "SHUFFLE")
#: name → the dataset, and its options.
STREAMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "R80": ("COUNTRY_SKEW_R80", {}),
    "ZIPF": ("ZIPF", {"z": 1.0, "keys": 10_000}),
}


@dataclass
class Figures:
    """What is measured of a contestant: (tuples, s) of each batch, and the rest where it is known."""

    batches: list[tuple[int, float]] = field(default_factory=list)
    states: int = 0
    size: int = 0
    loads: list[float] = field(default_factory=list)
    merging: float = 0.0

    def row(self, warm: int, states_of_key: int) -> list[str]:
        counted = self.batches[warm:]
        tuples, seconds = (sum(each) for each in zip(*counted, strict=True))
        ideal = tuples / 1000 / WORKERS
        balance = self.loads[warm:]
        return [
            f"{tuples / seconds:,.0f}", f"{seconds / ideal:.2f}",
            f"{sum(balance) / len(balance):.2f}" if balance else "",
            f"{self.states / states_of_key:.2f}", f"{self.size / 1024:,.0f}",
            f"{1000 * self.merging:.0f}" if self.merging else "",
        ]  # fmt: skip


def ours(spark: SparkSession, run: Settings) -> Figures:
    """A topology with one of the groupings."""
    figures, loaded = Figures(), set()

    def batch(report: BatchReport) -> None:
        assert report.held is not None
        figures.states = max(figures.states, int(report.held.states.sum()))
        figures.size = max(figures.size, int(report.held.size.sum()))
        if report.held.met:
            figures.merging = max(figures.merging, report.held.merging)
        if report.loads.any():
            loaded.add(report.batch.number)
            figures.loads.append(measures.straggling(report.loads))

    def progress(told: Mapping[str, Any]) -> None:
        if told["batchId"] in loaded:
            figures.batches.append((run.batch_limit, told["durationMs"]["triggerExecution"] / 1000))

    assert Run(run, [batch], [progress]).run(spark).drained
    return figures


def theirs(spark: SparkSession, run: Settings, rival: Rival) -> Figures:
    batches, states, size = raced(spark, run, rival)
    return Figures(batches, states, size, [straggling(spark, run, rival)] * len(batches))


def settings(kind: str, topic: str, name: str, connection: Connection, folder: str, tuples: int) -> Settings:
    chosen = {**SHORTENED, **(NARROWED if name == "BOUNDED_LOAD" else {})}  # others mean something else by a window
    options = {k: v for k, v in chosen.items() if k in parameters(name)}
    return Settings(
        mode="LOCAL", source_type=kind, grouping=name, source_name=topic, sources=SOURCES, workers=WORKERS,
        speed="x1", connection=connection, checkpoint=str(Path(folder) / f"{topic}-{name}"), window=5.0, trigger=0.0,
        max_tuples=tuples, until_drained=True, options=options, work=Running("offset", when="end"), ttl=86_400.0,
        merge_every=None if name in OWNING else "2 batches",
    )  # fmt: skip


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=40_000, help="Of a batch; a multiple of the sources.")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="Batches at the beginning that aren't counted.")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--only", default="", help="Contestants, by their names.")
    arguments = parser.parse_args(given)
    others = rivals(WORKERS)
    valid = [*GROUPINGS, *others]
    chosen = arguments.only.split(",") if arguments.only else valid
    if unknown := [name for name in chosen if name not in valid]:
        parser.error(f"--only has {unknown[0]!r}; valid: {', '.join(valid)}")
    conf = {
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.executorEnv.UNSKEW_GROUPINGS": ",".join(name for name in chosen if name in GROUPINGS),
    }
    spark = session.start("benchmark", f"local[{WORKERS}]", WORKERS, conf)
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        for stream in arguments.streams.split(","):
            kind, options = STREAMS[stream]
            topic = f"bench-{stream.lower()}"
            ensure_topic(connection, topic, SOURCES)
            publish(connection, topic, create(kind, records=arguments.tuples * arguments.batches, **options))
            print(f"{kind}: batches of {arguments.tuples:,} tuples of 1 ms, W = {WORKERS}, {os.cpu_count()} cores")
            table = Table("", box=MARKDOWN)
            for column in ("tuples/s", "batch / ideal", "max/mean", "states a key", "state, KiB", "merge, ms"):
                table.add_column(column, justify="right")
            keys = 0
            for name in chosen:
                run = settings(kind, topic, name if name in GROUPINGS else "KEY", connection, folder, arguments.tuples)
                figures = ours(spark, run) if name in GROUPINGS else theirs(spark, run, others[name])
                keys = keys or figures.states
                row = figures.row(arguments.warm, keys)
                print(name, *row, flush=True)
                table.add_row(name, *row)
            Console(width=120, highlight=False).print(table)
    spark.stop()
