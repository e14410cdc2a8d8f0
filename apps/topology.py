"""The topology: source → splitter → router → placement → worker → windowed state → aggregator and observer.

One streaming query. Everything up to the closed windows is declared here, in order; what happens to them is in
``apps.sink``.
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from apps.balance import place
from apps.checkpoint import Checkpoint
from apps.publisher import Publisher
from apps.reports import Reports
from apps.router import Routing
from apps.session import log_file
from apps.settings import Settings
from apps.sink import BatchReport, Sink
from apps.splitter import splitter
from apps.totals import TotalsLog
from apps.windows import windowed
from apps.worker import Worker
from deploy.errors import EnvironmentFault
from deploy.topics import end_offsets, ensure_topic

# Spark's Kafka source fetches 500 messages at a time by default; small messages then cost three times as much.
FETCH = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(8 << 20)}

_LOOK_EVERY = 0.05  # s


def source(spark: SparkSession, settings: Settings) -> DataFrame:
    """The topic as it is: one task a partition, in offset order."""
    reader = (
        spark.readStream.format("kafka")
        .options(**FETCH)
        .options(**settings.connection.spark())
        .option("subscribe", settings.source_name)
        .option("startingOffsets", settings.starting_offsets)
        .option("maxOffsetsPerTrigger", settings.batch_limit)
    )
    return reader.load()


def tuples(messages: DataFrame, settings: Settings) -> DataFrame:
    """Splitter: messages → key, count where they have one, source, time, and what the user's work asks for."""
    carried = [F.col("partition").alias("source"), F.col("timestamp").alias("time"), *map(F.col, settings.work_columns)]
    return splitter(settings.source_type).split(messages, *carried)


def partials(split: DataFrame, settings: Settings, reports: Reports | None) -> DataFrame:
    """Router, placement, worker: tuples → one partial per (key, worker) of the batch."""
    by_event = settings.time == "event"
    routing = Routing(
        settings.grouping,
        settings.workers,
        settings.checkpoint,
        dict(settings.options),
        settings.seed,
        reports,
    )
    worker = Worker(settings.work, settings.seconds_per_tuple, settings.window_ms if by_event else None, reports)
    needed = {"key", "count", *(["time"] if by_event else []), *settings.work_columns}
    carry = [name for name in split.columns if name in needed]
    packets = place(split, routing, "key", carry, source="source", time="time" if by_event else None)
    return packets.mapInArrow(worker.__call__, worker.ddl)


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    drained : bool
        All that had been published at the start is counted and its windows are out.
    batches : int
        Batches done in this run.

    """

    drained: bool
    batches: int


class Run:
    """A run of the topology; ``stop`` may be called from anywhere, also from a signal handler.

    Made before Spark is there: what is wrong with the topic or the checkpoint shows at once.

    Raises
    ------
    UsageError
        The topic has another number of partitions, or the checkpoint belongs to another run.
    EnvironmentFault
        The broker can't be reached, or the checkpoint can't be written.
    """

    def __init__(self, settings: Settings, listener: Callable[[BatchReport], None]) -> None:
        self._settings = settings
        self._listener = listener
        self._stop = threading.Event()
        self._halt = threading.Event()
        self._last: BatchReport | None = None
        self._batches = 0
        ensure_topic(settings.connection, settings.source_name, settings.sources)
        self._target = end_offsets(settings.connection, settings.source_name)
        self._checkpoint = Checkpoint(settings.checkpoint)
        self._checkpoint.claim(settings.identity)

    @property
    def waiting(self) -> int:
        """How many messages the topic has had up to now."""
        return sum(self._target.values())

    def stop(self) -> None:
        """End the run after the batch that is under way."""
        self._stop.set()

    def run(self, spark: SparkSession) -> Outcome:
        """Run until drained, out of time, or stopped.

        Raises
        ------
        EnvironmentFault
            The query failed.
        """
        settings = self._settings
        deadline = time.monotonic() + settings.run_time
        with Publisher(settings) as publisher:
            drained = self._query(spark, publisher, deadline, flush_at=None)
            if drained and settings.time == "event":
                # Event time stands still when tuples stop coming: let it pass, once all are counted.
                last = TotalsLog(settings.checkpoint).at(1 << 40).last_window_end_ms
                flush = datetime.fromtimestamp(last / 1000 + settings.lateness, UTC)
                drained = self._query(spark, publisher, deadline, flush)
        return Outcome(drained, self._batches)

    def _query(self, spark: SparkSession, publisher: Publisher, deadline: float, flush_at: datetime | None) -> bool:
        """Run one streaming query; True if it ended because it was drained."""
        settings = self._settings
        reports = Reports(spark.sparkContext)
        self._last = None
        split = tuples(source(spark, settings), settings)
        lateness = settings.lateness if settings.time == "event" else None
        state = windowed(partials(split, settings, reports), settings.window, lateness, flush_at)
        sink = Sink(settings, self._checkpoint, reports, publisher, self._noted)
        self._halt.clear()

        def end_of_batch(df: DataFrame, number: int) -> None:
            if self._halt.is_set():
                raise Halted
            sink(df, number)

        query = (
            state.writeStream.queryName(settings.name)
            .option("checkpointLocation", settings.checkpoint)
            .trigger(processingTime=f"{settings.trigger} seconds")
            .foreachBatch(end_of_batch)
            .start()
        )
        drained = False
        try:
            while query.isActive and not self._stop.is_set() and not drained and time.monotonic() < deadline:
                drained = settings.until_drained and self._drained(query, flushing=flush_at is not None)
                time.sleep(_LOOK_EVERY)
        finally:
            self._end(query)
        return drained

    def _noted(self, report: BatchReport) -> None:
        self._batches += 1
        self._listener(report)
        self._last = report

    def _drained(self, query: StreamingQuery, *, flushing: bool) -> bool:
        report = self._last
        if report is None:
            return False
        reached = report.batch.end[self._settings.source_name]
        if any(reached.get(str(p), 0) < offset for p, offset in self._target.items()):
            return False
        waits_for_windows = self._settings.time == "batch" or flushing
        if waits_for_windows and report.batch.watermark_ms < report.totals.last_window_end_ms:
            return False
        # The report comes before the batch is committed.
        progress: Any = query.lastProgress
        return progress is not None and progress["batchId"] >= report.batch.number

    def _end(self, query: StreamingQuery) -> None:
        """Stop between two batches: in the middle of one Spark's threads would log stack traces."""
        self._halt.set()
        while query.isActive and query.status["isTriggerActive"]:
            time.sleep(_LOOK_EVERY)
        query.stop()
        error = query.exception()
        if error is not None and Halted.__name__ not in str(error):
            raise EnvironmentFault(_cause(error)) from error


class Halted(Exception):
    """Ends a query at the start of a batch, when the one before is committed and this one has touched nothing."""


# Spark and Py4J wrap what went wrong several times over.
_WRAPPERS = ("StreamingQueryException", "ForeachBatchUserFuncException", "Py4JJavaError", "SparkException")


def _cause(error: StreamingQueryException) -> str:
    said = re.findall(
        r"^(?:Caused by|: )?:? ?((?:[\w$]+\.)*(\w+(?:Exception|Error|Fault)): .+)$", str(error), re.MULTILINE
    )
    causes = [line for line, kind in said if kind not in _WRAPPERS]
    reason = causes[-1] if causes else str(error).strip().splitlines()[0]
    return f"the query failed: {reason}; the rest is in {log_file()}"
