"""Tuples per second through the whole topology, for each grouping, beside Spark's own groupBy from the same topic.

    python -m benchmarks.topology [--records N] [--groupings KEY,...] [--repeats N]

*Native* cuts the key out of messages of which it knows how they are spelled; *from_json* parses them, as one would.
Tuples cost nothing here (x0): this measures what balancing costs, not what it gains. All runs share one broker, one
topic and one Spark; repeats alternate between the contestants, and the median is told. The first batch of a run (JIT,
Python workers) is not counted in the rate; the CPU is that of the whole run.
"""

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.native import FIELDS, counted, cut
from benchmarks.processes import KINDS, cpu, memory
from unskew.apps.run.ending import stop_between_batches
from unskew.apps.run.follow import Follower, follow, kafka_source
from unskew.apps.run.run import Run
from unskew.apps.run.session import session
from unskew.apps.topology.placement import place
from unskew.apps.topology.router import Routing
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.source import FETCH
from unskew.apps.topology.splitter import splitter
from unskew.apps.topology.worker import Worker
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.broker import Broker
from unskew.producers.publish import publish
from unskew.producers.registry import create

TYPE, SOURCES, WORKERS = "COUNTRY_SKEW_R80", 4, 10
#: Name → whether it parses the messages as JSON.
NATIVE = {"native": False, "native, from_json": True}


def settings(connection: Connection, grouping: str, checkpoint: Path) -> Settings:
    return Settings(
        mode="LOCAL", source_type=TYPE, grouping=grouping, source_name="bench", sources=SOURCES, workers=WORKERS,
        speed="x0", connection=connection, checkpoint=str(checkpoint), window=5.0, until_drained=True,
    )  # fmt: skip


def records_option(parser: argparse.ArgumentParser, default: int) -> None:
    """Add ``--records``, refusing so few that a run would have nothing after its first batch."""
    first = settings(Connection(""), "KEY", Path()).batch_limit

    def integer(text: str) -> int:
        if (records := int(text)) <= first:
            raise argparse.ArgumentTypeError(f"{records:,} is too few; above {first:,}: the first batch isn't counted")
        return records

    parser.add_argument("--records", type=integer, default=default)


class Batch(NamedTuple):
    """One that had messages: how many, how long it took (s), and when it was told to be done (monotonic, s)."""

    messages: int
    seconds: float
    done: float


def ours(spark: SparkSession, run: Settings) -> list[Batch]:
    """The batches of one run of ours."""
    batches: list[Batch] = []
    assert Run(run, [], [_into(batches)]).run(spark).drained
    return batches


def native(spark: SparkSession, run: Settings, records: int, *, parse: bool = False) -> list[Batch]:
    """Those of ``groupBy(window, key).count()``: same topic, batch size, state store, and windows."""
    batches: list[Batch] = []
    counts = counted(spark, run, parse=parse)
    with follow(spark, "native", _into(batches)):
        query = (
            counts.writeStream.queryName("native")
            .option("checkpointLocation", run.checkpoint)
            .trigger(processingTime="1 second")
            .foreachBatch(lambda df, _: df.write.format("noop").mode("overwrite").save())
            .start()
        )
        while sum(batch.messages for batch in batches) < records:
            assert not query.awaitTermination(0.05), query.exception()
        stop_between_batches(query)
    return batches


def _into(batches: list[Batch]) -> Follower:
    def tell(progress: Mapping[str, Any]) -> None:
        if read := kafka_source(progress)["numInputRows"]:
            batches.append(Batch(read, progress["durationMs"]["triggerExecution"] / 1000, time.monotonic()))

    return tell


def rate(batches: list[Batch]) -> float:
    """Messages/s after the first batch."""
    return sum(batch.messages for batch in batches[1:]) / (batches[-1].done - batches[0].done)


