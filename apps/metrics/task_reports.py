"""Reports: what the tasks of a batch send to the driver besides their rows."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyspark.accumulators import Accumulator, AccumulatorParam

from unskew.grouping.feedback_loop import MigrationReport

if TYPE_CHECKING:  # Spark's thin client has no contexts, and the library imports this module
    from pyspark import SparkContext

#: (partition, offset) of a message → why it is rejected after all.
Failures: TypeAlias = dict[tuple[int, int], str]


@dataclass(frozen=True)
class RouterReport:
    """What one source's router did in a batch."""

    tuples: int  #: Tuples routed.
    seconds: float  #: Time spent in the grouping (s), without ``waited``.
    rejected: int = 0  #: Messages without a key.
    internals: dict[str, Any] = field(default_factory=dict)  #: The grouping's internals (``Grouping.internals``).
    grouping: Any = None  #: The grouping's own report to its controller (``Grouping.report``).
    #: How long the source waited for the planner's quotas after it had counted (s). 0 without a planner.
    waited: float = 0.0


@dataclass(frozen=True)
class StateReport:
    """A worker's states of a keyed operator, after a batch."""

    states: int  #: The number of states, and their size.
    bytes: int
    finished: int  #: The number of states that left in the batch because their time was over.
    fragments: int  #: The number of states that the worker sent to mergers.


@dataclass(frozen=True)
class WorkerReport:
    """What one worker did in a batch."""

    tuples: int  #: The number of tuples executed, and of their distinct keys.
    keys: int
    busy: float  #: Time at work (s).
    failures: Failures = field(default_factory=dict)  #: Messages on which the work raised an error.
    #: By event time only: the number of a pane, which is a window unless windows slide → its tuples in the batch.
    windows: dict[int, int] = field(default_factory=dict)
    late: int = 0  #: Of a TTL: tuples that came too late although their window was open.
    monitor: Any = None  #: The report of the worker's monitor to the grouping's controller.
    states: StateReport | None = None  #: The report about the states of a keyed operator.
    migration: MigrationReport = field(default_factory=MigrationReport)  #: About moved states.


@dataclass(frozen=True)
class MergerReport:
    """What one merger did in a batch."""

    states: int  #: The number of states that it keeps, and their size.
    bytes: int
    finished: int  #: The number of states that left in the batch because their time was over.
    merged: int  #: The number of keys whose states were merged in the batch.
    merged_ms: int  #: The watermark when states that outlive windows were last merged.
    seconds: float  #: Time at work (s).


Report: TypeAlias = RouterReport | WorkerReport | MergerReport


@dataclass(frozen=True)
class TaskReports:
    """All reports of a batch."""

    #: The number of the source, worker or merger → its report.
    routers: dict[int, RouterReport] = field(default_factory=dict)
    workers: dict[int, WorkerReport] = field(default_factory=dict)
    mergers: dict[int, MergerReport] = field(default_factory=dict)

    @property
    def tuples(self) -> int:
        """The number of tuples that the workers executed."""
        return sum(report.tuples for report in self.workers.values())

    def busy(self, workers: int) -> NDArray[np.float64]:
        """Each worker's time at work, float64[W], s."""
        busy = np.zeros(workers)
        for worker, report in self.workers.items():
            if worker < workers:
                busy[worker] = report.busy
        return busy


_Entry = tuple[int, type[Report], int]
_MANY = 20_000  # entries; beyond, the newest two batches, the newest one with tuples, and each task's newest are kept


class _ReportMerger(AccumulatorParam[dict[_Entry, Report]]):
    """Later entries replace earlier ones of the same task: a retried task counts once.

    Batches without tuples may follow each other for days, and nobody takes their reports. So there is a bound. The
    newest batch with tuples stays: the next plan is made of it. So does each task's newest report, which says what a
    worker has released.
    """

    def zero(self, value: dict[_Entry, Report]) -> dict[_Entry, Report]:
        return {}

    def addInPlace(self, value1: dict[_Entry, Report], value2: dict[_Entry, Report]) -> dict[_Entry, Report]:  # noqa: N802
        value1.update(value2)
        if len(value1) > _MANY:
            newest = max((batch for batch, _, _ in value2), default=0)
            worked = [entry[0] for entry, report in [*value1.items()] if getattr(report, "tuples", 0)]
            keep = {newest, newest - 1, max(worked, default=newest)}
            last: dict[tuple[type[Report], int], int] = {}
            for batch, kind, number in [*value1]:
                last[kind, number] = max(batch, last.get((kind, number), batch))
            for batch, kind, number in [*value1]:
                if batch < newest and batch not in keep and batch != last[kind, number]:
                    value1.pop((batch, kind, number), None)
        return value1


