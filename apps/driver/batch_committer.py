"""The end of each batch, on the driver: closed windows are published, and the tasks' reports are collected."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from unskew.apps.aggregator import observer
from unskew.apps.aggregator.aggregator import WindowPublisher
from unskew.apps.aggregator.publisher import ResendableMessages, ResultPublisher
from unskew.apps.aggregator.rejected_messages import read_rejected
from unskew.apps.checkpoint.checkpoint import Batch, Checkpoint
from unskew.apps.checkpoint.lease import Lease
from unskew.apps.checkpoint.versions import Totals, TotalsLog
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.plans.feedback_loop import end_batch
from unskew.apps.driver.plans.planner import Planner
from unskew.apps.metrics.task_reports import Failures, PlanSummary, Reports, StateSummary, TaskReports
from unskew.apps.splitter.kafka_source import count_lost_messages
from unskew.apps.worker.result_messages import ResultMessage
from unskew.grouping.feedback_loop import Rebalance
from unskew.kafka.transactions import BatchId


@dataclass(frozen=True)
class BatchReport:
    """One batch, from its plan and its tasks' reports.

    Attributes
    ----------
    batch : Batch
        The batch as it was planned.
    loads, busy : int64[W], float64[W]
        Each worker's tuples, and its time at work (s). W is the run's, or more if the batch was planned for more
        workers.
    rejected, late : int
        The number of rejected messages, and of tuples that were too late, in this batch.
    routing_seconds : float
        The time spent in the groupings, of all sources together.
    internals : dict
        source → the internals of its grouping (``Grouping.internals``).
    totals : Totals
        The run's totals after the batch.
    windows : list of (Distribution, Totals)
        The windows that the batch closed, each with the run's totals after it.
    failures : dict
        (partition, offset) of the rejected messages on which the work failed → the error.
    states : StateSummary, optional
        The states of a keyed operator.
    rebalances : tuple of Rebalance
        The plans that moved keys, if this batch was the first to be routed by them.
    plan : PlanSummary, optional
        How the batch was planned, if its grouping plans batches, and a planner has planned this one.

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


