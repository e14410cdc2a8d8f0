"""What happens at the end of each batch, on the driver: closed windows go out, reports come in."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.checkpoint.crew import Crew
from unskew.apps.checkpoint.totals import Totals, TotalsLog
from unskew.apps.feedback.loop import Told, looped
from unskew.apps.feedback.rebalance import Rebalance
from unskew.apps.keyed import results
from unskew.apps.keyed.asked import Asked
from unskew.apps.keyed.handed import Handed
from unskew.apps.keyed.held import Held
from unskew.apps.topology import observer
from unskew.apps.topology.closing import Closing
from unskew.apps.topology.loss import gone
from unskew.apps.topology.messages import Message
from unskew.apps.topology.publisher import Publisher
from unskew.apps.topology.rejected import rejected
from unskew.apps.topology.reports import Reports
from unskew.apps.topology.settings import Settings


@dataclass(frozen=True)
class BatchReport:
    """One batch, as its tasks told it.

    Attributes
    ----------
    batch : Batch
        What was planned.
    loads, busy : int64[W], float64[W]
        Each worker's tuples and the time it was at work (s); W as the run has it, or had it in this batch if that is
        more.
    rejected, late : int
        Messages rejected, and tuples too late, in this batch.
    routing_seconds : float
        Time spent in the groupings, all sources together.
    internals : dict
        source → what its grouping tells of itself.
    totals : Totals
        Where the run stands after the batch.
    windows : list of (Distribution, Totals)
        The windows closed by the batch, and where the run stood with each of them.
    failures : dict
        (partition, offset) of the messages among the rejected on which the work failed → what it raised.
    held : Held, optional
        The states, if the work has some.
    rebalances : tuple of Rebalance
        The plans that moved keys by which this batch was the first to be routed.

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
    failures: dict[tuple[int, int], str] = field(default_factory=dict)
    held: Held | None = None
    rebalances: tuple[Rebalance, ...] = ()


class Sink:
    """What ``foreachBatch`` does. Run again for the same batch, it does the same again."""

    def __init__(
        self,
        settings: Settings,
        reports: Reports,
        publisher: Publisher,
        listener: Callable[[BatchReport], None],
    ) -> None:
        self._settings = settings
        self._states = settings.states
        self._totals = TotalsLog(settings.place)
        self._reports = reports
        self._publisher = publisher
        self._closing = Closing(settings.connection, publisher.topics["aggregator"], settings.workers)
        self._listener = listener
        self._loop = looped(settings)
        self._crew = Crew.at(settings.place, settings.workers) if self._states else None

    def __call__(self, df: DataFrame, batch: Batch) -> None:
        """Publish what the batch closed, note where the run stands, tell the listener."""
        skipped = self._skipped(batch)
        before = self._totals.at(batch.number)
        windows = self._keyed(df, batch, self._states) if self._states else self._counted(df, batch, before)
        told = self._reports.take(batch.number)
        report = self._collect(batch, before, skipped, told)
        if windows:
            report = self._publish(windows, report)
        if report.rejected:
            self._publisher.write(rejected(df.sparkSession, self._settings, batch, report.failures), "rejected")
        self._totals.write(batch.number + 1, report.totals)
        if self._loop is not None:
            report = replace(report, rebalances=self._loop.end(batch.number, told))
            if self._crew is not None:
                taken = [told.get("worker", {}).get(worker, {}).get("taken", 0) for worker in range(self._crew.most)]
                Handed(self._settings.place).forget(taken)
        self._listener(report)

    def _counted(self, df: DataFrame, batch: Batch, before: Totals) -> list[observer.Distribution]:
        """Run the batch, and publish the counts of the windows that it closes."""
        rows = df.where("worker >= 0")
        # Where nothing can close, a batch ends with its state. (If rows come all the same, it is run again: it would
        # do so after any failure, and nothing is lost.)
        if self._may_close(batch, before) or rows.collect():
            return self._closing.run(rows)
        return []

    def _keyed(self, df: DataFrame, batch: Batch, states: Asked) -> list[observer.Distribution]:
        """Run the batch of a work with states; publish what it told, and the counts of the windows that it closes."""
        # Both come of one pass over the states: it isn't made twice.
        rows = df.persist()
        try:
            number = rows.count()
            told = rows.where("result is not null")
            telling = told.count() if number else 0
            if telling:
                self._publisher.write(results.to_messages(told, states.work.identity, batch.time_ms), "results")
            return self._closing.run(rows.where("result is null").drop("result")) if number > telling else []
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
        """How many of the batch's messages are gone, where that is no failure."""
        if self._settings.on_data_loss == "fail":
            return 0
        topic = self._settings.source_name
        lost = gone(self._settings.connection, topic, batch.start[topic], batch.end[topic])
        return sum(lost.values())

    def _collect(self, batch: Batch, before: Totals, skipped: int, told: Told) -> BatchReport:
        # A batch planned with more workers than the run has now had them.
        had = [worker + 1 for worker, said in told.get("worker", {}).items() if said["tuples"]]
        most = max([self._settings.workers, *had])
        loads, busy = np.zeros(most, np.int64), np.zeros(most, np.float64)
        windows: dict[int, int] = {}
        failures: dict[tuple[int, int], str] = {}
        for worker, said in told.get("worker", {}).items():
            if worker < most:
                loads[worker], busy[worker] = said["tuples"], said["busy"]
            failures |= said["failures"]
            for window, tuples in said.get("windows", {}).items():
                windows[window] = windows.get(window, 0) + tuples
        length = self._settings.window_ms
        if self._settings.time == "batch" and loads.any():
            windows = {batch.time_ms // length: int(loads.sum())}
        late = sum(n for window, n in windows.items() if (window + 1) * length <= batch.late_before_ms)
        late += sum(said.get("late", 0) for said in told.get("worker", {}).values())
        routers = told.get("router", {})
        refused = sum(said["rejected"] for said in routers.values()) + len(failures)
        internals = {source: said["internals"] for source, said in sorted(routers.items())}
        totals = replace(
            before,
            # Of a source without tuples in this batch what it last said: carried with the totals, so that a replay by
            # another driver publishes the same.
            occupants=before.occupants | {str(s): told["old"] for s, told in internals.items() if "old" in told},
            started_ms=batch.time_ms if before.started_ms < 0 and loads.any() else before.started_ms,
            routed=before.routed + int(loads.sum()),
            rejected=before.rejected + refused,
            late=before.late + late,
            skipped=before.skipped + skipped,
            last_window_end_ms=max([before.last_window_end_ms, *((window + 1) * length for window in windows)]),
        )
        seconds = sum(said["seconds"] for said in routers.values())
        held = Held.of(told, self._settings.workers) if self._states else None
        return BatchReport(batch, loads, busy, refused, late, seconds, internals, totals, [], failures, held)

    def _publish(self, windows: list[observer.Distribution], report: BatchReport) -> BatchReport:
        told = report.totals.occupants
        occupants = [occupant | {"source": source} for source in sorted(told, key=int) for occupant in told[source]]
        totals, closed = report.totals, []
        messages: list[Message] = []
        for window in windows:
            totals = totals.with_window(window.tuples.tolist(), int(window.keys.sum()), window.distinct_keys)
            tags = {"grouping": self._settings.grouping.upper(), "sourceType": self._settings.source_type.upper()}
            messages += observer.to_messages(window, totals, tags, occupants)
            closed.append((window, totals))
        self._publisher.send("distribution", messages)
        return replace(report, totals=totals, windows=closed)
