"""How benchmarks measure: contestants in turns, runs of a topology, a stream's batches, a topic's messages."""

import argparse
import heapq
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Message
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evidence.speed.processes import KINDS, cpu, spent
from unskew.apps.driver.listeners import Follower
from unskew.apps.driver.session import start_spark
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.driver.termination import QueryHalted, stop_between_batches
from unskew.apps.metrics.query_progress import get_kafka_source
from unskew.apps.settings import Settings
from unskew.deploy.servers.broker import Broker
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.interface import Dataset
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.pace import Rate
from unskew.producers.publish import UploadSummary, publish_dataset

#: The stream of most benchmarks, the partitions of its topic, and the workers.
TYPE, SOURCES, WORKERS = "COUNTRY_SKEW_R80", 4, 10

Name = TypeVar("Name")
Measured = TypeVar("Measured")


def in_turns(
    contestants: Mapping[Name, Callable[[int], Measured]], repeats: int, text: Callable[[Measured], str] | None = None
) -> dict[Name, list[Measured]]:
    """Run all contestants one after the other, and that several times.

    In each repeat another contestant comes first: the first one meets a machine that the others have not warmed.

    ``contestants``: Name → a function that runs the contestant once, and returns what it measured. It gets the repeat's
    number, from 0. ``repeats``: How often each contestant runs. ``text``: What is printed of a run. By default the
    run's end alone is printed.
    Returns dict: Name → what was measured, run by run.
    """
    names = list(contestants)
    found: dict[Name, list[Measured]] = {name: [] for name in names}
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            measured = contestants[name](repeat)
            found[name].append(measured)
            print(f"repeat {repeat + 1} of {repeats}: {name}", *([text(measured)] if text else []), flush=True)
    return found


def spread(values: Sequence[float]) -> list[str]:
    """Median, lowest and highest, as a table shows them."""
    return [f"{value:,.0f}" for value in (statistics.median(values), min(values), max(values))]


def settings(connection: Connection, grouping: str, checkpoint: Path, **others: Any) -> Settings:
    """A topology over the topic ``bench``, whose tuples cost nothing (x0), where ``others`` don't say otherwise."""
    usual = Settings("LOCAL", TYPE, grouping, "bench", SOURCES, WORKERS, "x0", connection, str(checkpoint))
    return replace(usual, **({"window": 5.0, "until_drained": True} | others))


@dataclass(frozen=True)
class Bench:
    """A broker, and a folder for checkpoints."""

    broker: Broker
    connection: Connection
    folder: Path

    def publish(
        self, topic: str = "bench", kind: str = TYPE, partitions: int = SOURCES, **options: Any
    ) -> UploadSummary:
        """Make a topic, and publish a dataset with these options into it."""
        ensure_topic(self.connection, topic, partitions)
        return publish_dataset(self.connection, topic, create_dataset(kind, **options))

    def settings(self, grouping: str, checkpoint: str, **others: Any) -> Settings:
        """As ``settings``, with a checkpoint in the folder."""
        return settings(self.connection, grouping, self.folder / checkpoint, **others)


@contextmanager
def open_bench() -> Iterator[Bench]:
    """Start a broker, and give it and a folder as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "kafka") as broker:
        yield Bench(broker, Connection(broker.bootstrap_servers), Path(folder))


@contextmanager
def publish_along(connection: Connection, topic: str, dataset: Dataset, pace: Rate) -> Iterator[None]:
    """Publish a dataset at a pace as long as the block lasts, which raises at its end what publishing has raised."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(publish_dataset, connection, topic, dataset, pace=pace, stopped=over.is_set)
        try:
            yield
        finally:
            over.set()
    sent.result()


def keep_publishing(run: Settings, rate: float) -> AbstractContextManager[None]:
    """Publish the usual stream into a run's topic at a rate (tuples/s), for the run's time or as long as the block."""
    dataset = create_dataset(TYPE, records=round(rate * (run.run_time or 0)))
    return publish_along(run.connection, run.topic, dataset, Rate(rate))


def records_option(parser: argparse.ArgumentParser, default: int) -> None:
    """Add ``--records``, refusing so few that a run would have nothing after its first batch."""
    first = settings(Connection(""), "KEY", Path()).batch_limit

    def integer(text: str) -> int:
        if (records := int(text)) <= first:
            raise argparse.ArgumentTypeError(f"{records:,} is too few; above {first:,}: the first batch isn't counted")
        return records

    parser.add_argument("--records", type=integer, default=default)


class Batch(NamedTuple):
    """A batch that had messages: how many, the seconds that it took, and when its end was noticed (monotonic, s)."""

    messages: int
    seconds: float
    done: float


def ours(spark: SparkSession, run: Settings) -> list[Batch]:
    """Run a topology until its topic is drained; its batches."""
    batches: list[Batch] = []
    assert StreamingJob(run, [], [into(batches)]).run(spark).drained
    return batches


def into(batches: list[Batch]) -> Follower:
    """A listener to a query's progress that appends each batch with messages to a list."""

    def append(progress: Mapping[str, Any]) -> None:
        if read := get_kafka_source(progress)["numInputRows"]:
            batches.append(Batch(read, progress["durationMs"]["triggerExecution"] / 1000, time.monotonic()))

    return append


