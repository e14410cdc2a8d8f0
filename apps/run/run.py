"""A run of the topology: one streaming query, from its start to its orderly end."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from unskew.apps.checkpoint.checkpoint import Batch, Checkpoint
from unskew.apps.checkpoint.totals import TotalsLog
from unskew.apps.run.consumer_group import ConsumerGroup
from unskew.apps.run.drain import Drain
from unskew.apps.run.early import start_python
from unskew.apps.run.ending import Halted, LatePython, fault, stop_between_batches
from unskew.apps.run.follow import Follower, follow, taken
from unskew.apps.run.idle import Idle, trigger
from unskew.apps.run.intake import claim, require_messages, require_topic
from unskew.apps.run.listeners import Listeners
from unskew.apps.run.visible import require_visible
from unskew.apps.topology.dataflow import dataflow
from unskew.apps.topology.publisher import Publisher
from unskew.apps.topology.reports import Reports
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.sink import BatchReport, Sink
from unskew.deploy.client.topics import end_offsets

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.2  # s; each look asks the JVM
_ATTEMPTS = 5  # at planning a batch, if Python doesn't start in time
_SET_BACK = 1.0  # s by which a clock is set back; less is slewing, and waited for


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    drained : bool
        All that had been published at the start is counted and its windows are out.
    batches : int
        Batches done in this run.
    unheard : int
        Calls of listeners and followers that failed.

    """

    drained: bool
    batches: int
    unheard: int = 0


