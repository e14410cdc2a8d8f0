"""The execution of `unskew topology`: a run with its display, its metrics and its summary."""

import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import orjson

from unskew.apps.cli.watchdog import Watchdog
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.job_summary import JobSummary
from unskew.apps.driver.streaming_job import JobOutcome
from unskew.apps.driver.topology_handle import TopologyHandle
from unskew.apps.metrics.display import Display, LiveView
from unskew.apps.metrics.metrics_reporter import MetricsReporter
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.apps.settings import Settings
from unskew.errors import EnvironmentFault
from unskew.grouping import measures
from unskew.log_format import log_event, writes_json


class EventWriter:
    """Logs what ``Display`` shows. It is a context manager, and has the same methods."""

    def __init__(self, settings: Settings, notice: Callable[[], str]) -> None:
        self._run = settings.name
        self._notice = notice

    def __enter__(self) -> Self:
        """Log that the run starts."""
        log_event("starting", "starting Spark", run=self._run)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def target(self, tuples: int) -> None:
        """Log the number of messages that wait at the start."""
        log_event("waiting", "the first batch is being prepared", run=self._run, messages=tuples)

    def show_stop(self) -> None:
        """Log that the run ends after the current batch."""
        log_event("stopping", "stopping after this batch", run=self._run)

    def batch(self, report: BatchReport) -> None:
        """Log a finished batch. A batch without tuples is neither balanced nor unbalanced."""
        totals, tuples = report.totals, int(report.loads.sum())
        more: dict[str, Any] = {"notice": notice} if (notice := self._notice()) else {}
        if tuples:
            more |= {
                "std_dev": measures.std_dev(report.loads),
                "straggling": measures.straggler_ratio(report.busy),
            }
        log_event(
            "batch",
            f"batch {report.batch.number} is done",
            run=self._run,
            batch=report.batch.number,
            batch_time_ms=report.batch.time_ms,
            tuples=tuples,
            rejected=report.rejected,
            late=report.late,
            windows=len(report.windows),
            total_tuples=totals.routed,
            total_rejected=totals.rejected,
            total_late=totals.late,
            total_skipped=totals.skipped,
            **more,
        )
        for rebalance in report.rebalances:
            log_event("rebalance", str(rebalance), run=self._run, batch=report.batch.number, plan=rebalance.plan)

    def note(self, text: str) -> None:
        log_event("note", text, run=self._run)

    def summary(self, result: JobSummary, outcome: JobOutcome, topics: dict[str, str]) -> None:
        """Log the run's figures, how it ended, and its topics."""
        message = f"{'drained' if outcome.drained else 'stopped'} after {outcome.batches} batches"
        log_event("summary", message, run=self._run, **asdict(outcome), topics=topics, figures=asdict(result))


def _open_display(settings: Settings, view: LiveView | None, notice: Callable[[], str]) -> Display | EventWriter:
    """Where a run's progress goes: to a terminal, or a log of events."""
    return EventWriter(settings, notice) if writes_json() else Display(settings, view=view, notice=notice)


def execute_topology(
    settings: Settings,
    destinations: Destinations,
    summary: Path | None,
    *,
    live: bool,
    batch_timeout: float | None = None,
) -> None:
    """Run the topology until it is drained, stopped by a signal, or fails. Then print its summary.

    ``summary`` is a file to save it to, and ``batch_timeout`` that of the ``Watchdog`` (s).

    Raises ``EnvironmentFault`` as ``unskew.apps.driver.streaming_job.StreamingJob`` does, or if the summary can't be
    written; ``LeaseLost`` if another driver has taken over the checkpoint.
    """
    view = LiveView(settings) if live else None
    with Outputs(destinations) as outputs, _open_display(settings, view, lambda: outputs.losses) as display:
        if outputs.exporter is not None:
            display.note(f"metrics for Prometheus: {outputs.exporter.url}")
        if settings.location.scheme != (given := settings.checkpoint.partition(":")[0]) and given in {"s3", "s3n"}:
            display.note(f"the checkpoint {settings.checkpoint} is {settings.location} here, by Hadoop's class for S3")
        monitor = MetricsReporter(settings, outputs)
        listeners, followers = [monitor.batch], [monitor.progress]
        if view is not None:
            listeners.append(view.batch)
            followers.append(view.progress)
        watchdog = Watchdog(batch_timeout, lambda: run.has_begun)
        run = TopologyHandle(settings, [*listeners, display.batch], [*followers, watchdog.progress])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: (run.stop(), display.show_stop()))
        display.target(run.end_offset_sum)
        with watchdog:
            run.wait()
    if run.outcome is None:
        return
    result = run.balance()
    display.summary(result, run.outcome, run.topics)
    if outputs.balance:
        (display.note if writes_json() else print)(outputs.balance)
    if summary is not None:
        try:
            summary.write_bytes(orjson.dumps(asdict(result), option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise EnvironmentFault(f"the summary can't be written to {summary} ({error.strerror})") from error
