"""The stage of live experiments: a broker and Spark on this machine, and one topology after the other over them.

A worker sleeps for its tuples' costs, so that ten workers wait side by side on any machine. A batch's figures are the
times that workers measured, without the second or so that a batch costs all schemes alike.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tenacity
from numpy.typing import NDArray
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from evidence.speed.measuring import open_bench
from unskew import keyed_map, watch
from unskew.apps.driver import session
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.driver.termination import LatePython, translate_failure
from unskew.apps.metrics.balance_observation import BatchBalance
from unskew.apps.settings import Settings
from unskew.errors import EnvironmentFault
from unskew.grouping import GROUPINGS
from unskew.kafka.connection import Connection
from unskew.kafka.outbox import Outbox
from unskew.kafka.topics import ensure_topic
from unskew.operators import KeyedOperator
from unskew.spark.setting_names import PARTITIONS

THREADS = 16  # workers that can wait side by side
_ATTEMPTS = 5
_OBSERVED, _PROGRESS = "stage", "spark.sql.streaming.numRecentProgressUpdates"


@dataclass
class Course:
    """A run's batches with tuples, by the workers' reports.

    ``tuples``, ``busy`` (int64[b, W], float64[b, W]): Each worker's tuples, and the time it was at work (s).
    ``internals``: The router's ``internals`` at each batch's end. ``moved``, ``seconds`` (int64[b], float64[b]): Of
    ``drain`` alone: the states that left their worker, and the batch's whole time (s).
    """

    tuples: NDArray[np.int64]
    busy: NDArray[np.float64]
    internals: list[dict[str, Any]] = field(default_factory=list)
    moved: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    seconds: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def within(self, first: int, stop: int | None = None) -> "Course":
        """Some of the batches."""
        return Course(**{each.name: getattr(self, each.name)[first:stop] for each in fields(self)})

    @property
    def throughput(self) -> float:
        """Tuples/s, as if a batch ended with its slowest worker."""
        return float(self.tuples.sum() / self.busy.max(axis=1).sum())

    @property
    def throughputs(self) -> NDArray[np.float64]:
        """The same of each batch."""
        return self.tuples.sum(axis=1) / self.busy.max(axis=1)

    @property
    def rate(self) -> float:
        """Tuples/s by the batches' whole times: with Spark's own, and with that for which states move."""
        return float(self.tuples.sum() / self.seconds.sum())

    @property
    def completion(self) -> float:
        """Mean time of a tuple from its batch's beginning to the end of its worker's share, ms."""
        return float(1000 * (self.tuples * self.busy).sum() / self.tuples.sum())

    @property
    def completions(self) -> NDArray[np.float64]:
        """The same of each batch."""
        return 1000 * (self.tuples * self.busy).sum(axis=1) / self.tuples.sum(axis=1)

    @property
    def theta(self) -> float:
        """How far the most loaded worker's tuples are above the mean, in %: the mean of the batches."""
        return float(100 * (self.tuples.max(axis=1) / self.tuples.mean(axis=1)).mean() - 100)