class Run:
    """A run of the topology; ``stop`` may be called from anywhere, also from a signal handler.

    Made before Spark is there: what is wrong with the topic or the checkpoint shows at once.

    Parameters
    ----------
    settings : Settings
        What to run.
    listeners : sequence of callables
        Given each batch's report, when its results are out and before Spark commits it. One that fails stops nothing.
    followers : sequence of callables
        Given Spark's progress of the query (its JSON, read) after each batch, from another thread.

    Raises
    ------
    UsageError
        The topic has another number of partitions, or the checkpoint belongs to another run.
    EnvironmentFault
        The broker can't be reached, the checkpoint can't be written, or the topic has lost messages.
    """

    def __init__(
        self,
        settings: Settings,
        listeners: Sequence[Callable[[BatchReport], None]],
        followers: Sequence[Follower] = (),
    ) -> None:
        self._settings = settings
        self._listeners = Listeners("batches", listeners)
        self._followers = Listeners("progress", [*followers, self._committed])
        self._stop = threading.Event()
        self._halt = threading.Event()
        self._halted = False
        self._set_back = False
        self._group: ConsumerGroup | None = None
        self._last: BatchReport | None = None
        self._newest = -1  # batch that Spark has committed
        self._batches = 0
        self._checkpoint = Checkpoint(settings.place)
        claimed = self._checkpoint.claimed()
        require_topic(settings, begun=bool(claimed))
        self._drain = Drain(settings, end_offsets(settings.connection, settings.source_name))
        claim(settings, self._checkpoint, claimed)
        require_messages(settings, self._checkpoint)

    @property
    def waiting(self) -> int:
        """How many messages the topic has had up to now."""
        return self._drain.waiting

    def stop(self) -> None:
        """End the run after the batch that is under way."""
        self._stop.set()

    def run(self, spark: SparkSession) -> Outcome:
        """Run until drained, out of time, or stopped.

        Raises
        ------
        EnvironmentFault
            The query failed.
        UsageError
            Executors don't see the checkpoint.
        """
        settings = self._settings
        deadline = time.monotonic() + settings.run_time
        if settings.mode == "CLUSTER":
            require_visible(spark, settings.place)
        else:
            start_python(spark)
        with Publisher(settings) as publisher:
            drained = self._query(spark, publisher, deadline, flush_at=None)
            if drained and settings.time == "event":
                # Event time stands still when tuples stop coming: let it pass, once all are counted.
                last = self._drain.end_ms(TotalsLog(settings.place).newest())
                flush = datetime.fromtimestamp(last / 1000 + settings.lateness, UTC)
                drained = self._query(spark, publisher, deadline, flush)
        return Outcome(drained, self._batches, self._listeners.failures + self._followers.failures)

    def _query(self, spark: SparkSession, publisher: Publisher, deadline: float, flush_at: datetime | None) -> bool:
        """Run the query, again whenever the clock was set back or a batch couldn't be planned; True: it was drained."""
        late = 0
        while True:
            self._set_back = False
            done = self._batches
            try:
                drained = self._one_query(spark, publisher, deadline, flush_at)
            except LatePython as error:
                late = late + 1 if self._batches == done else 1
                if late == _ATTEMPTS or self._stop.is_set():
                    raise
                log.warning("%s: the machine is busy, the batch is tried again", error)
                continue
            if not self._set_back or self._stop.is_set():
                return drained

    def _one_query(self, spark: SparkSession, publisher: Publisher, deadline: float, flush_at: datetime | None) -> bool:
        settings = self._settings
        with ExitStack() as stack:
            if settings.group:
                self._group = stack.enter_context(ConsumerGroup(settings.connection, settings.group))
            stack.enter_context(follow(spark, settings.name, self._followers))
            idle = stack.enter_context(Idle(settings, self._halt))
            return self._await(self._start(spark, publisher, idle, flush_at), deadline, flushing=flush_at is not None)

    def _start(
        self, spark: SparkSession, publisher: Publisher, idle: Idle, flush_at: datetime | None
    ) -> StreamingQuery:
        settings = self._settings
        reports = Reports(spark.sparkContext)
        self._last = None
        self._newest = -1
        state = dataflow(spark, settings, reports, flush_at, self._checkpoint.clock.ahead_ms)
        sink = Sink(settings, reports, publisher, self._noted)
        self._halt.clear()
        self._halted = False

        def end_of_batch(df: DataFrame, number: int) -> None:
            # Halted is known by a flag: what an error says may have any text in it, a line of this function too.
            batch = None if self._halt.is_set() else self._checkpoint.batch(number)
            if batch is None or (settings.time == "batch" and self._runs_backwards(batch)):
                self._halted = True
                raise Halted
            sink(df, batch)
            if self._last is not None:
                idle(self._last, self._checkpoint.clock.ahead_ms)

        return (
            state.writeStream.queryName(settings.name)
            .option("checkpointLocation", settings.checkpoint)
            .trigger(processingTime=trigger(settings))
            .foreachBatch(end_of_batch)
            .start()
        )

    def _runs_backwards(self, batch: Batch) -> bool:
        """Whether a batch about to run is older than the last one; if so, the next attempt at it won't be."""
        behind = batch.watermark_ms - batch.time_ms
        if behind <= 0:
            return False
        self._set_back = True
        log.warning("the clock is %.1f s behind that of the batch before: batch time goes on from there", behind / 1000)
        self._checkpoint.clock.put_on(batch.number, behind)
        return True

    def _await(self, query: StreamingQuery, deadline: float, *, flushing: bool) -> bool:
        drained = False
        set_at = time.time() - time.monotonic()
        try:
            while query.isActive and not self._stop.is_set() and not drained and time.monotonic() < deadline:
                set_now = time.time() - time.monotonic()
                if set_now < set_at - _SET_BACK:
                    # Spark waits for its next trigger until the clock shows the time that was planned for it.
                    self._set_back = True
                    break
                set_at = max(set_at, set_now)  # one that was put on is set back, too, when it is right again
                drained = self._settings.until_drained and self._drained(flushing=flushing)
                time.sleep(_LOOK_EVERY)
        finally:
            self._end(query)
        return drained

    def _noted(self, report: BatchReport) -> None:
        self._batches += 1
        self._listeners(report)
        self._last = report

    def _committed(self, progress: Mapping[str, Any]) -> None:
        self._newest = progress["batchId"]
        if self._group is not None:
            self._group.commit(self._settings.source_name, taken(progress))

    def _drained(self, *, flushing: bool) -> bool:
        report = self._last
        # The report comes before the batch is committed.
        return (
            report is not None
            and self._drain.reached(report, flushing=flushing)
            and self._newest >= report.batch.number
        )

    def _end(self, query: StreamingQuery) -> None:
        self._halt.set()
        stop_between_batches(query)
        error = query.exception()
        if error is not None and not self._halted:
            require_messages(self._settings, self._checkpoint)
            raise fault(error) from error
