"""Runs the topology: one streaming query from its start to its orderly end."""

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

from unskew.apps.aggregator.changes import ChangePublisher
from unskew.apps.aggregator.publisher import ResultPublisher
from unskew.apps.checkpoint.checkpoint import GENERATION, Batch, Checkpoint
from unskew.apps.checkpoint.lease import NAME_VARIABLE, Lease, describe_holder
from unskew.apps.checkpoint.versions import TotalsLog
from unskew.apps.driver.batch_committer import BatchCommitter, BatchReport
from unskew.apps.driver.clock_supervisor import ClockSupervisor
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
from unskew.apps.splitter.kafka_source import TOO_LARGE
from unskew.apps.worker.stage import QueryContext
from unskew.kafka.consumer_group import ConsumerGroup
from unskew.kafka.reader import EndOffsets
from unskew.kafka.topics import end_offsets, topic_id
from unskew.spark.compat import override_settings
from unskew.spark.micro_batches import find_next_trigger_ms
from unskew.spark.setting_names import PARTITIONS

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.2  # s; each look calls the JVM
_CLOCK_TICK = 0.002  # s; Spark's clock shows whole ms
_ATTEMPTS = 5  # of a batch, if Python started too late or another driver was still running
_SILENT = 600.0  # s without another driver's batch; the longest batches must be shorter
_LOOK_AT_HOLDER = 10.0  # s


@dataclass(frozen=True)
class JobOutcome:
    """How a run ended.

    Attributes
    ----------
    drained : bool
        Whether all messages that the topic had at the start are counted, and their windows published.
    batches : int
        The number of batches in this run.
    unheard : int
        The number of failed calls of listeners and followers.

    """

    drained: bool
    batches: int
    unheard: int = 0