@dataclass(eq=False)
class Stage:
    """A session, a cluster, and a folder for checkpoints."""

    spark: SparkSession
    connection: Connection
    folder: Path
    _published: dict[str, int] = field(default_factory=dict)

    def play(
        self,
        grouping: str,
        topic: str,
        keys: NDArray[np.int64],
        *,
        workers: int,
        batch: int,
        run: str = "",
        **settings: Any,
    ) -> Course:
        """Let a topology take these keys from a topic, ``batch`` tuples a batch.

        Keys that the topic doesn't have yet are sent first. ``run`` names one of several runs of a grouping over a
        topic; a run of the same name goes on from its checkpoint.
        """
        there = self._published.get(topic, 0)
        if there < len(keys):
            _publish(self.connection, topic, keys[there:])
            self._published[topic] = len(keys)
        reports: list[BatchReport] = []
        arguments = "LOCAL", "COLUMN", grouping, topic, 1, workers, "x1"  # the command line's, in its order
        checkpoint = str(self.folder / f"{topic}-{grouping}-{run}")
        settings = {"format": "text", "trigger": 0.0, "window": 5.0, "until_drained": True} | settings
        chosen = Settings(*arguments, self.connection, checkpoint, max_tuples=batch, **settings)
        StreamingJob(chosen, [reports.append]).run(self.spark)
        full = [report for report in reports if report.loads.any()]
        return Course(
            np.array([report.loads for report in full]),
            np.array([report.busy for report in full]),
            [report.internals.get(0, {}) for report in full],
        )

    def play_operator(
        self,
        grouping: str,
        name: str,
        batches: Sequence[pa.Table],
        operator: KeyedOperator,
        *,
        workers: int,
        **arguments: Any,
    ) -> tuple[Course, pa.Table]:
        """Let ``keyed_map`` take these tables from files, one a batch; its other arguments are ``arguments``.

        ``name`` tells this run from all others. Returns also the results.
        """
        folder, spark = self.folder / name, self.open_session(workers)
        write_batches(folder / "in", batches)
        results, checkpoint = str(folder / "out"), str(folder / "checkpoint")

        def start() -> StreamingQuery:
            found = keyed_map(
                read_batches(spark, folder / "in"), workers=workers, work=operator, grouping=grouping,
                checkpoint=checkpoint, observe=_OBSERVED, **arguments,
            )  # fmt: skip
            writer = found.writeStream.format("parquet").option("checkpointLocation", checkpoint)
            return writer.trigger(availableNow=True).start(results)

        return drain(start, _OBSERVED), spark.read.parquet(results).toArrow()

    def open_session(self, workers: int) -> SparkSession:
        """Open a session for queries with so many workers, which keep the progress of all batches."""
        spark = self.spark.newSession()
        spark.conf.set(PARTITIONS, str(workers))
        spark.conf.set(_PROGRESS, "1000")
        return spark


def write_batches(folder: Path, tables: Iterable[pa.Table], first: int = 0) -> None:
    """Write tables as files, numbered from ``first`` on, which Spark reads in this order.

    A file that is there already is replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables, first):
        part = folder / f".{number}"
        pq.write_table(table, part)
        os.utime(part, (number, number))  # the order in which Spark reads them
        part.rename(folder / f"{number}.parquet")


def read_batches(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of a folder's files, one a batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def drain(start: Callable[[], StreamingQuery], name: str) -> Course:
    """Run a query to the end of its streams. The batches with tuples of its operator, which is observed as ``name``.

    It is started again where Spark's Python came too late on a busy machine.
    """
    measured: dict[int, BatchBalance] = {}
    seconds: dict[int, float] = {}

    def run() -> None:
        query = start()
        try:
            query.awaitTermination()
        finally:
            measured.update({batch.batch: batch for batch in watch(query, name=name).rows()})
            progress = query.recentProgress
            seconds.update({each["batchId"]: each["durationMs"]["triggerExecution"] / 1000 for each in progress})

    again = tenacity.retry_if_exception(_is_late)
    tenacity.Retrying(retry=again, stop=tenacity.stop_after_attempt(_ATTEMPTS), reraise=True)(run)
    batches = [measured[number] for number in sorted(measured)]
    return Course(
        np.array([batch.loads for batch in batches]),
        np.array([batch.busy for batch in batches]),
        moved=np.array([batch.moved for batch in batches]),
        seconds=np.array([seconds[batch.batch] for batch in batches]),
    )


def _is_late(error: BaseException) -> bool:
    return isinstance(error, StreamingQueryException) and isinstance(translate_failure(error), LatePython)


def shipped(*modules: ModuleType) -> None:
    """Let modules' functions travel to Spark's Python workers, which can't import this package."""
    for module in modules:
        cloudpickle.register_pickle_by_value(module)


@contextmanager
def stage() -> Iterator[Stage]:
    """Start a broker and Spark, give a stage on them, and stop both again."""
    conf = {"spark.executorEnv.UNSKEW_GROUPINGS": ",".join(GROUPINGS)}
    with open_bench() as bench:
        spark = session.start_spark("reproduce", f"local[{THREADS}]", 2, conf)
        try:
            yield Stage(spark, bench.connection, bench.folder)
        finally:
            spark.stop()


def _publish(connection: Connection, topic: str, keys: NDArray[np.int64]) -> None:
    ensure_topic(connection, topic, 1)
    outbox = Outbox.of(connection, topic)
    records = [{"value": str(key)} for key in keys.tolist()]
    outbox.put(records, 0, max(len(record["value"]) for record in records))
    outbox.drain()
    if outbox.failed:
        raise EnvironmentFault(f"{outbox.failed:,} tuples did not get to the broker: {outbox.error}")
