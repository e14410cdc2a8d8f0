"""The course of a run, batch by batch and window by window, as a comparison shows it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.job_summary import JobSummary, JobTally
from unskew.apps.settings import Settings
from unskew.grouping import measures

# What a grouping has learned shows in the last part of the stream, not in the mean over all of it.
_SETTLED = 0.25


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """One batch with tuples: its number of tuples, and the time at work (s) of the slowest and of the mean worker."""

    tuples: int
    slowest: float
    mean: float


@dataclass(frozen=True, slots=True)
class WindowBalance:
    """One closed window: its start (ms), tuples, balance, and the replication that the balance took."""

    start_ms: int
    tuples: int
    std_dev: float
    dist_cost: float
    hot_key_workers: int


@dataclass(frozen=True)
class RunRecord:
    """A run that was drained."""

    run: str  #: The run's name.
    summary: JobSummary  #: The figures of the whole run.
    options: dict[str, object]  #: The parameters that were given to the grouping. Others have their defaults.
    batches: list[BatchTimes] = field(repr=False)  #: The batches with tuples and the closed windows, in order.
    windows: list[WindowBalance] = field(repr=False)
    busy: list[float] = field(repr=False)  #: Each worker's time at work (s), [W].

    @property
    def grouping(self) -> str:
        return self.summary.grouping

    @property
    def loads(self) -> list[int]:
        """Each worker's tuples, [W]."""
        return self.summary.loads

    @property
    def last_quarter_std_dev(self) -> float:
        """STD_DEV in the last quarter of the tuples: the mean over its windows, weighted by their tuples."""
        # A tuple is in several windows where they slide.
        last = _take_last_quarter(self.windows, sum(window.tuples for window in self.windows))
        return _weighted_mean((w.std_dev, w.tuples) for w in last)

    @property
    def last_quarter_straggling(self) -> float:
        """The slowest worker's time divided by the mean worker's, in the last quarter of the tuples."""
        last = _take_last_quarter(self.batches, sum(batch.tuples for batch in self.batches))
        return measure_straggling(last)

    @property
    def slowest_seconds(self) -> float:
        """The time of a batch's slowest worker: the mean over all batches, weighted by their tuples."""
        return _weighted_mean((batch.slowest, batch.tuples) for batch in self.batches)

    @property
    def mean_seconds(self) -> float:
        """The time of a batch's mean worker: the mean over all batches, weighted by their tuples."""
        return _weighted_mean((batch.mean, batch.tuples) for batch in self.batches)

    @property
    def hot_key_workers(self) -> int:
        """The largest number of workers that had one of a window's hottest keys."""
        return max((window.hot_key_workers for window in self.windows), default=0)


class RunRecorder:
    """Records the course of a run. It is a listener of the run's batches."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tally = JobTally(settings.grouping)
        self._batches: list[BatchTimes] = []
        self._windows: list[WindowBalance] = []
        self._busy = np.zeros(settings.workers)

    def __call__(self, report: BatchReport) -> None:
        self._tally(report)
        self._busy += report.busy
        tuples = int(report.loads.sum())
        if tuples:
            self._batches.append(BatchTimes(tuples, float(report.busy.max()), float(report.busy.mean())))
        for window, _ in report.windows:
            self._windows.append(
                WindowBalance(
                    window.start_ms,
                    int(window.tuples.sum()),
                    measures.std_dev(window.tuples),
                    measures.dist_cost(int(window.keys.sum()), window.distinct_keys),
                    max((key.workers for key in window.hottest), default=0),
                )
            )

    def record(self) -> RunRecord:
        """The course so far."""
        options = dict(self._settings.options)
        return RunRecord(
            self._settings.name, self._tally.summary(), options, self._batches, self._windows, self._busy.tolist()
        )


_Part = TypeVar("_Part", BatchTimes, WindowBalance)


def measure_straggling(batches: Iterable[BatchTimes]) -> float:
    """The slowest worker's time divided by the mean worker's, each summed over the batches. 1 if there was no work."""
    times = [(batch.slowest, batch.mean) for batch in batches]
    mean = sum(m for _, m in times)
    return sum(slowest for slowest, _ in times) / mean if mean else 1.0


def _take_last_quarter(parts: Sequence[_Part], tuples: int) -> list[_Part]:
    """The last parts that together have at least a quarter of the tuples."""
    last: list[_Part] = []
    for part in reversed(parts):
        if sum(p.tuples for p in last) >= _SETTLED * tuples:
            break
        last.append(part)
    return last


def _weighted_mean(weighted: Iterable[tuple[float, float]]) -> float:
    pairs = list(weighted)
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else 0.0