def rate(batches: Sequence[Batch]) -> float:
    """Messages/s after the first batch."""
    return sum(batch.messages for batch in batches[1:]) / (batches[-1].done - batches[0].done)


class RunCost(NamedTuple):
    """A run's rate (messages/s), and the CPU seconds of each kind of process."""

    rate: float
    cpu: dict[str, float]


def measure_run(run: Callable[[], Sequence[Batch]]) -> RunCost:
    """Let something run in this process' Spark."""
    before = cpu()
    batches = run()
    after = cpu()
    return RunCost(rate(batches), {kind: after[kind] - before[kind] for kind in KINDS})


def run_until(query: StreamingQuery, over: Callable[[], bool]) -> None:
    """Let a query run until something is over, then stop it between two batches."""
    while not over():
        if query.awaitTermination(0.05):  # pyright: ignore[reportArgumentType]  it takes floats, too
            raise RuntimeError("the stream ended by itself")
    stop_between_batches(query)


@dataclass
class Batches:
    """A stream's batches: what the sink returned for each, and when each was over (wall and CPU, in s)."""

    returned: list[Any] = field(default_factory=list)
    over: list[tuple[float, float]] = field(default_factory=list)

    def seconds(self, warm: int) -> tuple[float, float]:
        """Wall and CPU seconds of the batches after the first ``warm`` ≥ 1."""
        (wall, spent), (first, before) = self.over[-1], self.over[warm - 1]
        return wall - first, spent - before


def capped(df: DataFrame, checkpoint: str, count: int, sink: Callable[[DataFrame], Any]) -> Batches:
    """Run a stream for so many batches, as fast as it can, each through ``sink``.

    The stream's source must cap its batches, and have messages for one batch more.
    """
    found = Batches()

    def batch(rows: DataFrame, _: int) -> None:
        if len(found.over) == count:
            raise QueryHalted
        found.returned.append(sink(rows))
        found.over.append((time.monotonic(), spent()))

    query = df.writeStream.option("checkpointLocation", checkpoint).foreachBatch(batch).start()
    run_until(query, lambda: len(found.over) == count)
    return found


def run_files(
    spark: SparkSession,
    ddls: Sequence[str],
    stream: Callable[..., DataFrame],
    batches: Iterable[Sequence[pa.Table]],
    look: Callable[[StreamingQuery], Measured] = lambda _: None,
) -> tuple[list[tuple[float, float]], Measured]:
    """Run a stream over Parquet files, one a batch and source, and throw its results away.

    ``spark``: It runs the stream. ``ddls``: The schema of each source's files. ``stream``: Makes the stream of the
    sources' rows and the checkpoint's path. ``batches``: The tables of each batch, one a source. Files are written
    before their batch's time begins. ``look``: Looks at the query at the end.
    Returns taken : list: CPU and wall seconds of each batch. Returns seen: What ``look`` has returned.
    """
    taken = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        sources = [Path(folder, f"in{number}") for number in range(len(ddls))]
        for source in sources:
            source.mkdir()
        rows = [spark.readStream.schema(ddl).parquet(str(of)) for ddl, of in zip(ddls, sources, strict=True)]
        checkpoint = f"{folder}/checkpoint"
        writer = stream(*rows, checkpoint).writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.start()
        for number, tables in enumerate(batches):
            for source, table in zip(sources, tables, strict=True):
                pq.write_table(table, f"{source}-next")
            before, began = spent(), time.monotonic()
            for source in sources:
                Path(f"{source}-next").rename(source / f"{number}.parquet")
            query.processAllAvailable()
            taken.append((spent() - before, time.monotonic() - began))
        seen = look(query)
        query.stop()
    return taken, seen


def run_apart(function: Callable[..., Measured], *arguments: Any) -> Measured:
    """What a function returns in a fresh process, which has no JVM yet and may have children of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


@contextmanager
def open_spark(master: str, partitions: int, groupings: Iterable[str] = ()) -> Iterator[SparkSession]:
    """A Spark with the topology's settings, and so many partitions after a shuffle, as long as the block lasts."""
    conf = {
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        "spark.executorEnv.UNSKEW_GROUPINGS": ",".join(groupings),
    }
    spark = start_spark("benchmark", master, partitions, conf)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def open_plain_spark(conf: Mapping[str, str], cores: int = 2) -> Iterator[SparkSession]:
    """A Spark with these settings and no others, as long as the block lasts."""
    spark = SparkSession.builder.master(f"local[{cores}]").config(map=dict(conf)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def parse_numbers(text: str) -> list[int]:
    """Whole numbers that are separated by commas, in ascending order."""
    return sorted({int(number) for number in text.split(",") if number})


def on_slots(tasks: Iterable[int], slots: int) -> list[int]:
    """The load of each slot, where slots take tasks as they become free, in the tasks' order."""
    loads = [0] * slots
    for load in tasks:
        heapq.heapreplace(loads, loads[0] + load)
    return loads


def messages(connection: Connection, topic: str, start: Mapping[int, int] | None = None) -> list[Message]:
    """All messages that a topic has now, from these offsets on; by default from the first one on."""
    with TopicReader(connection, topic, start) as reader:
        return [*reader.to_end()]