class BatchCommitter:
    """The function for ``foreachBatch``. If it runs again for the same batch, it does the same again.

    Before each of its writes it checks whether another driver has taken over the checkpoint. ``planner`` is that of the
    query, if it has one.
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
        topic = publisher.topics["aggregator"]
        self._closing = WindowPublisher(
            settings.connection, topic, settings.workers, settings.location, publisher.commits
        )
        self._listener = listener
        self._lease = lease
        self._planner = planner
        self._loop = dataflow.loop()
        self._record = Checkpoint(settings.location).read_record()

    def __call__(self, df: DataFrame, batch: Batch) -> None:
        """Publish the windows that the batch closed, write totals and plans for the next batch, call the listener."""
        skipped = self._count_skipped(batch)
        before = self._totals.at(batch.number)
        may_close = self._may_close(batch, before)
        number = BatchId(batch.number, batch.planned_ms)
        write = partial(self._write, number)
        with self._stage.execute_batch(df, batch, self._record, write, may_close=may_close) as counts:
            windows = self._close(counts, number) if counts is not None else []
        reports = self._reports.take(batch.number)
        report = self._summarise(batch, before, skipped, reports)
        if windows:
            report = self._publish(windows, report)
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

    def _close(self, counts: DataFrame, number: BatchId) -> list[observer.Distribution]:
        """Publish the counts of windows that the batch closes."""
        self._lease.require()
        return self._closing.run(counts, number)

    def _write(self, number: BatchId, records: DataFrame, role: str) -> None:
        """Write a batch's records to the topic of a role."""
        self._lease.require()
        self._publisher.write(records, role, number)

    def _may_close(self, batch: Batch, before: Totals) -> bool:
        """Whether this batch's watermark may pass a window's end that the previous batch's hadn't passed."""
        length = self._settings.window_ms
        if batch.watermark_ms // length == batch.late_before_ms // length:
            return False
        # By event time a batch may close windows that no batch before had.
        return self._settings.time == "event" or before.last_window_end_ms > batch.late_before_ms

    def _count_skipped(self, batch: Batch) -> int:
        """How many of the batch's messages the topic no longer has, where the run goes on without them."""
        if self._settings.on_data_loss == "fail":
            return 0
        topic = self._settings.topic
        lost = count_lost_messages(self._settings.connection, topic, batch.start[topic], batch.end[topic])
        return sum(lost.values())

    def _summarise(self, batch: Batch, before: Totals, skipped: int, reports: TaskReports) -> BatchReport:
        # A batch may have been planned for more workers than the run has now.
        most = max([self._settings.workers, *(w + 1 for w, report in reports.workers.items() if report.tuples)])
        loads = np.zeros(most, np.int64)
        windows: dict[int, int] = {}
        failures: Failures = {}
        for worker, report in reports.workers.items():
            if worker < most:
                loads[worker] = report.tuples
            failures |= report.failures
            for window, tuples in report.windows.items():
                windows[window] = windows.get(window, 0) + tuples
        # The tuples of each window, late ones too. By event time the workers report them. By batch time all of a
        # batch's tuples are in the window of its time.
        length = self._settings.window_ms
        if self._settings.time == "batch" and loads.any():
            windows = {batch.time_ms // length: int(loads.sum())}
        # Late are the tuples of windows that the batch before has closed, and those that a TTL alone makes late.
        late = sum(n for window, n in windows.items() if (window + 1) * length <= batch.late_before_ms)
        late += sum(report.late for report in reports.workers.values())
        # Rejected are messages without a key, and those on which the work failed.
        refused = sum(report.rejected for report in reports.routers.values()) + len(failures)
        internals = {source: report.internals for source, report in sorted(reports.routers.items())}
        # The sums that the next batch begins with, but for closed windows, which ``_publish`` adds. ``before`` is the
        # version of this batch, so that a replay adds to the same numbers, and doesn't count its tuples twice.
        totals = replace(
            before,
            # A source without tuples in this batch keeps its last ones. They are carried with the totals, so that a
            # replay by another driver publishes the same.
            occupants=before.occupants | {str(s): shown["old"] for s, shown in internals.items() if "old" in shown},
            started_ms=batch.time_ms if before.started_ms < 0 and loads.any() else before.started_ms,
            routed=before.routed + int(loads.sum()),
            rejected=before.rejected + refused,
            late=before.late + late,
            skipped=before.skipped + skipped,
            last_window_end_ms=max([before.last_window_end_ms, *((window + 1) * length for window in windows)]),
        )
        seconds = sum(report.seconds for report in reports.routers.values())
        states = self._stage.summary(reports)
        busy = reports.busy(most)
        # The planner knows how it has planned, and the routers how long they have waited for that.
        plan = self._planner.summary(batch.number) if self._planner is not None else None
        if plan is not None:
            plan = replace(plan, waited=max((report.waited for report in reports.routers.values()), default=0.0))
        of = batch, loads, busy, refused, late, seconds, internals, totals
        return BatchReport(*of, windows=[], failures=failures, states=states, plan=plan)

    def _publish(self, windows: list[observer.Distribution], report: BatchReport) -> BatchReport:
        by_source = report.totals.occupants
        occupants = [each | {"source": source} for source in sorted(by_source, key=int) for each in by_source[source]]
        tags = {"grouping": self._settings.grouping.upper(), "sourceType": self._settings.source_type.upper()}
        totals, closed = report.totals, []
        for window in windows:
            totals = totals.with_window(window.tuples.tolist(), int(window.keys.sum()), window.distinct_keys)
            closed.append((window, totals))
        self._lease.require()

        # By event time a batch may close so many windows that their records are made as they are sent.
        def records() -> Iterator[ResultMessage]:
            made = (observer.make_messages(window, so_far, tags, occupants) for window, so_far in closed)
            return chain.from_iterable(made)

        number = BatchId(report.batch.number, report.batch.planned_ms)
        self._publisher.send("distribution", ResendableMessages(records), number)
        return replace(report, totals=totals, windows=closed)
