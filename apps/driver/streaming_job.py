"""A run of the topology: one streaming query, from its start to its orderly end."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from unskew.apps.aggregator.publisher import ResultPublisher
from unskew.apps.checkpoint.checkpoint import Batch, Checkpoint
from unskew.apps.checkpoint.lease import NAME_VARIABLE, Lease, describe_holder
from unskew.apps.checkpoint.versions import TotalsLog
from unskew.apps.driver.batch_committer import BatchCommitter, BatchReport
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.idle import IdleWait, choose_trigger
from unskew.apps.driver.listeners import Follower, Listeners, follow_progress
from unskew.apps.driver.plans.planner import Planner
from unskew.apps.driver.preconditions import (
    claim_checkpoint,
    load_or_create_partitions,
    number_generation,
    require_fields,
    require_messages,
    require_own_checkpoint,
    require_same_topic,
    require_topic,
)
from unskew.apps.driver.python_processes import start_python
from unskew.apps.driver.termination import (
    Drain,
    LargeMessage,
    QueryHalted,
    RepeatableFault,
    stop_between_batches,
    translate_failure,
)
from unskew.apps.metrics.query_progress import add_held_back, get_taken_offsets
from unskew.apps.metrics.task_reports import Reports
from unskew.apps.settings import Settings
from unskew.apps.splitter.kafka_source import TOO_LARGE, find_newest_ms, is_contradicted
from unskew.apps.worker.stage import QueryContext
from unskew.kafka.clock import broker_time
from unskew.kafka.consumer_group import ConsumerGroup
from unskew.kafka.reader import EndOffsets
from unskew.kafka.topics import end_offsets, topic_id
from unskew.spark.setting_names import PARTITIONS

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.2  # s; each look asks the JVM
_ATTEMPTS = 5  # tries of a batch, if Python started too late or another driver was still at work
_SILENT = 600.0  # s without a batch of another driver's; the longest batches must be shorter
_LOOK_AT_HOLDER = 10.0  # s
_ASK_EVERY = 60.0  # s
_SET_BACK = 1.0  # s; a clock that goes back by less is slewed, and the query waits for it


@dataclass(frozen=True)
class JobOutcome:
    """How a run ended.

    Attributes
    ----------
    drained : bool
        Whether all messages that the topic had at the start are counted, and their windows are published.
    batches : int
        The number of batches done in this run.
    unheard : int
        The number of failed calls of listeners and followers.

    """

    drained: bool
    batches: int
    unheard: int = 0


class StreamingJob:
    """A run of the topology. ``stop`` may be called from any thread, and from a signal handler.

    It is made before Spark starts, so that an error of the topic or of the checkpoint is reported at once.

    Parameters
    ----------
    settings : Settings
        What to run.
    listeners : sequence of callables
        Called with each batch's report, after its results are published and before Spark commits it. A listener that
        fails doesn't stop the run.
    followers : sequence of callables
        Called with Spark's progress of the query after each batch, from another thread.

    Raises
    ------
    UsageError
        A setting is invalid, the topic has another number of partitions, or the checkpoint belongs to another run.
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
        self._dataflow = Dataflow.of(settings)
        self._listeners = Listeners("batches", listeners)
        self._followers = Listeners("progress", [*followers, self._commit_offsets])
        self._stop = threading.Event()
        self.counted = -1  # what ``end_offset_sum`` was when the run was drained
        self._draining = threading.Event()
        if settings.until_drained:
            self._draining.set()
        self._halt = threading.Event()
        self._halted = False
        self._set_back = False
        self._agreed = False  # the topic's messages, or the brokers, with the clock
        self._ask_again = 0.0  # the monotonic time before which the brokers aren't asked again
        self._unplanned = 0  # number of the first batch that the query plans itself
        self._count_bytes = False
        self._group: ConsumerGroup | None = None
        self._last: BatchReport | None = None
        self._newest = -1  # batch that Spark has committed
        self._batches = 0
        self._checkpoint = Checkpoint(settings.location)
        self._lease = Lease(settings.location)
        claimed = self._checkpoint.read_record()
        require_topic(settings, begun=bool(claimed))
        if not claimed:
            require_fields(settings)
        self._drain = Drain(self._dataflow, end_offsets(settings.connection, settings.topic))
        require_own_checkpoint(self._dataflow, self._checkpoint, claimed)
        require_messages(settings, self._checkpoint, held=False)
        self._admin = settings.connection.admin()  # kept: to connect takes longer than an answer
        self._topic: str | None = None

    @property
    def end_offset_sum(self) -> int:
        """The sum of the topic's end offsets when the run was made, or was last told to drain: all that it ever had."""
        return self._drain.end_offset_sum

    def drain(self) -> None:
        """End the run when all messages that the topic has now are counted, and their windows published.

        Raises
        ------
        EnvironmentFault
            The broker can't be reached.

        """
        settings = self._settings
        self._drain = Drain(self._dataflow, end_offsets(settings.connection, settings.topic))
        self._draining.set()

    def stop(self) -> None:
        """End the run after the current batch."""
        self._stop.set()

    def await_turn(self) -> bool:
        """Wait as long as another driver, which has taken the checkpoint from this one, goes on with it.

        A service manager starts a driver again that has ended for another one. If it took the checkpoint back, the two
        would take turns for ever. The other one is at work as long as it plans batches, at least one a minute.

        Returns
        -------
        bool
            Whether the run may begin. False: it was stopped meanwhile.

        """
        seen, since = None, time.monotonic()
        while (holder := self._lease.successor()) is not None and not self._stop.is_set():
            if seen is None:
                log.warning(
                    "another driver (%s) has taken the checkpoint from this one, which waits until that one has ended, "
                    "or has done nothing for %.0f minutes; with another name in %s this one would take it at once",
                    *(describe_holder(holder), _SILENT / 60, NAME_VARIABLE),
                )
            batches = self._checkpoint.first_unplanned(), self._checkpoint.next_batch()
            if batches != seen:
                seen, since = batches, time.monotonic()
            elif time.monotonic() - since > _SILENT:
                break
            self._stop.wait(_LOOK_AT_HOLDER)
        return not self._stop.is_set()

    def run(self, spark: SparkSession) -> JobOutcome:
        """Run until the topic is drained, the time is over, or the run is stopped.

        Raises
        ------
        EnvironmentFault
            The query failed.
        UsageError
            An executor doesn't see the checkpoint.
        LeaseLost
            Another driver has taken over the checkpoint.
        """
        settings = self._settings
        deadline = time.monotonic() + settings.run_time if settings.run_time is not None else math.inf
        start_python(spark)
        self._lease.acquire()
        self._checkpoint = Checkpoint(settings.location)  # another driver may have gone on with it since
        claim_checkpoint(self._dataflow, self._checkpoint)
        require_messages(settings, self._checkpoint)
        self._topic = self._checkpoint.read_record().get("topicId")
        publisher = ResultPublisher(
            settings, load_or_create_partitions(settings, self._checkpoint, int(spark.conf.get(PARTITIONS) or 1))
        )
        number_generation(settings, self._checkpoint)
        drained = self._query(spark, publisher, deadline, flush_at=None)
        if drained and settings.time == "event":
            # Event time stands still when tuples stop coming: once all are counted, a second query sets it forward.
            last = self._drain.end_ms(TotalsLog(settings.location).newest(self._newest))
            flush = datetime.fromtimestamp(last / 1000 + settings.lateness, UTC)
            drained = self._query(spark, publisher, deadline, flush)
        self._lease.release()
        return JobOutcome(drained, self._batches, self._listeners.failures + self._followers.failures)

    def _query(
        self, spark: SparkSession, publisher: ResultPublisher, deadline: float, flush_at: datetime | None
    ) -> bool:
        """Whether the query was drained; it runs again where a clock, a large message or a late Python ended it."""
        late = 0
        while True:
            self._set_back = False
            done = self._batches
            try:
                drained = self._one_query(spark, publisher, deadline, flush_at)
            except LargeMessage as error:
                if self._count_bytes:
                    raise
                self._count_bytes = True
                log.warning(
                    "%s: the batch runs again, and Spark counts the bytes from now on, which costs time", TOO_LARGE
                )
                log.info("%s", error)
                continue
            except RepeatableFault as error:
                late = late + 1 if self._batches == done else 1
                if late == _ATTEMPTS or self._stop.is_set():
                    raise
                log.warning("%s: %s, the batch is tried again", error, error.why)
                continue
            if not self._set_back or self._stop.is_set():
                return drained

    def _one_query(
        self, spark: SparkSession, publisher: ResultPublisher, deadline: float, flush_at: datetime | None
    ) -> bool:
        settings = self._settings
        with ExitStack() as stack:
            if settings.group:
                self._group = stack.enter_context(ConsumerGroup(settings.connection, settings.group))
            stack.enter_context(
                follow_progress(spark, settings.name, self._follow(EndOffsets(settings.connection, settings.topic)))
            )
            idle = stack.enter_context(IdleWait(self._dataflow, self._halt, self._draining))
            made = self._dataflow.planner(spark)
            if made is not None:
                stack.enter_context(closing(made))
            query = self._start(spark, publisher, idle, flush_at, made)
            return self._await(query, deadline, flushing=flush_at is not None)

    def _follow(self, ends: EndOffsets) -> Follower:
        def follower(progress: Mapping[str, Any]) -> None:
            if self._settings.connection.reads_committed:
                add_held_back(progress, ends, self._halt.is_set)
            self._followers(progress)

        return follower

    def _start(
        self,
        spark: SparkSession,
        publisher: ResultPublisher,
        idle: IdleWait,
        flush_at: datetime | None,
        planner: Planner | None,
    ) -> StreamingQuery:
        settings = self._settings
        reports = Reports(spark.sparkContext)
        self._last = None
        self._newest = -1
        self._agreed = False
        self._unplanned = self._checkpoint.first_unplanned()
        ahead_ms = self._checkpoint.clock.ahead_ms
        address = planner.address if planner is not None else None
        rows = self._dataflow.rows(spark, QueryContext(reports, flush_at, ahead_ms, self._count_bytes, address))
        committer = BatchCommitter(self._dataflow, reports, publisher, self._end_batch, self._lease, planner)
        self._halt.clear()
        self._halted = False

        def end_of_batch(df: DataFrame, number: int) -> None:
            # A flag says that the query was halted: an error's text quotes this function's lines, so it proves nothing.
            batch = None if self._halt.is_set() else self._checkpoint.batch(number)
            self._lease.require()
            if batch is None or self._reset_clock(batch):
                self._halted = True
                raise QueryHalted
            if batch.start != batch.end:
                self._require_same_topic(batch)
            committer(df, batch)
            if self._last is not None:
                idle(self._last, self._checkpoint.clock.ahead_ms)
            self._lease.require()  # or Spark would commit the batch while the other driver is at it

        return (
            rows.writeStream.queryName(settings.name)
            .option("checkpointLocation", settings.location.address)
            .trigger(processingTime=choose_trigger(settings))
            .foreachBatch(end_of_batch)
            .start()
        )

    def _reset_clock(self, batch: Batch) -> bool:
        """Whether batch time's lead over the clock is changed before a batch, which then begins again with it."""
        clock = self._checkpoint.clock
        if self._settings.time == "batch":
            ahead_ms, of = self._lead_of_batches(batch), "that of the batch before"
        else:
            ahead_ms, of = self._lead_of_brokers(batch), "the brokers' clock"
        if ahead_ms is None or ahead_ms == clock.ahead_ms:
            return False
        self._set_back = True
        if ahead_ms > max(0, clock.ahead_ms):
            log.warning("the clock is %.1f s behind %s: batch time goes on from there", ahead_ms / 1000, of)
        elif ahead_ms < 0:
            log.warning("the clock is %.1f s ahead of the brokers' clock: batch time goes by theirs", -ahead_ms / 1000)
        elif clock.ahead_ms < 0:
            log.warning("batch time is no longer %.1f s behind the clock", -clock.ahead_ms / 1000)
        else:
            log.warning("batch time is no longer %.1f s ahead of the clock", (clock.ahead_ms - ahead_ms) / 1000)
        self._lease.require()  # brokers may have taken long to answer
        clock.set_ahead(batch.number, ahead_ms)
        return True

    def _lead_of_batches(self, batch: Batch) -> int | None:
        """The least lead (ms) of a right batch time that goes on from the batch before. None: it stays as it is.

        A lead is given up when the clock has come to where batch time is, and not bit by bit. A batch that an earlier
        query planned may have had effects with its time, so it keeps its lead if it can.
        """
        ahead_ms = self._checkpoint.clock.ahead_ms
        planned_ms = batch.time_ms - ahead_ms
        right = self._lead_over_wrong_clock(batch, planned_ms)
        least = max(right, batch.watermark_ms - planned_ms)
        if least > ahead_ms:
            return least
        answered = right != min(0, ahead_ms)
        return least if batch.number >= self._unplanned and (least == right or answered) else None

    def _lead_over_wrong_clock(self, batch: Batch, planned_ms: int) -> int:
        """The lead (ms) that batch time should have: 0, or negative, if this clock is ahead of the brokers'.

        Windows of the future could never be undone, because the watermark doesn't go back. So before a query's first
        new batch the brokers are asked, if neither the batch before nor a message is nearly as new as the clock. They
        are asked once, and again when the clock was set.
        """
        before = min(0, self._checkpoint.clock.ahead_ms)
        if self._agreed or batch.number < self._unplanned:
            return before
        self._agreed = True
        doubted_ms = planned_ms - 1000 * self._settings.max_ahead
        if batch.watermark_ms >= doubted_ms or find_newest_ms(self._settings) >= doubted_ms:
            return 0
        there = broker_time(self._settings.connection, self._clock_topic)
        if there is None:
            log.info("the brokers' clock can't be asked for (topic %s)", self._clock_topic)
            return before
        lead = min(0, there - round(1000 * time.time()))
        return lead if abs(lead - before) > 1000 * _SET_BACK else before

    def _lead_of_brokers(self, batch: Batch) -> int | None:
        """How far (ms) the brokers' clock is ahead of this one, at least 0. None: batch time's lead stays as it is.

        The brokers are asked if a message is from the future, or if batch time has a lead. The message decides nothing,
        because a producer may give it any time. After an answer, or if messages agree with the clock, nothing is asked
        until the clock is set. Without an answer they are asked again a minute later.

        A batch that an earlier query planned may have rejected messages already, so its time stays.
        """
        clock = self._checkpoint.clock
        if self._last is not None and batch.time_ms < self._last.batch.time_ms - 1000 * _SET_BACK:
            self._agreed = False
        looks = not self._agreed and time.monotonic() >= self._ask_again
        if not looks or batch.number < self._unplanned or batch.start == batch.end:
            return None
        doubted = is_contradicted(self._settings, batch.time_ms)
        self._agreed = doubted is not None
        if not doubted and not clock.ahead_ms:
            return None
        there = broker_time(self._settings.connection, self._clock_topic)
        if there is None:
            self._agreed = False
            if not self._ask_again:
                log.warning(
                    "the brokers' clock can't be asked for (topic %s): whether this machine's is right is not known",
                    self._clock_topic,
                )
            self._ask_again = time.monotonic() + _ASK_EVERY
            return None
        ahead_ms = max(0, there - round(1000 * time.time()))
        return ahead_ms if abs(ahead_ms - clock.ahead_ms) > 1000 * _SET_BACK else None

    @property
    def _clock_topic(self) -> str:
        return f"{self._settings.topic}-unskew-clock"

    def _require_same_topic(self, batch: Batch) -> None:
        topic = self._settings.topic
        found = topic_id(self._admin, topic)
        if found is not None and found != self._topic:
            require_same_topic(self._settings, self._checkpoint, batch.start.get(topic, {}), found)
            self._topic = found

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
                if set_now > set_at + _SET_BACK:
                    self._agreed = False
                set_at = max(set_at, set_now)  # a clock that was put on may be set back to the right time later
                drained = self._draining.is_set() and self._is_drained(flushing=flushing)
                time.sleep(_LOOK_EVERY)
        finally:
            self._end(query)
        return drained

    def _end_batch(self, report: BatchReport) -> None:
        self._batches += 1
        self._listeners(report)
        self._last = report

    def _commit_offsets(self, progress: Mapping[str, Any]) -> None:
        self._newest = progress["batchId"]
        if self._group is not None:
            self._group.commit(self._settings.topic, get_taken_offsets(progress))

    def _is_drained(self, *, flushing: bool) -> bool:
        report, drain = self._last, self._drain
        # The report comes before Spark commits the batch, so its commit is waited for too.
        if report is None or not drain.is_reached(report, flushing=flushing) or self._newest < report.batch.number:
            return False
        self.counted = drain.end_offset_sum
        return True

    def _end(self, query: StreamingQuery) -> None:
        self._halt.set()
        stop_between_batches(query)
        error = query.exception()
        if error is not None and not self._halted:
            self._lease.require()  # what another driver does can make any part of this query fail
            require_messages(self._settings, self._checkpoint)
            raise translate_failure(error) from error
