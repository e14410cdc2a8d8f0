"""The end of each batch, on the driver: closed windows are published, and the tasks' reports are collected."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from unskew.apps.checkpoint.checkpoint import GENERATION, Batch, Checkpoint, WorkerHistory
from unskew.apps.checkpoint.hold import Hold
from unskew.apps.checkpoint.versions import Totals, TotalsLog
from unskew.apps.keyed.migration import Transfers
from unskew.apps.routing.plans import Rebalance
from unskew.apps.routing.reports import Failures, Reports, StateSummary, TaskReports
from unskew.apps.topology import observer
from unskew.apps.topology.aggregator import Closing
from unskew.apps.topology.parts import StateSettings, loop_of
from unskew.apps.topology.publisher import Publisher, result_records
from unskew.apps.topology.rejected import rejected
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.source import lost_messages


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
        The states of a keyed work.
    rebalances : tuple of Rebalance
        The plans that moved keys, if this batch was the first to be routed by them.

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


class Sink:
    """The function for ``foreachBatch``. If it runs again for the same batch, it does the same again.

    Before each of its writes it checks whether another driver has taken over the checkpoint.
    """

    def __init__(
        self,
        settings: Settings,
        reports: Reports,
        publisher: Publisher,
        listener: Callable[[BatchReport], None],
        hold: Hold,
    ) -> None:
        self._settings = settings
        self._states = settings.states
        self._totals = TotalsLog(settings.location)
        self._reports = reports
        self._publisher = publisher
        topic = publisher.topics["aggregator"]
        self._closing = Closing(settings.connection, topic, settings.workers, settings.location)
        self._listener = listener
        self._hold = hold
        self._loop = loop_of(settings)
        claimed = Checkpoint(settings.location).claimed() if self._states else {}
        self._history = WorkerHistory.of(claimed, settings.workers) if self._states else None
        self._generation = claimed.get(GENERATION, {}).get("number", 0)

    def __call__(self, df: DataFrame, batch: Batch) -> None:
        """Publish the windows that the batch closed, write totals and plans for the next batch, call the listener."""
        skipped = self._skipped(batch)
        before = self._totals.at(batch.number)
        windows = self._keyed(df, batch, self._states) if self._states else self._counted(df, batch, before)
        reports = self._reports.take(batch.number)
        report = self._collect(batch, before, skipped, reports)
        if windows:
            report = self._publish(windows, report)
        if report.rejected:
            self._hold.require()
            self._publisher.write(rejected(df.sparkSession, self._settings, batch, report.failures), "rejected")
        self._hold.require()
        self._totals.write(batch.number + 1, report.totals)
        if self._loop is not None:
            self._hold.require()
            report = replace(report, rebalances=self._loop.end(batch.number, reports))
            if self._history is not None:
                workers = reports.workers
                taken = [workers[w].migration.taken if w in workers else 0 for w in range(self._history.most)]
                Transfers(self._settings.location).forget(taken)
        self._listener(report)

    def _counted(self, df: DataFrame, batch: Batch, before: Totals) -> list[observer.Distribution]:
        """Run the batch, and publish the counts of the windows that it closes."""
        rows = df.where("worker >= 0")
        # Where no window can close, the job that updates the state is all. (If there are rows all the same, the batch
        # runs once more, as it would after a failure, and nothing is lost.)
        if self._may_close(batch, before) or rows.collect():
            return self._closing.run(rows)
        return []

    def _keyed(self, df: DataFrame, batch: Batch, states: StateSettings) -> list[observer.Distribution]:
        """Run the batch of a keyed work; publish its results, and the counts of the windows that it closes."""
        # Results and counts are of one pass over the states, which Spark must not run twice.
        rows = df.persist()
        try:
            number = rows.count()
            results = rows.where("result is not null")
            published = results.count() if number else 0
            if published:
                self._hold.require()
                records = result_records(results, states.work.identity, batch, self._generation)
                self._publisher.write(records, "results")
            if number == published:
                return []
            self._hold.require()
            return self._closing.run(rows.where("result is null").drop("result"))
        finally:
            rows.unpersist()

    def _may_close(self, batch: Batch, before: Totals) -> bool:
        """Whether a window may end within this batch's watermark that didn't end within that of the one before."""
        length = self._settings.window_ms
        if batch.watermark_ms // length == batch.late_before_ms // length:
            return False
        # By event time a batch may close windows that no batch before had.
        return self._settings.time == "event" or before.last_window_end_ms > batch.late_before_ms

    def _skipped(self, batch: Batch) -> int:
        """How many of the batch's messages the topic no longer has, where the run goes on without them."""
        if self._settings.on_data_loss == "fail":
            return 0
        topic = self._settings.source_name
        lost = lost_messages(self._settings.connection, topic, batch.start[topic], batch.end[topic])
        return sum(lost.values())

    def _collect(self, batch: Batch, before: Totals, skipped: int, reports: TaskReports) -> BatchReport:
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
        length = self._settings.window_ms
        if self._settings.time == "batch" and loads.any():
            windows = {batch.time_ms // length: int(loads.sum())}
        late = sum(n for window, n in windows.items() if (window + 1) * length <= batch.late_before_ms)
        late += sum(report.late for report in reports.workers.values())
        refused = sum(report.rejected for report in reports.routers.values()) + len(failures)
        internals = {source: report.internals for source, report in sorted(reports.routers.items())}
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
        states = StateSummary.of(reports, self._settings.workers) if self._states else None
        busy = reports.busy(most)
        return BatchReport(batch, loads, busy, refused, late, seconds, internals, totals, [], failures, states)

    def _publish(self, windows: list[observer.Distribution], report: BatchReport) -> BatchReport:
        by_source = report.totals.occupants
        occupants = [each | {"source": source} for source in sorted(by_source, key=int) for each in by_source[source]]
        tags = {"grouping": self._settings.grouping.upper(), "sourceType": self._settings.source_type.upper()}
        totals, closed = report.totals, []
        for window in windows:
            totals = totals.with_window(window.tuples.tolist(), int(window.keys.sum()), window.distinct_keys)
            closed.append((window, totals))
        self._hold.require()
        # By event time a batch may close so many windows that their records are made as they are sent.
        records = (observer.to_messages(window, so_far, tags, occupants) for window, so_far in closed)
        self._publisher.send("distribution", chain.from_iterable(records))
        return replace(report, totals=totals, windows=closed)
