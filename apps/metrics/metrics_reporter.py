"""A run's metrics: the reports of its batches and Spark's progress become samples, which go to the outputs."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.versions import Totals, TotalsLog
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Sample, Value
from unskew.apps.metrics.outputs import Outputs
from unskew.apps.metrics.partition_arrivals import ArrivalMeter, Arrivals
from unskew.apps.metrics.query_progress import compute_lags, get_held_back, get_rate, get_taken_offsets
from unskew.apps.metrics.recovery import LastLag, Recovery
from unskew.apps.metrics.task_reports import StateSummary
from unskew.apps.metrics.worker_demand import WorkerDemand
from unskew.apps.settings import Settings
from unskew.grouping import measures
from unskew.grouping.feedback_loop import Rebalance
from unskew.shown_keys import show_key

if TYPE_CHECKING:
    from unskew.apps.aggregator.observer import Distribution
    from unskew.apps.driver.batch_committer import BatchReport

_WINDOWS = "stateStoreSave"  # Spark's name of the operator that keeps the windows' aggregates
# What a scheme's internals count and a dashboard marks: name of the internal → kind of event, its text.
_MARKED = {
    "scale_ups": ("scale_up", "pools of hot keys grew: {n}"),
    "scale_downs": ("scale_down", "pools of cooled keys shrank: {n}"),
}


def sample_batch(report: "BatchReport") -> Iterator[Sample]:
    """Samples of a batch, of its workers, and of the windows that it closed."""
    time = report.batch.time_ms
    done = {"routing": report.routing_seconds, "rejected": report.rejected, "late": report.late}
    yield from sample_loads(report.loads.tolist(), report.busy.tolist(), time, done)
    yield Sample(catalogue.QUERY, time, {"watermark": report.batch.watermark_ms / 1000})
    for source, internals in report.internals.items():
        for name, value in flatten_internals(internals):
            yield Sample(catalogue.SCHEME, time, {"value": value}, {"source": str(source), "internal": name})
    if report.states is not None:
        yield from sample_states(report.states, time)
    for rebalance in report.rebalances:
        yield sample_rebalance(rebalance, time)
    if report.plan is not None:
        yield Sample(catalogue.PLANNER, time, asdict(report.plan))
    yield sample_run(report.totals, time)
    for window, totals in report.windows:
        yield from sample_window(window, totals)
    if (window := report.open_window) is not None:
        hottest = window.hottest[0].tuples if window.hottest else 0
        values = {"tuples": int(window.tuples.sum()), "distinct_keys": window.distinct_keys, "hottest": hottest}
        yield Sample(catalogue.OPEN_WINDOW, time, values)


def sample_loads(
    loads: Sequence[int], busy: Sequence[float], time_ms: int, done: Mapping[str, Value] | None = None
) -> Iterator[Sample]:
    """Samples of a batch and of its workers: each one's tuples and time at work (s; empty: it isn't known).

    ``done`` has other values of the batch.
    """
    values: dict[str, Value] = {"tuples": sum(loads), **(done or {})}
    if values["tuples"]:
        # A batch without tuples is neither balanced nor unbalanced.
        values["std_dev"] = measures.std_dev(loads)
        if busy:
            values |= {
                "slowest": max(busy),
                "mean": sum(busy) / len(busy),
                "straggling": measures.straggler_ratio(busy),
            }
        for worker, load in enumerate(loads):
            at_work = {"busy": busy[worker]} if busy else {}
            yield Sample(catalogue.TASK, time_ms, {"tuples": load, **at_work}, {"worker": str(worker)})
    yield Sample(catalogue.BATCH, time_ms, values)


def sample_states(states: StateSummary, time_ms: int) -> Iterator[Sample]:
    values: dict[str, Value] = {"finished": states.finished, "fragments": states.fragments, "merge": states.merging}
    if states.merged:
        values["replication"] = states.fragments / states.merged
    yield Sample(catalogue.STATES, time_ms, values)
    yield from sample_worker_states(states.states.tolist(), states.size.tolist(), time_ms)


def sample_worker_states(states: Sequence[int], size: Sequence[int], time_ms: int) -> Iterator[Sample]:
    """Samples of each worker's number of states, and of their bytes, after a batch."""
    for worker, (number, of) in enumerate(zip(states, size, strict=True)):
        yield Sample(catalogue.WORKER_STATES, time_ms, {"states": number, "size": of}, {"worker": str(worker)})


def sample_rebalance(rebalance: Rebalance, time_ms: int) -> Sample:
    """The sample of a plan that moved keys."""
    values: dict[str, Value] = {
        "plan": rebalance.plan,
        "state": rebalance.bytes,
        "planning": rebalance.planning_seconds,
        "table": rebalance.table,
        "before": rebalance.before,
        "after": rebalance.after,
    }
    if rebalance.keys is not None:
        values["keys"] = rebalance.keys
    return Sample(catalogue.REBALANCE, time_ms, values)


