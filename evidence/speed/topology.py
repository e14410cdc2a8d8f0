"""Tuples per second through the whole topology, for each grouping, beside Spark's own groupBy from the same topic.

    python -m evidence.speed.topology [--records N] [--groupings KEY,...] [--repeats N]

*Native* cuts the key out of messages of which it knows how they are spelled; *from_json* parses them, as a user would.
Tuples cost nothing here (x0): this measures what balancing costs, not what it gains. All runs share one broker, one
topic and one Spark; the contestants run in turns, and the table has the median of each. The first batch of a run (JIT,
Python workers) is not counted in the rate; the CPU is that of the whole run.
"""

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.speed.measuring import (
    SOURCES,
    TYPE,
    WORKERS,
    RunCost,
    in_turns,
    measure_run,
    open_bench,
    ours,
    records_option,
    spread,
)  # fmt: skip
from evidence.speed.native import FIELDS, cut, native
from evidence.speed.processes import KINDS, memory
from evidence.tables import make_table, print_table
from unskew.apps.driver.session import open_session
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import send_packets
from unskew.apps.splitter.formats import get_splitter
from unskew.apps.splitter.kafka_source import FETCH
from unskew.apps.worker.worker import Worker
from unskew.kafka.connection import Connection

#: Name → whether it parses the messages as JSON.
NATIVE = {"native": False, "native, from_json": True}


def stages(spark: SparkSession, connection: Connection) -> dict[str, Callable[[], DataFrame]]:
    """The topology's stages as batch queries, each with all stages before it."""
    reader = spark.read.format("kafka").options(**FETCH).options(**connection.spark()).option("subscribe", "bench")
    worker, reading = Worker(), get_splitter(TYPE)

    def routed() -> DataFrame:
        opened = reading.open(reader.load(), F.col("partition").alias("source"))
        return send_packets(
            opened, Routing("PARTIAL_KEY", WORKERS), "key", ["key"], source="source", fields=reading.fields
        )

    def worked() -> DataFrame:
        return routed().mapInArrow(worker.__call__, worker.ddl)

    return {
        "source": lambda: reader.load().select("partition", "value"),
        "+ splitter, router, placement": routed,
        "+ worker": worked,
        "+ merge": lambda: worked().groupBy("key", "worker").sum("count"),
        "native groupBy(key).count()": lambda: (
            reader.load().select(cut(F.col("value"), FIELDS[TYPE]).alias("key")).groupBy("key").count()
        ),
    }


class Memory:
    """Peak memory (proportional set size, MiB) of the driver, the JVM and all Python workers together, sampled."""

    def __init__(self) -> None:
        self.peak = dict.fromkeys(KINDS, 0.0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            now = memory()
            self.peak = {kind: max(self.peak[kind], now[kind]) for kind in KINDS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    records_option(parser, 20_000_000)
    parser.add_argument("--groupings", default="SHUFFLE,KEY,PARTIAL_KEY,DYNAMIC_KEY")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    groupings = arguments.groupings.split(",")
    with open_bench() as bench:
        loaded = bench.publish(records=arguments.records)

        def run(name: str, repeat: int) -> RunCost:
            chosen = bench.settings(name if name in groupings else "KEY", f"{name}-{repeat}")
            if name in groupings:
                return measure_run(partial(ours, spark, chosen))
            return measure_run(partial(native, spark, chosen, arguments.records, parse=NATIVE[name]))

        first = bench.settings(groupings[0], "first")
        with Memory() as peak, open_session(first, groupings) as spark:
            runs = {name: partial(run, name) for name in [*groupings, *NATIVE]}
            measured = in_turns(runs, arguments.repeats, lambda one: f"{one.rate:,.0f} tuples/s")
            parts = {name: partial(timed, query) for name, query in stages(spark, bench.connection).items()}
            costs = in_turns(parts, arguments.repeats, lambda seconds: f"{seconds:.1f} s")
        _print(arguments.records, measured, costs, peak.peak, loaded.records / loaded.seconds)


def timed(query: Callable[[], DataFrame], _: int) -> float:
    """Run a batch query, and throw its rows away; the seconds that it took."""
    begun = time.monotonic()
    query().write.format("noop").mode("overwrite").save()
    return time.monotonic() - begun


def _print(
    records: int,
    measured: Mapping[str, Sequence[RunCost]],
    costs: Mapping[str, Sequence[float]],
    peak: Mapping[str, float],
    published: float,
) -> None:
    base = statistics.median(run.rate for run in measured["native"])
    title = f"Streaming, {records:,} tuples, {SOURCES} sources, {WORKERS} workers, {os.cpu_count()} cores"
    cpus = ("CPU s a million tuples", *(f"… {kind}" for kind in KINDS))
    table = make_table("", "tuples/s, median", "lowest", "highest", "× native", *cpus, title=title)
    for name, runs in measured.items():
        rates = [run.rate for run in runs]
        each = [statistics.median(run.cpu[kind] for run in runs) / records * 1e6 for kind in KINDS]
        times = (f"{seconds:.2f}" for seconds in (sum(each), *each))
        table.add_row(name, *spread(rates), f"{statistics.median(rates) / base:.2f}", *times)
    print_table(table)
    title = "Where the time goes: the stages as batch queries, each with those before it, in ns a tuple"
    table = make_table("", "so far", "this stage", "tuples/s", title=title)
    before = 0.0
    for name, values in costs.items():
        each = statistics.median(values) / records * 1e9
        table.add_row(name, f"{each:.0f}", f"{each - before:.0f}" if name[0] == "+" else "", f"{1e9 / each:,.0f}")
        before = each
    print_table(table)
    print("Peak memory:", ", ".join(f"{kind} {mib:,.0f} MiB" for kind, mib in peak.items()))
    print(f"The producer published {published:,.0f} messages/s before that: it keeps up.")


if __name__ == "__main__":
    main()
