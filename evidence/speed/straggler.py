"""With work that costs time: how long batches take against the ideal, all work spread evenly over the workers.

    python -m evidence.speed.straggler [--records N] [--groupings KEY,...]

A tuple costs its worker a millisecond (x1). A batch takes as long as its slowest worker: with KEY that is the hot key's
home. DYNAMIC_KEY's periods are shortened, as in the demo, so that it learns within the run.
"""

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evidence.speed.measuring import SOURCES, TYPE, WORKERS, settings
from unskew.apps.cli.demo import SHORTENED
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.job_summary import JobTally
from unskew.apps.driver.session import open_session
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.deploy.servers.broker import Broker
from unskew.grouping import get_parameters
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.publish import publish_dataset


class Times:
    """Batches' wall time and ideal time (s), from the second batch on."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.ideal: list[float] = []
        self._before: float | None = None

    def __call__(self, report: BatchReport) -> None:
        now = time.monotonic()
        if self._before is not None and report.loads.any():
            self.wall.append(now - self._before)
            self.ideal.append(float(report.busy.sum()) / WORKERS)
        self._before = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=80_000)
    parser.add_argument("--groupings", default="KEY,PARTIAL_KEY,DYNAMIC_KEY,SHUFFLE")
    arguments = parser.parse_args()
    table = Table(title=f"{arguments.records:,} tuples of 1 ms, {WORKERS} workers, batches of 10,000")
    for column in ("", "STD_DEV", "DIST_COST", "slowest / mean", "batch, s", "ideal, s", "batch / ideal", "tuples/s"):
        table.add_column(column, justify="right" if column else "left")
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        ensure_topic(connection, "bench", SOURCES)
        publish_dataset(connection, "bench", create_dataset(TYPE, records=arguments.records))
        for name in arguments.groupings.split(","):
            options = {k: v for k, v in SHORTENED.items() if k in get_parameters(name)}
            run = settings(connection, name, Path(folder) / name, speed="x1", trigger=0.0, options=options)
            tally, times = JobTally(name), Times()

            def listener(report: BatchReport, tally: JobTally = tally, times: Times = times) -> None:
                tally(report)
                times(report)

            with open_session(run) as spark:
                assert StreamingJob(run, [listener]).run(spark).drained
            summary, batches = tally.summary(), len(times.wall)
            wall, ideal = sum(times.wall) / batches, sum(times.ideal) / batches
            row = [summary.std_dev, summary.dist_cost, summary.straggling, wall, ideal, wall / ideal]
            table.add_row(name, *(f"{number:.2f}" for number in row), f"{summary.tuples_per_second:,.0f}")
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
