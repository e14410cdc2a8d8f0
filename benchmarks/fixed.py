"""What a batch costs however few tuples it has, and what a tuple costs, beside Spark's own groupBy.

    python -m benchmarks.fixed [--sizes N,N,...] [--batches N] [--grouping NAME] [--repeats N]

Runs of batches of several sizes, x0, in one Spark, alternating between the contestants; a line is fitted to the median
times of a batch over their sizes. The first batches of a run aren't counted; Spark's own results go nowhere.
"""

import argparse
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from benchmarks.topology import SOURCES, TYPE, native, ours, settings
from unskew.apps.run.session import session
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.producers.publish import publish
from unskew.producers.registry import create

_COLD = 3  # batches at a run's beginning that aren't counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes", default="1000,30000,100000,300000,1000000", help="tuples a batch, at least two sizes"
    )
    parser.add_argument("--batches", type=int, default=12, help=f"of a run, above {_COLD}")
    parser.add_argument("--grouping", default="PARTIAL_KEY", help="of ours")
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    sizes = sorted({int(size) for size in arguments.sizes.split(",")})
    if len(sizes) < 2 or arguments.batches <= _COLD:
        parser.error(f"--sizes has to name at least two, and --batches has to be above {_COLD}")
    times: dict[str, dict[int, list[float]]] = {name: {size: [] for size in sizes} for name in ("ours", "native")}
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        for size in sizes:
            ensure_topic(connection, f"bench-{size}", SOURCES)
            publish(connection, f"bench-{size}", create(TYPE, records=size * arguments.batches))
        base = settings(connection, arguments.grouping, Path(folder) / "first")
        with session(base, [arguments.grouping]) as spark:
            for repeat in range(arguments.repeats):
                for size in sizes:
                    for name, measured in times.items():
                        path = str(Path(folder) / f"{name}-{size}-{repeat}")
                        run = replace(base, source_name=f"bench-{size}", max_tuples=size, checkpoint=path)
                        records = size * arguments.batches
                        batches = ours(spark, run) if name == "ours" else native(spark, run, records)
                        measured[size] += [batch.seconds for batch in batches[_COLD:]]
                        print(f"repeat {repeat + 1}: {name}, {size:,} a batch", flush=True)
    _print(times)


def _print(times: dict[str, dict[int, list[float]]]) -> None:
    sizes = list(times["ours"])
    table = Table("a batch of", *(f"{size:,}" for size in sizes), "fixed, ms", "ns a tuple", box=MARKDOWN)
    for name, measured in times.items():
        middles = [statistics.median(measured[size]) for size in sizes]
        each, fixed = np.polyfit(sizes, middles, 1)
        shown = [f"{1000 * seconds:,.0f} ms" for seconds in middles]
        table.add_row(name, *shown, f"{1000 * fixed:,.0f}", f"{1e9 * each:,.0f}")
    ratios = [statistics.median(times["ours"][size]) / statistics.median(times["native"][size]) for size in sizes]
    table.add_row("ours / native", *(f"{ratio:.2f}" for ratio in ratios), "", "")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