class StreamingJob:
    """A run of the topology. ``stop`` may be called from any thread or signal handler.

    Create it before Spark starts, so that errors of the topic or the checkpoint are reported at once.

    Parameters
    ----------
    settings : Settings
        The run's.
    listeners : sequence of callables
        Called with each batch's report, after its results are published and before Spark commits it. Failing listeners
        don't stop the run.
    followers : sequence of callables
        Called with Spark's progress after each batch, from another thread.

    Raises ``UsageError`` if a setting is invalid, the topic has another number of partitions, or the checkpoint belongs
    to another run; ``EnvironmentFault`` if the broker can't be reached, the checkpoint can't be written, or the topic
    has lost messages.
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
        self.counted = -1  # ``end_offset_sum`` when the run was drained
        self._draining = threading.Event()
        if settings.until_drained:
            self._draining.set()
        self._halt = threading.Event()
        self._halted = False
        self._count_bytes = False
        self._group: ConsumerGroup | None = None
        self._last: BatchReport | None = None
        self._newest = -1  # committed batch
        self._batches = 0
        self._checkpoint = Checkpoint(settings.location)
        self._lease = Lease(settings.location)
        self._clocks = ClockSupervisor(settings, self._lease)
        claimed = self._checkpoint.read_record()
        require_topic(settings, begun=bool(claimed))
        if not claimed:
            require_fields(settings)
        self._drain = Drain(self._dataflow, end_offsets(settings.connection, settings.topic))
        require_own_checkpoint(self._dataflow, self._checkpoint, claimed)
        require_messages(settings, self._checkpoint, held=False)
        self._admin = settings.connection.admin()  # kept, because connecting takes longer than an answer
        self._topic: str | None = None

    @property
    def end_offset_sum(self) -> int:
        """The sum of the topic's end offsets when the run was created or last told to drain: all messages ever."""
        return self._drain.end_offset_sum

    def drain(self) -> None:
        """End the run when all present messages of the topic are counted, and their windows published.

        Raises ``EnvironmentFault`` if the broker can't be reached.
        """
        settings = self._settings
        self._drain = Drain(self._dataflow, end_offsets(settings.connection, settings.topic))
        self._draining.set()

    def stop(self) -> None:
        """End the run after the current batch."""
        self._stop.set()

    def await_turn(self) -> bool:
        """Wait while another driver, which has taken the checkpoint from this one, continues it.

        A service manager restarts a driver that has ended for another one. If it took the checkpoint back, the two
        would alternate for ever. The other one is running as long as it plans batches, at least one per minute. Returns
        whether the run may begin: it was not stopped meanwhile.
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
        """Run until the topic is drained, the time is up, or the run is stopped.

        Raises ``EnvironmentFault`` if the query failed; ``UsageError`` if an executor doesn't see the checkpoint;
        ``LeaseLost`` if another driver has taken over the checkpoint.
        """
        settings = self._settings
        deadline = time.monotonic() + settings.run_time if settings.run_time is not None else math.inf
        start_python(spark)
        self._lease.acquire()
        self._checkpoint = Checkpoint(settings.location)  # another driver may have continued it
        claim_checkpoint(self._dataflow, self._checkpoint)
        require_messages(settings, self._checkpoint)
        self._topic = self._checkpoint.read_record().get("topicId")
        publisher = ResultPublisher(
            settings, load_or_create_partitions(settings, self._checkpoint, int(spark.conf.get(PARTITIONS) or 1))
        )
        number_generation(settings, self._checkpoint)
        drained = self._query(spark, publisher, deadline, flush_at=None)
        if drained and settings.time == "event":
            # Event time stands still without tuples: once all are counted, a second query advances it.
            last = self._drain.end_ms(TotalsLog(settings.location).newest(self._newest))
            flush = datetime.fromtimestamp(last / 1000 + settings.lateness, UTC)
            drained = self._query(spark, publisher, deadline, flush)
        self._lease.release()
        return JobOutcome(drained, self._batches, self._listeners.failures + self._followers.failures)

    def _query(
        self, spark: SparkSession, publisher: ResultPublisher, deadline: float, flush_at: datetime | None
    ) -> bool:
        """Whether the query was drained. It restarts if a clock, a large message or a late Python ended it."""
        late = 0
        while True:
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
            if not self._clocks.restarts or self._stop.is_set():
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
        clock = self._checkpoint.clock
        unplanned = self._checkpoint.first_unplanned()
        self._clocks.begin_query(clock, unplanned)
        address = planner.address if planner is not None else None
        changes = self._publish_changes(publisher) if settings.emit == "changes" else None
        context = QueryContext(reports, flush_at, clock.ahead_ms, self._count_bytes, address, changes)
        rows = self._dataflow.rows(spark, context)
        committer = BatchCommitter(self._dataflow, reports, publisher, self._end_batch, self._lease, planner)
        self._halt.clear()
        self._halted = False
        if unplanned:
            self._await_next_trigger(self._checkpoint.planned_ms(unplanned - 1))

        def end_of_batch(df: DataFrame, number: int) -> None:
            # A flag, because an error's text quotes this function's lines, and so doesn't prove that the query was
            # halted.
            batch = None if self._halt.is_set() else self._checkpoint.batch(number)
            self._lease.require()
            if batch is None or self._clocks.change_lead(batch):
                self._halted = True
                raise QueryHalted
            if batch.start != batch.end:
                self._require_same_topic(batch)
            committer(df, batch)
            if self._last is not None:
                idle(self._last, clock.ahead_ms)
            self._await_next_trigger(batch.planned_ms)
            self._lease.require()  # or Spark would commit the batch while the other driver runs it

        query = (
            rows.writeStream.queryName(settings.name)
            .option("checkpointLocation", settings.location.address)
            .trigger(processingTime=choose_trigger(settings))
            .outputMode("append" if settings.emit == "final" else "update")
            .foreachBatch(end_of_batch)
        )
        own = {name: value for name, value in self._dataflow.stage.conf.items() if name not in settings.conf}
        if changes is not None and publisher.commits is not None:
            # Each state partition has a writer. Writers were recorded earlier, perhaps by a driver with other cores.
            own[PARTITIONS] = str(publisher.commits.of("aggregator"))
        with override_settings(spark, own):
            return query.start()

    def _await_next_trigger(self, planned_ms: int) -> None:
        """Wait for the next trigger after a batch planned then, if heartbeats have a lead."""
        lead_ms = self._settings.heartbeat_lead_ms
        until = find_next_trigger_ms(planned_ms, lead_ms) / 1000 + _CLOCK_TICK
        if lead_ms and (left := until - time.time()) > 0:
            self._halt.wait(min(left, lead_ms / 1000))

    def _publish_changes(self, publisher: ResultPublisher) -> ChangePublisher:
        """The publisher of changed counts in the query's tasks."""
        settings = self._settings
        generation = self._checkpoint.read_record()[GENERATION]["number"]
        ahead_ms = self._checkpoint.clock.ahead_ms
        of = settings.connection, publisher.topics["aggregator"], settings.location, generation, ahead_ms
        return ChangePublisher(*of, publisher.commits)

    def _require_same_topic(self, batch: Batch) -> None:
        topic = self._settings.topic
        found = topic_id(self._admin, topic)
        if found is not None and found != self._topic:
            require_same_topic(self._settings, self._checkpoint, batch.start.get(topic, {}), found)
            self._topic = found

    def _await(self, query: StreamingQuery, deadline: float, *, flushing: bool) -> bool:
        drained = False
        try:
            while query.isActive and not self._stop.is_set() and not drained and time.monotonic() < deadline:
                if self._clocks.is_set_back():
                    break
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
        # The report comes before Spark commits the batch, so wait for the commit, too.
        if report is None or not drain.is_reached(report, flushing=flushing) or self._newest < report.batch.number:
            return False
        self.counted = drain.end_offset_sum
        return True

    def _end(self, query: StreamingQuery) -> None:
        self._halt.set()
        stop_between_batches(query)
        error = query.exception()
        if error is not None and not self._halted:
            self._lease.require()  # another driver can make any part of this query fail
            require_messages(self._settings, self._checkpoint)
            raise translate_failure(error) from error
