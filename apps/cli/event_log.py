"""A run's progress and summary as events of the log, where ``Display`` shows them to people."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from unskew.grouping import measures
from unskew.log_format import log_event

if TYPE_CHECKING:
    from unskew.apps.driver.batch_committer import BatchReport
    from unskew.apps.driver.job_summary import JobSummary
    from unskew.apps.driver.streaming_job import JobOutcome
    from unskew.apps.settings import Settings


class EventWriter:
    """Logs what ``Display`` shows. It is a context manager, and has the same methods."""

    def __init__(self, settings: "Settings", notice: Callable[[], str]) -> None:
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

    def batch(self, report: "BatchReport") -> None:
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
        """Log a text."""
        log_event("note", text, run=self._run)

    def summary(self, result: "JobSummary", outcome: "JobOutcome", topics: dict[str, str]) -> None:
        """Log the run's figures, how it ended, and its topics."""
        message = f"{'drained' if outcome.drained else 'stopped'} after {outcome.batches} batches"
        log_event("summary", message, run=self._run, **asdict(outcome), topics=topics, figures=asdict(result))
