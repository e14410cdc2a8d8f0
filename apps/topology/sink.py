"""What happens at the end of each batch, on the driver: closed windows go out, reports come in."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.util import inheritable_thread_target

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.checkpoint.totals import Totals, TotalsLog
from unskew.apps.keyed import results
from unskew.apps.keyed.held import Held
from unskew.apps.topology import aggregator, observer
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
        Each worker's tuples and the time it was at work (s).
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
        self._totals = TotalsLog(settings.checkpoint)
        self._reports = reports
        self._publisher = publisher
        self._listener = listener

    def __call__(self, df: DataFrame, batch: Batch) -> None:
        """Publish what the batch closed, note where the run stands, tell the listener."""
        skipped = self._skipped(batch)
        # The first action runs the batch, all its partitions; what follows must not run it again.
        keyed = self._settings.keyed
        rows = (df if keyed else df.where("worker >= 0")).persist()
        whole = rows
        try:
            closed = rows.count()
            report = self._collect(batch, skipped)
            if keyed and closed:
                rows, closed = self._tell(rows, closed, batch)
            if closed:
                report = self._publish(rows, report)
            if report.rejected:
                self._publisher.write(rejected(df.sparkSession, self._settings, batch, report.failures), "rejected")
        finally:
            whole.unpersist()
        self._totals.write(batch.number + 1, report.totals)
        self._listener(report)

    def _tell(self, rows: DataFrame, number: int, batch: Batch) -> tuple[DataFrame, int]:
        """Publish what a work with states has told; the rows of closed windows, and how many they are."""
        told = rows.where("result is not null")
        telling = told.count()
        if telling:
            identity = self._settings.keyed_work.identity
            self._publisher.write(results.to_messages(told, identity, batch.time_ms), "results")
        return rows.where("result is null").drop("result"), number - telling

    def _skipped(self, batch: Batch) -> int:
        """How many of the batch's messages are gone, where that is no failure."""
        if self._settings.on_data_loss == "fail":
            return 0
        topic = self._settings.source_name
        lost = gone(self._settings.connection, topic, batch.start[topic], batch.end[topic])
        return sum(lost.values())

    def _collect(self, batch: Batch, skipped: int) -> BatchReport:
        told = self._reports.take(batch.number)
        loads = np.zeros(self._settings.workers, np.int64)
        busy = np.zeros(self._settings.workers, np.float64)
        windows: dict[int, int] = {}
        failures: dict[tuple[int, int], str] = {}
        for worker, said in told.get("worker", {}).items():
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
        before = self._totals.at(batch.number)
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
        held = Held.of(told, self._settings.workers) if self._settings.keyed else None
        return BatchReport(batch, loads, busy, refused, late, seconds, internals, totals, [], failures, held)

    def _publish(self, rows: DataFrame, report: BatchReport) -> BatchReport:
        told = report.totals.occupants
        occupants = [occupant | {"source": source} for source in sorted(told, key=int) for occupant in told[source]]
        aggregated = aggregator.aggregate(rows).persist()
        try:
            # The two outputs don't need each other: while one waits for Kafka the other computes. Its thread inherits
            # the batch's number: what an executor kept that is lost now is done again, the routing too.
            write = inheritable_thread_target(rows.sparkSession)(self._publisher.write)
            with ThreadPoolExecutor(1) as pool:
                written = pool.submit(write, aggregator.to_messages(aggregated), "aggregator")
                windows = observer.observe(rows, aggregated, self._settings.workers)
                written.result()
        finally:
            aggregated.unpersist()
        totals, closed = report.totals, []
        messages: list[Message] = []
        for window in windows:
            totals = totals.with_window(window.tuples.tolist(), int(window.keys.sum()), window.distinct_keys)
            tags = {"grouping": self._settings.grouping.upper(), "sourceType": self._settings.source_type.upper()}
            messages += observer.to_messages(window, totals, tags, occupants)
            closed.append((window, totals))
        self._publisher.send("distribution", messages)
        return replace(report, totals=totals, windows=closed)