def sample_run(totals: Totals, time_ms: int) -> Sample:
    values = {"tuples": totals.routed, "rejected": totals.rejected, "late": totals.late, "skipped": totals.skipped}
    return Sample(catalogue.RUN, time_ms, values)


def sample_window(window: "Distribution", totals: Totals) -> Iterator[Sample]:
    """Samples of a closed window, of its workers and of its hottest keys, with the totals up to it.

    The totals include the window, unless it is one of sliding windows that doesn't count there.
    """
    closed = dict(enumerate(totals.loads))
    fields = window.fields(totals)
    yield Sample(
        catalogue.WINDOW,
        window.end_ms,
        {
            "std_dev": fields["STD_DEV"],
            "dist_cost": fields["DIST_COST"],
            "throughput_ratio": fields["THROUGHPUT_RATIO"],
            "total_tuples": fields["TOTAL_COUNT"],
            "duration": fields["DURATION"],
            "imbalance": fields["imbalance"],
            "imbalance_fraction": fields["imbalanceFraction"],
            "tuples": fields["tuples"],
            "counts": fields["count"],
            "distinct_keys": fields["distinctKeys"],
            "idle_workers": measures.count_idle(window.tuples),
        },
    )
    for worker, share in enumerate(measures.load_shares(window.tuples).tolist()):
        values = {
            "tuples": int(window.tuples[worker]),
            "counts": int(window.counts[worker]),
            "distinct_keys": int(window.keys[worker]),
            "share": share,
            "closed": closed.get(worker, 0),
        }
        yield Sample(catalogue.WORKER, window.end_ms, values, {"worker": str(worker)})
    for rank, hot in enumerate(window.hottest, 1):
        values = {"key": show_key(hot.key), "tuples": hot.tuples, "counts": hot.count, "holders": hot.workers}
        yield Sample(catalogue.HOT_KEY, window.end_ms, values, {"rank": str(rank)})


def sample_progress(
    progress: Mapping[str, Any], time_ms: int, arrivals: Arrivals | None = None, recovery: float | None = None
) -> Iterator[Sample]:
    """Samples of Spark's progress after the batch that was planned at ``time_ms``, and of what had arrived by then.

    ``recovery`` is how long the run took to recover (s), if it has with this batch.
    """
    durations = {stage: milliseconds / 1000 for stage, milliseconds in progress["durationMs"].items()}
    for stage, seconds in durations.items():
        # triggerExecution is the sum of the other stages.
        if stage != "triggerExecution":
            yield Sample(catalogue.STAGE, time_ms, {"duration": seconds}, {"stage": stage})
    values: dict[str, Value] = {
        "batch_number": progress["batchId"],
        "batch": time_ms / 1000,
        "duration": durations.get("triggerExecution", 0.0),
        "state_memory": sum(operator["memoryUsedBytes"] for operator in progress["stateOperators"]),
    }
    # The rows of Spark's operators of a keyed operator are buckets, whose states the batch's report counts.
    windows = [operator for operator in progress["stateOperators"] if operator["operatorName"] == _WINDOWS]
    if windows:
        values["state_rows"] = sum(operator["numRowsTotal"] for operator in windows)
    values["input_rate"] = get_rate(progress, "inputRowsPerSecond")
    values["processed_rate"] = get_rate(progress, "processedRowsPerSecond")
    offsets, waiting, held = get_taken_offsets(progress), compute_lags(progress), get_held_back(progress)
    if waiting:
        values["lag"] = sum(waiting.values())
    if held:
        values["held_back"] = sum(held.values())
    if recovery is not None:
        values["recovery"] = recovery
    for source, offset in offsets.items():
        of_source = {name: of[source] for name, of in (("lag", waiting), ("held_back", held)) if source in of}
        yield Sample(catalogue.SOURCE, time_ms, {"offset": offset, **of_source}, {"source": source})
    if arrivals is not None:
        values["partition_skew"] = arrivals.skew
        yield from sample_arrivals(arrivals, time_ms)
    yield Sample(catalogue.QUERY, time_ms, values)


def sample_arrivals(arrivals: Arrivals, time_ms: int) -> Iterator[Sample]:
    shares, hot = arrivals.shares, arrivals.hot
    for source, rate in arrivals.rates.items():
        values: dict[str, Value] = {
            "arrival_rate": rate,
            "lag_velocity": arrivals.velocities[source],
            "share": shares[source],
            "hot": int(source in hot),
        }
        yield Sample(catalogue.SOURCE, time_ms, values, {"source": source})


