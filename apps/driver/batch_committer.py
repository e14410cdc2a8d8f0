"""Ends each batch, on the driver: publishes closed windows, and collects the tasks' reports."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from unskew.apps.aggregator import observer
from unskew.apps.aggregator.aggregator import WindowPublisher
from unskew.apps.aggregator.changes import WindowChanges, add_changes, collect_changes, make_marks, take_closed
from unskew.apps.aggregator.publisher import ResendableMessages, ResultPublisher
from unskew.apps.aggregator.rejected_messages import read_rejected
from unskew.apps.checkpoint.checkpoint import GENERATION, Batch, Checkpoint
from unskew.apps.checkpoint.lease import Lease
from unskew.apps.checkpoint.versions import Totals, TotalsLog
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.plans.feedback_loop import end_batch
from unskew.apps.driver.plans.planner import Planner
from unskew.apps.metrics.task_reports import Failures, PlanSummary, Reports, StateSummary, TaskReports
from unskew.apps.operators.errors import StateFault
from unskew.apps.splitter.kafka_source import count_lost_messages
from unskew.apps.worker.result_messages import ResultMessage
from unskew.errors import EnvironmentFault
from unskew.grouping.feedback_loop import Rebalance
from unskew.kafka.topics import count_partitions
from unskew.kafka.transactions import BatchId

# Writes records to a role's topic.
_Write: TypeAlias = Callable[[DataFrame, str], None]


@dataclass(frozen=True)
class BatchReport:
    """A batch, from its plan and its tasks' reports.

    Attributes
    ----------
    batch : Batch
        The batch as planned.
    loads, busy : int64[W], float64[W]
        Each worker's tuples, and its busy time (s). W is the run's, or more if the batch was planned for more workers.
    rejected, late : int
        The number of rejected messages and of late tuples in this batch.
    routing_seconds : float
        The time spent in the groupings, summed over the sources.
    internals : dict
        source → the internals of its grouping (``Grouping.internals``).
    totals : Totals
        The run's totals after the batch.
    windows : list of (Distribution, Totals)
        The windows that the batch closed, each with the run's totals after it.
    failures : dict
        (partition, offset) of the rejected messages on which the user's work failed → the error.
    states : StateSummary, optional
        A keyed operator's states.
    rebalances : tuple of Rebalance
        The plans that moved keys, if this batch was the first under them.
    plan : PlanSummary, optional
        How the batch was planned, if a planner did.

    """

    batch: Batch
    loads: NDArray[np.int64]
    busy: NDArray[np.float64]
    rejected: int
    late: int
    routing_seconds: float
    internals: dict[int, dict[str, Any]]
    totals: Totals
    windows: list[tuple[observer.Distribution, Totals]]
    failures: Failures = field(default_factory=dict)
    states: StateSummary | None = None
    rebalances: tuple[Rebalance, ...] = ()
    plan: PlanSummary | None = None

    @property
    def open_window(self) -> observer.Distribution | None:
        """The newest open window after the batch, with its counts so far; only if changes are published."""
        *_, newest = [None, *self.totals.open.values()]
        return None if newest is None else observer.Distribution.from_json(newest)


class BatchCommitter:
    """The function for ``foreachBatch``, which repeats the same if a batch runs again.

    Before each write it checks whether another driver has taken over the checkpoint. ``planner`` is the query's, if
    any.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        reports: Reports,
        publisher: ResultPublisher,
        listener: Callable[[BatchReport], None],
        lease: Lease,
        planner: Planner | None = None,
    ) -> None:
        self._settings = settings = dataflow.settings
        self._stage = dataflow.stage
        self._totals = TotalsLog(settings.location)
        self._reports = reports
        self._publisher = publisher
        self._topic = publisher.topics["aggregator"]
        self._closing = WindowPublisher(
            settings.connection, self._topic, settings.workers, settings.location, publisher.commits
        )
        self._listener = listener
        self._lease = lease
        self._planner = planner
        self._loop = dataflow.loop()
        self._record = Checkpoint(settings.location).read_record()

    def __call__(self, df: DataFrame, batch: Batch) -> None:
        """Publish closed windows, write totals and plans for the next batch, and call the listener."""
        commit = self._commit_final if self._settings.emit == "final" else self._commit_changes
        write = partial(self._write, BatchId(batch.number, batch.planned_ms))
        report, reports = commit(df, batch, write)
        batch = report.batch
        if report.rejected:
            write(read_rejected(df.sparkSession, self._settings, batch, report.failures), "rejected")
        self._lease.require()
        self._totals.write(batch.number + 1, report.totals)
        if self._loop is not None:
            self._lease.require()
            rebalances = end_batch(self._loop, self._settings.location, batch.number, reports)
            report = replace(report, rebalances=rebalances)
            self._stage.forget(reports, self._record)
        self._listener(report)

    def _commit_final(self, df: DataFrame, batch: Batch, write: _Write) -> tuple[BatchReport, TaskReports]:
        """Run a batch, and publish the counts of the windows that it closes."""
        skipped = self._count_skipped(batch)
        before = self._totals.at(batch.number)
        may_close = self._may_close(batch, before)
        windows: list[observer.Distribution] = []
        with self._stage.execute_batch(df, batch, self._record, write, may_close=may_close) as counts:
            if counts is not None:
                self._lease.require()
                windows = self._closing.run(counts, BatchId(batch.number, batch.planned_ms))
        reports = self._reports.take(batch.number)
        report = self._summarise(batch, before, skipped, reports)
        totals, closed = self._publish(windows, report.totals, batch)
        return replace(report, totals=totals, windows=closed), reports

    def _commit_changes(self, df: DataFrame, batch: Batch, write: _Write) -> tuple[BatchReport, TaskReports]:
        """Run a batch, whose tasks publish its changes, and mark the windows that close before or after it.

        ``unskew.apps.aggregator.changes`` says when windows close.
        """
        settings = self._settings
        batch = replace(batch, late_before_ms=batch.watermark_ms)  # as Spark does if ``ALLOW_MULTIPLE`` is false
        skipped = self._count_skipped(batch)
        before, closed = self._totals.at(batch.number), []
        if settings.time == "batch":
            before, closed = self._close_windows(before, batch.time_ms, batch)
        elif before.closed_ms > batch.watermark_ms:
            raise StateFault(
                f"batch {batch.number} has the watermark {batch.watermark_ms}, and windows are closed up to "
                f"{before.closed_ms}: the checkpoint was set back, or Spark's rule of watermarks has changed"
            )
        changes: list[WindowChanges] = []
        with self._stage.execute_batch(df, batch, self._record, write, may_close=True) as pieces:
            if pieces is not None:
                self._lease.require()
                changes = list(collect_changes(pieces, settings.location))
        reports = self._reports.take(batch.number)
        report = self._summarise(batch, before, skipped, reports)
        totals = replace(report.totals, open=add_changes(before.open, changes, settings.workers))
        if settings.time == "event":
            # A flush isn't in the batch's plan, so a replay may lack it: the next batch closes what it closes.
            latest = max([-1, *(each.latest_ms for each in changes)])
            until = max(batch.watermark_ms, latest - round(1000 * settings.lateness))
            totals, closed = self._close_windows(totals, until, batch)
            totals = replace(totals, closed_ms=until)
        return replace(report, totals=totals, windows=closed), reports

    def _close_windows(
        self, totals: Totals, until_ms: int, batch: Batch
    ) -> tuple[Totals, list[tuple[observer.Distribution, Totals]]]:
        """Mark open windows that end at or before this time (ms) as closed, and publish their distributions."""
        still_open, windows = take_closed(totals.open, until_ms)
        return self._publish(windows, replace(totals, open=still_open), batch) if windows else (totals, [])

    def _write(self, number: BatchId, records: DataFrame, role: str) -> None:
        """Write a batch's records to a role's topic."""
        self._lease.require()
        self._publisher.write(records, role, number)

    def _may_close(self, batch: Batch, before: Totals) -> bool:
        """Whether this batch's watermark may pass a window's end that the previous batch's hadn't passed."""
        slide = self._settings.slide_ms  # the distance of windows' ends
        if batch.watermark_ms // slide == batch.late_before_ms // slide:
            return False
        # In event time a batch may close windows that no earlier batch had.
        return self._settings.time == "event" or before.last_window_end_ms > batch.late_before_ms

    def _count_skipped(self, batch: Batch) -> int:
        """The number of the batch's messages that the topic no longer has, if the run continues without them."""
        if self._settings.on_data_loss == "fail":
            return 0
        topic = self._settings.topic
        lost = count_lost_messages(self._settings.connection, topic, batch.start[topic], batch.end[topic])
        return sum(lost.values())

    def _summarise(self, batch: Batch, before: Totals, skipped: int, reports: TaskReports) -> BatchReport:
        # A batch may have been planned for more workers than the run has now.
        most = max([self._settings.workers, *(w + 1 for w, report in reports.workers.items() if report.tuples)])
        loads = np.zeros(most, np.int64)
        panes: dict[int, int] = {}
        failures: Failures = {}
        for worker, report in reports.workers.items():
            if worker < most:
                loads[worker] = report.tuples
            failures |= report.failures
            for pane, tuples in report.windows.items():
                panes[pane] = panes.get(pane, 0) + tuples
        # The tuples of each pane, also late ones. In event time the workers report them. In batch time all of a batch's
        # tuples are in the pane of its time. Keys are the ends of the panes' last windows.
        slide, length = self._settings.slide_ms, self._settings.window_ms
        if self._settings.time == "batch" and loads.any():
            panes = {batch.time_ms // slide: int(loads.sum())}
        ends = {pane * slide + length: tuples for pane, tuples in panes.items()}
        # Tuples are late if the previous batch has closed all their windows, or by a TTL alone.
        late = sum(tuples for end, tuples in ends.items() if end <= batch.late_before_ms)
        late += sum(report.late for report in reports.workers.values())
        # Messages are rejected if they have no key, or if the user's work failed on them.
        refused = sum(report.rejected for report in reports.routers.values()) + len(failures)
        internals = {source: report.internals for source, report in sorted(reports.routers.items())}
        # The next batch's initial sums, except closed windows, which ``_publish`` adds. ``before`` is this batch's
        # version, so that a replay adds to the same numbers, and doesn't count tuples twice.
        totals = replace(
            before,
            # A source without tuples in this batch keeps its last ones. They are in the totals so that a replay by
            # another driver publishes the same.
            occupants=before.occupants | {str(s): shown["old"] for s, shown in internals.items() if "old" in shown},
            started_ms=batch.time_ms if before.started_ms < 0 and loads.any() else before.started_ms,
            routed=before.routed + int(loads.sum()),
            rejected=before.rejected + refused,
            late=before.late + late,
            skipped=before.skipped + skipped,
            last_window_end_ms=max([before.last_window_end_ms, *ends]),
        )
        seconds = sum(report.seconds for report in reports.routers.values())
        states = self._stage.summary(reports)
        busy = reports.busy(most)
        # The planner knows how it planned, and the routers how long they waited for it.
        plan = self._planner.summary(batch.number) if self._planner is not None else None
        if plan is not None:
            plan = replace(plan, waited=max((report.waited for report in reports.routers.values()), default=0.0))
        of = batch, loads, busy, refused, late, seconds, internals, totals
        return BatchReport(*of, windows=[], failures=failures, states=states, plan=plan)

    def _publish(
        self, windows: list[observer.Distribution], totals: Totals, batch: Batch
    ) -> tuple[Totals, list[tuple[observer.Distribution, Totals]]]:
        """Publish closed windows' distributions; returns the new totals, and each window with the totals so far."""
        by_source = totals.occupants
        occupants = [each | {"source": source} for source in sorted(by_source, key=int) for each in by_source[source]]
        tags = {"grouping": self._settings.grouping.upper(), "sourceType": self._settings.source_type.upper()}
        closed = []
        for window in windows:
            # Of sliding windows only adjacent ones count, so that no tuple counts twice.
            if window.start_ms % self._settings.window_ms == 0:
                totals = totals.with_window(window.tuples.tolist(), int(window.keys.sum()), window.distinct_keys)
            closed.append((window, totals))
        if not windows:
            return totals, closed
        self._lease.require()
        marks = self._mark(windows, batch)

        # In event time a batch may close so many windows that records are created as they are sent.
        def records() -> Iterator[ResultMessage]:
            made = (observer.make_messages(window, so_far, tags, occupants) for window, so_far in closed)
            return chain(marks(), chain.from_iterable(made))

        number = BatchId(batch.number, batch.planned_ms)
        self._publisher.send("distribution", ResendableMessages(records), number)
        return totals, closed

    def _mark(self, windows: list[observer.Distribution], batch: Batch) -> Callable[[], Iterable[ResultMessage]]:
        """A function that makes the marks of closed windows, or none if counts are published once."""
        if self._settings.emit == "final":
            return list
        partitions = count_partitions(self._settings.connection, self._topic)
        if partitions is None:
            raise EnvironmentFault(f"there is no topic {self._topic}, whose partitions get the marks of closed windows")
        generation = self._record.get(GENERATION, {}).get("number", 0)
        return partial(make_marks, windows, self._topic, partitions, generation, batch)