def stages(spark: SparkSession, connection: Connection) -> dict[str, Callable[[], DataFrame]]:
    """The topology's stages as batch queries, each with all before it."""
    reader = spark.read.format("kafka").options(**FETCH).options(**connection.spark()).option("subscribe", "bench")
    worker = Worker()

    reading = splitter(TYPE)

    def routed() -> DataFrame:
        opened = reading.opened(reader.load(), F.col("partition").alias("source"))
        return place(opened, Routing("PARTIAL_KEY", WORKERS), "key", ["key"], source="source", fields=reading.fields)

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
    console = Console(highlight=False, width=120)
    groupings = arguments.groupings.split(",")
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        connection = Connection(broker.bootstrap_servers)
        ensure_topic(connection, "bench", SOURCES)
        loaded = publish(connection, "bench", create(TYPE, records=arguments.records))
        rates: dict[str, list[float]] = {name: [] for name in [*groupings, *NATIVE]}
        spent: dict[str, list[dict[str, float]]] = {name: [] for name in rates}
        costs: dict[str, list[float]] = {}
        first = settings(connection, groupings[0], Path(folder) / "first")
        with Memory() as peak, session(first, groupings) as spark:
            for repeat in range(arguments.repeats):
                for name, measured in rates.items():
                    run = settings(connection, name if name in groupings else "KEY", Path(folder) / f"{name}-{repeat}")
                    before = cpu()
                    if name in groupings:
                        batches = ours(spark, run)
                    else:
                        batches = native(spark, run, arguments.records, parse=NATIVE[name])
                    spent[name].append({kind: seconds - before[kind] for kind, seconds in cpu().items()})
                    measured.append(rate(batches))
                    console.print(f"repeat {repeat + 1} of {arguments.repeats}: {name} {measured[-1]:,.0f} tuples/s")
            for _ in range(arguments.repeats):
                for name, query in stages(spark, connection).items():
                    begun = time.monotonic()
                    query().write.format("noop").mode("overwrite").save()
                    costs.setdefault(name, []).append(time.monotonic() - begun)
        _print(console, arguments.records, rates, spent, costs, peak.peak, loaded.records / loaded.seconds)


def _print(
    console: Console,
    records: int,
    rates: dict[str, list[float]],
    spent: dict[str, list[dict[str, float]]],
    costs: dict[str, list[float]],
    peak: dict[str, float],
    published: float,
) -> None:
    base = statistics.median(rates["native"])
    table = Table(title=f"Streaming, {records:,} tuples, {SOURCES} sources, {WORKERS} workers, {os.cpu_count()} cores")
    cpus = ("CPU s a million tuples", *(f"… {kind}" for kind in KINDS))
    for column in ("", "tuples/s, median", "lowest", "highest", "× native", *cpus):
        table.add_column(column, justify="right" if column else "left")
    for name, values in rates.items():
        middle = statistics.median(values)
        each = [statistics.median(run[kind] for run in spent[name]) / records * 1e6 for kind in KINDS]
        shown = [f"{middle:,.0f}", f"{min(values):,.0f}", f"{max(values):,.0f}", f"{middle / base:.2f}"]
        table.add_row(name, *shown, *(f"{seconds:.2f}" for seconds in (sum(each), *each)))
    console.print(table)
    table = Table(title="Where the time goes: the stages as batch queries, each with those before it, in ns a tuple")
    for column in ("", "so far", "this stage", "tuples/s"):
        table.add_column(column, justify="right" if column else "left")
    before = 0.0
    for name, values in costs.items():
        each = statistics.median(values) / records * 1e9
        table.add_row(name, f"{each:.0f}", f"{each - before:.0f}" if name[0] == "+" else "", f"{1e9 / each:,.0f}")
        before = each
    console.print(table)
    console.print("Peak memory: " + ", ".join(f"{kind} {mib:,.0f} MiB" for kind, mib in peak.items()))
    console.print(f"The producer published {published:,.0f} messages/s before that: it keeps up.")


if __name__ == "__main__":
    main()
