"""What PLANNED's planner costs: a batch's time beside BOUNDED_LOAD, static frames, and the planner alone.

    python -m evidence.speed.planning [--modes LOCAL,CLUSTER] [--sources S,...] [--workers W] [--size N] [--batches N]
                                  [--repeats N] [--rows N] [--many S,...] [--keys K] [--wide W]

First topologies of x0 on two copies of one stream, for each S both groupings in turns in one Spark. The first batches
of a run aren't counted. In mode CLUSTER that Spark is a standalone cluster on this machine: two executors with two
slots each.

Then `balance` of a Parquet file of N rows, beside ``repartition``. Four fifths of the rows have one key, the others K.

Then, without Spark, a planner on the loopback interface and S sources that have counted a part of the same batch of K
keys: what a wave of all of them takes until the last has its quotas, what goes over the sockets for a source (the
keys to count alone, its counts, its quotas), and the peak of the planner's memory. (Sources are threads of the same
process, so the time is above that of a driver.)
"""

import argparse
import statistics
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.table import Table

from evidence.speed.measuring import in_turns, open_bench, open_spark, ours, parse_numbers, run_apart
from evidence.tables import make_table, print_table
from unskew import balance
from unskew.apps.driver.plans.plan_service import ListenAddress
from unskew.apps.driver.plans.planner import Planner
from unskew.apps.driver.session import open_session
from unskew.apps.router.planner_protocol import pack_value
from unskew.apps.router.planner_session import PlannerSession
from unskew.apps.settings import MODES
from unskew.deploy.servers.spark_cluster import SparkCluster
from unskew.grouping.planned.counts import SourceCounts
from unskew.grouping.planned.planned import Planned
from unskew.loopback import LOOPBACK

_COLD = 3  # batches at a run's beginning that aren't counted
_COMPARED = ("BOUNDED_LOAD", "PLANNED")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", type=_modes, default=list(MODES), help="of the topologies")
    parser.add_argument("--sources", type=parse_numbers, default=[4, 16], help="of the topologies")
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--size", type=int, default=50_000, help="tuples a batch")
    parser.add_argument("--batches", type=int, default=15, help=f"of a run, above {_COLD}")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000_000, help="of the static frame")
    parser.add_argument("--many", type=parse_numbers, default=[16, 256, 1000], help="sources of the planner alone")
    parser.add_argument("--keys", type=int, default=1_000_000, help="different keys, at most, in the planner's batch")
    parser.add_argument("--wide", type=int, default=1000, help="workers of the planner alone")
    given = parser.parse_args()
    if given.sources:
        for mode in given.modes:
            # (A JVM of its own: that of the cluster's driver must begin with the cluster's secret.)
            print_table(run_apart(_batches, given, mode))
    if given.rows:
        print_table(_frames(given))
    if given.many:
        print_table(_alone(given))


def _modes(text: str) -> list[str]:
    if unknown := {*text.split(",")} - {*MODES}:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not of {', '.join(MODES)}")
    return text.split(",")


def _batches(given: argparse.Namespace, mode: str) -> Table:
    """The median time of a batch by S and grouping."""
    with ExitStack() as stack:
        bench = stack.enter_context(open_bench())
        shape = {"max_tuples": given.size, "workers": given.workers}
        if mode == "CLUSTER":
            cluster = stack.enter_context(SparkCluster(bench.folder / "cluster", workers=2, cores=2))
            shape |= {"mode": mode, "master": cluster.master, "conf": cluster.conf}
        for sources in given.sources:
            bench.publish(f"bench-{sources}", partitions=sources, records=given.size * given.batches)
        with open_session(bench.settings(_COMPARED[0], "first", **shape), _COMPARED) as spark:

            def run(sources: int, grouping: str, repeat: int) -> list[float]:
                of = shape | {"topic": f"bench-{sources}", "sources": sources}
                batches = ours(spark, bench.settings(grouping, f"{sources}-{grouping}-{repeat}", **of))
                return [batch.seconds for batch in batches[_COLD:]]

            pairs = [(sources, grouping) for sources in given.sources for grouping in _COMPARED]
            found = in_turns({f"S = {s}, {name}": partial(run, s, name) for s, name in pairs}, given.repeats)
    table = make_table(f"{mode}: a batch, ms", *_COMPARED, "more, ms", "ratio")
    for sources in given.sources:
        one, other = (
            1000 * statistics.median(chain.from_iterable(found[f"S = {sources}, {name}"])) for name in _COMPARED
        )
        table.add_row(f"S = {sources}", f"{one:,.0f}", f"{other:,.0f}", f"{other - one:+,.0f}", f"{other / one:.3f}")
    return table


