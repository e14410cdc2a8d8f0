"""What metrics cost a run: tuples per second with and without them, and with an InfluxDB in trouble.

    python -m evidence.speed.metrics [--records N] [--repeats N] [--batch N]

Tuples cost nothing here (x0). All runs share one broker, one topic and one Spark; the contestants run in turns, and the
table has the median of each. The first batch of a run is not counted. Trouble begins before a run's first batch.
"""

import argparse
import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from evidence.speed.measuring import SOURCES, WORKERS, in_turns, open_bench, spread
from evidence.tables import make_table, print_table
from unskew.apps.cli.comparison.runs import warm_up
from unskew.apps.driver.job_summary import JobTally
from unskew.apps.driver.session import open_session
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.metrics.metrics_reporter import MetricsReporter
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.settings import Settings
from unskew.deploy.servers.influxdb import InfluxDBServer
from unskew.deploy.servers.prometheus import PrometheusServer

GROUPING = "DYNAMIC_KEY"
NONE, ALL = "no metrics", "InfluxDB and Prometheus"
KILLED, PAUSED, REFUSING = "InfluxDB killed", "InfluxDB paused", "InfluxDB refusing the token"


class Measured(NamedTuple):
    """A run's tuples/s, and the points that InfluxDB got and that were lost."""

    rate: float
    written: int
    lost: int


def measure(spark: SparkSession, run: Settings, kind: str, folder: Path) -> Measured:
    """Run a topology with metrics of a kind, or without any."""
    with ExitStack() as stack:
        destinations = Destinations()
        server = stack.enter_context(InfluxDBServer(folder / "influxdb"))
        if kind != NONE:
            token = "no such token" if kind == REFUSING else server.token
            destinations = Destinations.of(server.url, token, server.org, server.bucket, 0)
        outputs = stack.enter_context(Outputs(destinations))
        if outputs.exporter is not None:
            targets = {"unskew": [f"127.0.0.1:{outputs.exporter.port}"]}
            stack.enter_context(PrometheusServer(folder / "prometheus", targets=targets, every=1))
        if kind == KILLED:
            server.kill()
        if kind == PAUSED:
            server.pause()
        tally, monitor = JobTally(run.grouping), MetricsReporter(run, outputs)
        assert StreamingJob(run, [tally, monitor.batch], [monitor.progress]).run(spark).drained
    influx = outputs.influx
    return Measured(tally.summary().tuples_per_second, influx.written if influx else 0, influx.lost if influx else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, default=1_000_000, help="tuples a batch")
    arguments = parser.parse_args()
    with open_bench() as bench:
        bench.publish(records=arguments.records)
        with open_session(bench.settings(GROUPING, "first")) as spark:
            warm_up(spark, bench.settings(GROUPING, "warm"), lambda: False)

            def run(kind: str, repeat: int) -> Measured:
                own = f"{repeat}-{kind.replace(' ', '-')}"
                chosen = bench.settings(GROUPING, f"{own}/checkpoint", max_tuples=arguments.batch)
                return measure(spark, chosen, kind, bench.folder / own)

            runs = {kind: partial(run, kind) for kind in (NONE, ALL, KILLED, PAUSED, REFUSING)}
            measured = in_turns(runs, arguments.repeats, lambda one: f"{one.rate:,.0f} tuples/s")
    _print(arguments, measured)


def _print(arguments: argparse.Namespace, measured: Mapping[str, Sequence[Measured]]) -> None:
    base = statistics.median(run.rate for run in measured[NONE])
    title = (
        f"{GROUPING}, {arguments.records:,} tuples in batches of {arguments.batch:,}, {SOURCES} sources, "
        f"{WORKERS} workers, {os.cpu_count()} cores, median of {arguments.repeats}"
    )
    heads = "tuples/s", "lowest", "highest", "× without", "points written", "points lost"
    table = make_table("", *heads, title=title)
    for kind, runs in measured.items():
        rates, written, lost = zip(*runs, strict=True)
        points = (f"{statistics.median(numbers):,.0f}" for numbers in (written, lost))
        table.add_row(kind, *spread(rates), f"{statistics.median(rates) / base:.2f}", *points)
    print_table(table)


if __name__ == "__main__":
    main()
