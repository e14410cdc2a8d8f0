"""A run's figures: the command prints them at its end, and a comparison shows them side by side."""

import time
from dataclasses import dataclass

from unskew.apps.driver.batch_committer import BatchReport
from unskew.grouping import measures


@dataclass(frozen=True)
class JobSummary:
    """The figures of one run.

    Attributes
    ----------
    grouping : str
        The grouping's name.
    tuples, rejected, late, skipped : int
        Since the checkpoint was created: tuples counted in closed windows, rejected messages, late tuples, and messages
        that Kafka had removed before they were read.
    std_dev, last_std_dev : float
        STD_DEV over all closed windows, and of the last one. They differ if a scheme learns.
    dist_cost : float
        DIST_COST, the mean over the windows, weighted by their keys.
    imbalance_fraction : float
        (max − mean load) / tuples, over all closed windows.
    straggling : float
        The slowest worker's time divided by the mean, each summed over the batches. 1 is ideal.
    tuples_per_second : float
        The rate from the end of this run's first batch with tuples to the end of its last, or that of an only batch.
    first_batch_seconds, first_result_seconds : float
        The time from the command's start to the end of the first batch, and to the first published window; 0 if none.
    loads : list of int
        Each worker's tuples in closed windows, [W].
    rebalances, moved_keys : int
        The number of this run's plans that moved keys, and of the moved keys, if counted.
    planning_seconds : float
        The controller's time for these plans.

    """

    grouping: str
    tuples: int
    rejected: int
    late: int
    std_dev: float
    last_std_dev: float
    dist_cost: float
    imbalance_fraction: float
    straggling: float
    tuples_per_second: float
    first_batch_seconds: float
    first_result_seconds: float
    loads: list[int]
    skipped: int = 0
    rebalances: int = 0
    moved_keys: int = 0
    planning_seconds: float = 0.0

    def __str__(self) -> str:
        """The balance in a line."""
        return (
            f"{self.tuples:,} tuples at {self.tuples_per_second:,.0f}/s, STD_DEV {self.std_dev:.2f}, "
            f"DIST_COST {self.dist_cost:.2f}, slowest worker {self.straggling:.2f} × mean"
        )


class JobTally:
    """Sums up a run, as a listener to its batches."""

    def __init__(self, grouping: str) -> None:
        self._grouping = grouping
        self._started = time.monotonic()
        self._report: BatchReport | None = None
        self._slowest = self._mean = 0.0
        self._first = self._result = 0.0
        self._last_std_dev = 0.0
        # Only sums, because a run may last for years. Of batches with tuples: the first, and the tuples of later ones
        # up to the end of the last.
        self._first_tuples, self._first_end = 0, 0.0
        self._later_tuples, self._last_end = 0, 0.0
        self._rebalances = self._moved_keys = 0
        self._planning_seconds = 0.0

    def __call__(self, report: BatchReport) -> None:
        """Add a batch."""
        now = time.monotonic()
        self._report = report
        for rebalance in report.rebalances:
            self._rebalances += 1
            self._moved_keys += rebalance.keys or 0
            self._planning_seconds += rebalance.planning_seconds
        tuples = int(report.loads.sum())
        if tuples:
            if self._first_tuples:
                self._later_tuples += tuples
            else:
                self._first_tuples, self._first_end = tuples, now
            self._last_end = now
            self._slowest += float(report.busy.max())
            self._mean += float(report.busy.mean())
        self._first = self._first or now - self._started
        if report.windows:
            self._result = self._result or now - self._started
            self._last_std_dev = measures.std_dev(report.windows[-1][0].tuples)

    def summary(self) -> JobSummary:
        """The sum so far."""
        totals = self._report.totals if self._report else None
        loads = totals.loads if totals else []
        return JobSummary(
            grouping=self._grouping,
            tuples=totals.tuples if totals else 0,
            rejected=totals.rejected if totals else 0,
            late=totals.late if totals else 0,
            std_dev=measures.std_dev(loads) if loads else 0.0,
            last_std_dev=self._last_std_dev,
            dist_cost=measures.dist_cost(totals.assignments, totals.keys) if totals else 0.0,
            imbalance_fraction=measures.imbalance_fraction(loads) if loads else 0.0,
            straggling=self._slowest / self._mean if self._mean else 1.0,
            tuples_per_second=self._rate(),
            first_batch_seconds=self._first,
            first_result_seconds=self._result,
            loads=list(loads),
            skipped=totals.skipped if totals else 0,
            rebalances=self._rebalances,
            moved_keys=self._moved_keys,
            planning_seconds=self._planning_seconds,
        )

    def _rate(self) -> float:
        if self._later_tuples:
            return self._later_tuples / (self._last_end - self._first_end)
        return self._first_tuples / (self._first_end - self._started) if self._first_tuples else 0.0
