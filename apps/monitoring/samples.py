"""What the topology reports, as samples of the metrics listed in ``unskew.apps.monitoring.catalogue``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unskew.apps.checkpoint.totals import Totals
from unskew.apps.feedback.rebalance import Rebalance
from unskew.apps.keyed.held import Held
from unskew.apps.monitoring import catalogue
from unskew.apps.monitoring.catalogue import Subject
from unskew.apps.run.follow import kafka_source, lags, processed_rate, taken
from unskew.apps.topology.observer import Distribution
from unskew.apps.topology.sink import BatchReport
from unskew.grouping import measures

Value = float | int | str

_WINDOWS = "stateStoreSave"  # Spark's name of the operator that aggregates


@dataclass(frozen=True)
class Sample:
    """Values measured of one thing at one time.

    Attributes
    ----------
    subject : Subject
        Of what kind it is.
    time_ms : int
        Its timestamp (ms since the epoch).
    values : dict
        Metric's name → value.
    labels : dict
        The subject's own labels, in their order.

    """

    subject: Subject
    time_ms: int
    values: Mapping[str, Value]
    labels: Mapping[str, str] = field(default_factory=dict)


def of_batch(report: BatchReport) -> Iterator[Sample]:
    """Of a batch, its workers, and the windows that it closed."""
    time = report.batch.time_ms
    tuples = int(report.loads.sum())
    done = {"tuples": tuples, "routing": report.routing_seconds, "rejected": report.rejected, "late": report.late}
    if tuples:
        # An idle batch is not balanced, nor is it unbalanced.
        done |= {
            "std_dev": measures.std_dev(report.loads),
            "slowest": float(report.busy.max()),
            "mean": float(report.busy.mean()),
            "straggling": measures.straggling(report.busy),
        }
        for worker, (load, busy) in enumerate(zip(report.loads.tolist(), report.busy.tolist(), strict=True)):
            yield Sample(catalogue.TASK, time, {"tuples": load, "busy": busy}, {"worker": str(worker)})
    yield Sample(catalogue.BATCH, time, done)
    yield Sample(catalogue.QUERY, time, {"watermark": report.batch.watermark_ms / 1000})
    for source, internals in report.internals.items():
        for name, value in flat(internals):
            yield Sample(catalogue.SCHEME, time, {"value": value}, {"source": str(source), "internal": name})
    if report.held is not None:
        yield from of_states(report.held, time)
    for rebalance in report.rebalances:
        yield of_rebalance(rebalance, time)
    yield of_run(report.totals, time)
    for window, totals in report.windows:
        yield from of_window(window, totals)


def of_states(held: Held, time_ms: int) -> Iterator[Sample]:
    """Of the states after a batch."""
    values: dict[str, Value] = {"finished": held.finished, "fragments": held.fragments, "merge": held.merging}
    if held.met:
        values["replication"] = held.fragments / held.met
    yield Sample(catalogue.STATES, time_ms, values)
    for worker, (states, size) in enumerate(zip(held.states.tolist(), held.size.tolist(), strict=True)):
        yield Sample(catalogue.WORKER_STATES, time_ms, {"states": states, "size": size}, {"worker": str(worker)})


def of_rebalance(rebalance: Rebalance, time_ms: int) -> Sample:
    """Of a plan that moved keys."""
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


def of_run(totals: Totals, time_ms: int) -> Sample:
    """Of the run as far as it is."""
    values: dict[str, Value] = {
        "tuples": totals.routed, "rejected": totals.rejected, "late": totals.late, "skipped": totals.skipped,
    }  # fmt: skip
    return Sample(catalogue.RUN, time_ms, values)


def of_window(window: Distribution, totals: Totals) -> Iterator[Sample]:
    """Of a closed window, its workers and its hottest keys; ``totals`` including it."""
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
        },
    )
    for worker, share in enumerate(measures.shares(window.tuples).tolist()):
        values = {
            "tuples": int(window.tuples[worker]),
            "counts": int(window.counts[worker]),
            "distinct_keys": int(window.keys[worker]),
            "share": share,
            "closed": totals.loads[worker],
        }
        yield Sample(catalogue.WORKER, window.end_ms, values, {"worker": str(worker)})
    for rank, hot in enumerate(window.hottest, 1):
        values = {"key": hot.key, "tuples": hot.tuples, "counts": hot.count, "holders": hot.workers}
        yield Sample(catalogue.HOT_KEY, window.end_ms, values, {"rank": str(rank)})


def of_progress(progress: Mapping[str, Any], time_ms: int) -> Iterator[Sample]:
    """Of the query's progress (Spark's ``StreamingQueryProgress`` as JSON) after the batch planned at ``time_ms``."""
    durations = {stage: milliseconds / 1000 for stage, milliseconds in progress["durationMs"].items()}
    for stage, seconds in durations.items():
        # This one is all the others together.
        if stage != "triggerExecution":
            yield Sample(catalogue.STAGE, time_ms, {"duration": seconds}, {"stage": stage})
    values: dict[str, Value] = {
        "batch_number": progress["batchId"],
        "batch": time_ms / 1000,
        "duration": durations.get("triggerExecution", 0.0),
        "state_memory": sum(operator["memoryUsedBytes"] for operator in progress["stateOperators"]),
    }
    # Where works have states the rows are buckets of them: what these hold is told of the batch.
    windows = [operator for operator in progress["stateOperators"] if operator["operatorName"] == _WINDOWS]
    if windows:
        values["state_rows"] = sum(operator["numRowsTotal"] for operator in windows)
    # Spark leaves out a rate that it can't tell.
    values["input_rate"] = kafka_source(progress).get("inputRowsPerSecond") or 0.0
    values["processed_rate"] = processed_rate(progress)
    offsets, waiting = taken(progress), lags(progress)
    if waiting:
        values["lag"] = sum(waiting.values())
    for source, offset in offsets.items():
        known = {"lag": waiting[source]} if source in waiting else {}
        yield Sample(catalogue.SOURCE, time_ms, {"offset": offset, **known}, {"source": source})
    yield Sample(catalogue.QUERY, time_ms, values)


def flat(internals: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers among a scheme's internals, by name; those of an inner mapping follow its name."""
    for name, value in internals.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}_")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", float(value)