class Reports:
    """Collects reports from tasks: one for each batch, kind of report, and number of the sender.

    It is made on the driver, and travels to the tasks inside their functions. Spark delivers a report when its task has
    succeeded.
    """

    def __init__(self, context: "SparkContext") -> None:
        self._entries: Accumulator[dict[_Entry, Report]] = context.accumulator({}, _ReportMerger())

    def send(self, batch: int, number: int, report: Report) -> None:
        """Report to the driver, from a task. A later call of the same task replaces an earlier one.

        ``number`` is the number of the source, worker or merger.
        """
        self._entries.add({(batch, type(report), number): report})

    def take(self, batch: int) -> TaskReports:
        """The reports of a batch. Call it on the driver, after the batch's tasks. They and older ones are dropped.

        Tasks of later batches may report meanwhile.
        """
        found = self.until(batch).get(batch, TaskReports())
        entries = self._entries.value
        for entry in [entry for entry in [*entries] if entry[0] <= batch]:
            entries.pop(entry, None)
        return found

    def until(self, batch: int) -> dict[int, TaskReports]:
        """The reports of each batch up to this one, by its number. Call it as ``take``, which drops them."""
        found: dict[int, TaskReports] = {}
        for (of, _, number), report in [*self._entries.value.items()]:
            if of > batch:
                continue
            reports = found.setdefault(of, TaskReports())
            match report:
                case RouterReport():
                    reports.routers[number] = report
                case WorkerReport():
                    reports.workers[number] = report
                case MergerReport():
                    reports.mergers[number] = report
        return found


@dataclass(frozen=True)
class PlanSummary:
    """How a batch was planned before it was routed, by a grouping that does so."""

    waves: int  #: The number of waves in which its sources counted.
    added: int  #: The number of replicas that keys and buckets got in the batch. A key that moves whole gets one.
    split: int  #: The number of keys and buckets that have several replicas after the batch.
    waited: float = 0.0  #: The longest time that a source waited for its quotas after it had counted (s).


@dataclass(frozen=True)
class StateSummary:
    """The states of a keyed operator after a batch, as workers and mergers reported them."""

    #: int64[W]: The number of states at each worker, and their bytes. A merger's are added to the worker of the same
    #: number.
    states: NDArray[np.int64]
    size: NDArray[np.int64]
    at_workers: int  #: The states at workers, not at mergers. Their keys may have further ones at other workers.
    finished: int  #: The number of states that left in the batch.
    fragments: int  #: The number of states that workers sent to mergers in the batch.
    merged: int  #: The number of keys of these fragments.
    merged_ms: int  #: The watermark when states that outlive windows were last merged. Results are as of then.
    merging: float  #: The time at work of the slowest merger (s).

    @classmethod
    def of(cls, reports: TaskReports, workers: int) -> "StateSummary":
        """The summary of the reports of workers and mergers."""
        at_workers = {worker: report.states for worker, report in reports.workers.items() if report.states is not None}
        mergers = reports.mergers
        holders = [*at_workers.items(), *mergers.items()]
        # After a rescaling to fewer workers, the other workers have states until they have released them.
        most = max([workers, *(number + 1 for number, holder in holders if holder.states)])
        states, size = np.zeros(most, np.int64), np.zeros(most, np.int64)
        for number, holder in holders:
            if holder.states:
                states[number] += holder.states
                size[number] += holder.bytes
        return cls(
            states,
            size,
            sum(report.states for report in at_workers.values()),
            sum(holder.finished for _, holder in holders),
            sum(report.fragments for report in at_workers.values()),
            sum(report.merged for report in mergers.values()),
            min((report.merged_ms for report in mergers.values()), default=0),
            max((report.seconds for report in mergers.values()), default=0.0),
        )
