"""Listens to one run and tells the outputs."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from unskew.apps.checkpoint.totals import Totals, TotalsLog
from unskew.apps.monitoring import catalogue, samples
from unskew.apps.monitoring.outputs import Outputs
from unskew.apps.monitoring.samples import Sample
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.sink import BatchReport

# Internals of a scheme that count what a dashboard should mark → kind of event, what it says.
_MARKED = {
    "scale_ups": ("scale_up", "pools of hot keys grew: {n}"),
    "scale_downs": ("scale_down", "pools of cooled keys shrank: {n}"),
}


class Monitor:
    """A run's metrics: what its batches report and what Spark tells of its query, labelled and handed on.

    Parameters
    ----------
    settings : Settings
        The run.
    outputs : Outputs
        Open ones.

    """

    def __init__(self, settings: Settings, outputs: Outputs) -> None:
        self._outputs = outputs
        self._common = {
            "run": settings.name,
            "source_type": settings.source_type,
            "grouping": settings.grouping,
            "workers": str(settings.workers),
        }
        # Spark's progress comes from a thread of its own, and after the batch's report.
        self._lock = threading.Lock()
        self._planned: dict[int, int] = {}
        self._counted: dict[str, float] | None = None
        # What was counted before a restart is on the page before the first batch.
        outputs.begin(_standing(TotalsLog(settings.place).newest()), self._common)

    def batch(self, report: BatchReport) -> None:
        """Take in a batch's report."""
        with self._lock:
            self._planned = {report.batch.number: report.batch.time_ms, **dict(list(self._planned.items())[:3])}
            events = list(self._events(report))
        self._outputs.write([*samples.of_batch(report), *events], self._common)

    def progress(self, progress: Mapping[str, Any]) -> None:
        """Take in what Spark tells of the query after a batch."""
        with self._lock:
            planned = self._planned.get(progress["batchId"])
        if planned is not None:
            self._outputs.write(samples.of_progress(progress, planned), self._common)

    def _events(self, report: BatchReport) -> Iterator[Sample]:
        before, now = self._counted, dict.fromkeys(_MARKED, 0.0)
        for internals in report.internals.values():
            for name in _MARKED:
                now[name] += internals.get(name, 0)
        if before is None:
            number = report.batch.number
            kind, text = ("restart", f"resumed at batch {number}") if number else ("start", "started")
            yield _event(kind, text, report.batch.time_ms)
        for name, (kind, text) in _MARKED.items():
            grown = now[name] - (before or now)[name]
            if grown > 0:
                yield _event(kind, text.format(n=int(grown)), report.batch.time_ms)
        for rebalance in report.rebalances:
            yield _event("rebalance", str(rebalance), report.batch.time_ms)
        if report.internals:
            self._counted = now
        elif before is None:
            self._counted = dict.fromkeys(_MARKED, 0.0)


def _event(kind: str, text: str, time_ms: int) -> Sample:
    return Sample(catalogue.EVENT, time_ms, {"text": text}, {"kind": kind})


def _standing(totals: Totals) -> Iterator[Sample]:
    yield samples.of_run(totals, 0)
    for worker, tuples in enumerate(totals.loads):
        yield Sample(catalogue.WORKER, 0, {"closed": tuples}, {"worker": str(worker)})
