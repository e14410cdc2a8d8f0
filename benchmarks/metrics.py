"""What telling of a run costs it: tuples per second with and without metrics, and with an InfluxDB in trouble.

    python -m benchmarks.metrics [--records N] [--repeats N] [--batch N]

Tuples cost nothing here (x0). All runs share one broker, one topic and one Spark; repeats alternate between the
contestants, and the median is told. The first batch of a run is not counted. Trouble begins before a run's first batch.
"""

import argparse
import os
import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.topology import SOURCES, TYPE, WORKERS, settings
from unskew.apps.compare.warmup import warm_up
from unskew.apps.monitoring.monitor import Monitor
from unskew.apps.monitoring.outputs import Destinations, Outputs
from unskew.apps.monitoring.summary import Tally
from unskew.apps.run.run import Run
from unskew.apps.run.session import session
from unskew.apps.topology.settings import Settings
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.influxdb import InfluxDB
from unskew.deploy.servers.prometheus import Prometheus
from unskew.producers.publish import publish
from unskew.producers.registry import create

GROUPING = "DYNAMIC_KEY"
NONE, ALL = "no metrics", "InfluxDB and Prometheus"
KILLED, PAUSED, REFUSING = "InfluxDB killed", "InfluxDB paused", "InfluxDB refusing the token"


@dataclass
class Contestant:
    """The runs of one kind: tuples/s and points lost of each."""

    rates: list[float] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)


def measure(spark: SparkSession, run: Settings, kind: str, folder: Path, into: Contestant) -> None:
    """One run."""
    with ExitStack() as stack:
        destinations = Destinations()
        server = stack.enter_context(InfluxDB(folder / "influxdb"))
        if kind != NONE:
            token = "no such token" if kind == REFUSING else server.token
            destinations = Destinations.of(server.url, token, server.org, server.bucket, 0)
        outputs = stack.enter_context(Outputs(destinations))
        if outputs.exporter is not None:
            targets = {"unskew": [f"127.0.0.1:{outputs.exporter.port}"]}
            stack.enter_context(Prometheus(folder / "prometheus", targets=targets, every=1))
        if kind == KILLED:
            server.kill()
        if kind == PAUSED:
            server.pause()
        tally, monitor = Tally(run.grouping), Monitor(run, outputs)
        assert Run(run, [tally, monitor.batch], [monitor.progress]).run(spark).drained
    into.rates.append(tally.summary().tuples_per_second)
    into.written.append(outputs.influx.written if outputs.influx else 0)
    into.lost.append(outputs.influx.lost if outputs.influx else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1_000_000, help="tuples a batch")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=120)
    contestants = {kind: Contestant() for kind in (NONE, ALL, KILLED, PAUSED, REFUSING)}
    with tempfile.TemporaryDirectory() as name, Broker(Path(name) / "kafka") as broker:
        folder, connection = Path(name), Connection(broker.bootstrap_servers)
        ensure_topic(connection, "bench", SOURCES)
        publish(connection, "bench", create(TYPE, records=arguments.records))
        with session(settings(connection, GROUPING, folder / "first")) as spark:
            warm_up(spark, settings(connection, GROUPING, folder / "warm"), lambda: False)
            for repeat in range(arguments.repeats):
                # Whoever comes first in a repeat would else always be the same.
                kinds = list(contestants)
                for kind in kinds[repeat:] + kinds[:repeat]:
                    contestant = contestants[kind]
                    place = folder / f"{repeat}-{kind.replace(' ', '-')}"
                    run = replace(settings(connection, GROUPING, place / "checkpoint"), max_tuples=arguments.batch)
                    measure(spark, run, kind, place, contestant)
                    rate = contestant.rates[-1]
                    console.print(f"repeat {repeat + 1} of {arguments.repeats}: {kind} {rate:,.0f} tuples/s")
    _print(console, arguments, contestants)


def _print(console: Console, arguments: argparse.Namespace, contestants: dict[str, Contestant]) -> None:
    base = statistics.median(contestants[NONE].rates)
    title = (
        f"{GROUPING}, {arguments.records:,} tuples in batches of {arguments.batch:,}, {SOURCES} sources, "
        f"{WORKERS} workers, {os.cpu_count()} cores, median of {arguments.repeats}"
    )
    table = Table(title=title, box=MARKDOWN)
    for column in ("", "tuples/s", "lowest", "highest", "× without", "points written", "points lost"):
        table.add_column(column, justify="right" if column else "left", no_wrap=not column)
    for kind, found in contestants.items():
        middle = statistics.median(found.rates)
        points = (f"{statistics.median(n):,.0f}" for n in (found.written, found.lost))
        row = (f"{middle:,.0f}", f"{min(found.rates):,.0f}", f"{max(found.rates):,.0f}", f"{middle / base:.2f}")
        table.add_row(kind, *row, *points)
    console.print(table)


if __name__ == "__main__":
    main()