def flatten_internals(internals: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers among a scheme's internals, by name. A number of an inner mapping gets that mapping's name first."""
    for name, value in internals.items():
        if isinstance(value, Mapping):
            yield from flatten_internals(value, f"{prefix}{name}_")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", float(value)


class MetricsReporter:
    """Gives the metrics of one run to the outputs, which must be open.

    It is a listener of batches, and follows Spark's progress.
    """

    def __init__(self, settings: Settings, outputs: Outputs) -> None:
        self._outputs = outputs
        self._common = {
            "run": settings.name,
            "source_type": settings.source_type,
            "grouping": settings.grouping,
            "workers": str(settings.workers),
        }
        # A thread of Spark's calls ``progress``, after the run's thread has called ``batch``.
        self._lock = threading.Lock()
        self._planned: dict[int, int] = {}
        self._counted: dict[str, float] | None = None
        self._arrivals = ArrivalMeter()
        self._demand = WorkerDemand()
        self._last_lag = LastLag(settings.location)
        self._recovery = Recovery(self._last_lag.messages)
        self._continuous = settings.run_time is None and not settings.until_drained
        self._trigger = settings.trigger
        self._batches = self._slow = 0
        # Prometheus' page has the run's totals, or zeros, before the first batch: its rates need a value before it.
        totals = TotalsLog(settings.location).newest(Checkpoint(settings.location).newest_batch())
        begun = [self._kind(0), *self._sample_batches(0), *_sample_totals(totals, settings.workers)]
        outputs.begin(begun, self._common)

    def batch(self, report: "BatchReport") -> None:
        with self._lock:
            self._planned = {report.batch.number: report.batch.time_ms, **dict(list(self._planned.items())[:3])}
            events = list(self._events(report))
            self._demand.add(report)
        batch = report.batch
        if batch.start != batch.end:
            self._batches += 1
            self._slow += time.time() - batch.planned_ms / 1000 > self._trigger
        own = [self._kind(batch.time_ms), *self._sample_batches(batch.time_ms)]
        self._outputs.write([*sample_batch(report), *own, *events], self._common)

    def progress(self, progress: Mapping[str, Any]) -> None:
        with self._lock:
            planned = self._planned.get(progress["batchId"])
        arrivals = self._arrivals.add(progress)
        if planned is None:
            return
        if arrivals is not None:
            with self._lock:
                wanted = self._demand.count_wanted(sum(arrivals.rates.values()))
            if wanted is not None:
                self._outputs.write([Sample(catalogue.WORKERS, planned, {"wanted": wanted})], self._common)
        waiting = compute_lags(progress)
        lag = sum(waiting.values()) if waiting else None
        recovery = None if lag is None else self._recovery.after(lag)
        self._outputs.write(sample_progress(progress, planned, arrivals, recovery), self._common)
        if lag is not None:
            self._last_lag.set(lag)  # last: a store that is down hides no metrics

    def _kind(self, time_ms: int) -> Sample:
        return Sample(catalogue.RUN, time_ms, {"continuous": int(self._continuous)})

    def _sample_batches(self, time_ms: int) -> Iterator[Sample]:
        if self._trigger:  # without one no batch is late
            values = {"batches": self._batches, "slow_batches": self._slow}
            yield Sample(catalogue.QUERY, time_ms, values)

    def _events(self, report: "BatchReport") -> Iterator[Sample]:
        before, now = self._counted, dict.fromkeys(_MARKED, 0.0)
        for internals in report.internals.values():
            for name in _MARKED:
                now[name] += internals.get(name, 0)
        if before is None:
            number = report.batch.number
            kind, text = ("restart", f"resumed at batch {number}") if number else ("start", "started")
            yield _sample_event(kind, text, report.batch.time_ms)
        for name, (kind, text) in _MARKED.items():
            grown = now[name] - (before or now)[name]
            if grown > 0:
                yield _sample_event(kind, text.format(n=int(grown)), report.batch.time_ms)
        for rebalance in report.rebalances:
            yield _sample_event("rebalance", str(rebalance), report.batch.time_ms)
        if report.internals:
            self._counted = now
        elif before is None:
            self._counted = dict.fromkeys(_MARKED, 0.0)


def _sample_event(kind: str, text: str, time_ms: int) -> Sample:
    return Sample(catalogue.EVENT, time_ms, {"text": text}, {"kind": kind})


def _sample_totals(totals: Totals, workers: int) -> Iterator[Sample]:
    yield sample_run(totals, 0)
    closed = dict(enumerate(totals.loads))
    for worker in range(workers):
        yield Sample(catalogue.WORKER, 0, {"closed": closed.get(worker, 0)}, {"worker": str(worker)})