def _frames(given: argparse.Namespace) -> Table:
    """What `balance` of a static frame takes until each worker has counted its rows, and the greatest count."""
    with tempfile.TemporaryDirectory() as folder, open_spark("local[2]", 2, _COMPARED) as spark:
        number = F.when(F.col("id") % 5 != 0, -1).otherwise(F.xxhash64("id") % given.keys)
        made = spark.range(given.rows).select(F.concat(F.lit("user "), number).alias("user"), "id")
        made.write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows")
        ways: dict[str, Callable[[], DataFrame]] = {
            "repartition": lambda: rows.repartition(given.workers, "user"),
            **{name: partial(balance, rows, "user", given.workers, name) for name in _COMPARED},
        }
        largest: dict[str, int] = {}

        def run(way: str, _repeat: int) -> list[float]:
            begun = time.perf_counter()
            placed = ways[way]().groupBy(F.spark_partition_id()).agg(F.count("id").alias("rows"), F.sum("id"))
            largest[way] = max(row.rows for row in placed.collect())
            return [time.perf_counter() - begun]

        found = in_turns({way: partial(run, way) for way in ways}, given.repeats)
    table = make_table(f"{given.rows:,} rows", "s", "of repartition", "slowest worker / mean")
    base = statistics.median(chain.from_iterable(found["repartition"]))
    for way in ways:
        took = statistics.median(chain.from_iterable(found[way]))
        most = largest[way] * given.workers / given.rows
        table.add_row(way, f"{took:.1f}", f"{took / base:.2f}", f"{most:.3f}")
    return table


def _alone(given: argparse.Namespace) -> Table:
    """The planner alone, in the first batch and in one with remembered replicas."""
    heads = "sources", "batch", "ms", "bytes of keys", "of counts", "of quotas", "peak, MB"
    table = make_table(*heads)
    for sources in given.many:
        with closing(Planner(lambda _: Planned(given.wide), None, ListenAddress(LOOPBACK))) as planner:
            _wave(planner, 0, sources, given)  # compiles the kernels
        tracemalloc.start()
        with closing(Planner(lambda _: Planned(given.wide), None, ListenAddress(LOOPBACK))) as planner:
            _wave(planner, 0, sources, given)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        with closing(Planner(lambda _: Planned(given.wide), None, ListenAddress(LOOPBACK))) as planner:
            for batch, which in enumerate(("first", "second")):
                took, *sizes = _wave(planner, batch, sources, given)
                of_memory = f"{peak / 1e6:,.0f}" if batch == 0 else ""
                of_bytes = [f"{size:,.0f}" for size in sizes]
                table.add_row(f"{sources:,}", which, f"{1000 * took:,.0f}", *of_bytes, of_memory)
    return table


def _wave(planner: Planner, batch: int, sources: int, given: argparse.Namespace) -> tuple[float, ...]:
    """Seconds until all sources have their quotas, and a source's mean bytes of keys, counts and quotas."""
    keys = np.random.default_rng(batch).zipf(1.2, 8 * given.keys) % given.keys
    asked = [PlannerSession(planner.address, "run", batch, source) for source in range(sources)]
    counts = [_counted(each, keys[source::sources], given.wide) for source, each in enumerate(asked)]
    waiting = [
        threading.Thread(target=each.request_quotas, args=[own]) for each, own in zip(asked, counts, strict=True)
    ]
    begun = time.perf_counter()
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    took = time.perf_counter() - begun
    for each in asked:
        each.close()
    known = statistics.mean(len(each.replicas) for each in asked if each.replicas is not None)
    sent = statistics.mean(len(pack_value(own)) for own in counts)
    return took, known, sent, statistics.mean(len(pack_value(each.quotas)) for each in asked if each.quotas is not None)


def _counted(asked: PlannerSession, keys: np.ndarray, workers: int) -> SourceCounts:
    router = Planned(workers)
    assert asked.replicas is not None
    router.load(asked.replicas)
    return router.count(keys)


if __name__ == "__main__":
    main()
