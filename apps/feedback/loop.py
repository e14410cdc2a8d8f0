"""The driver's part of the feedback loop: at a batch's end, its reports become the plan state of the next batch."""

from unskew.apps.checkpoint.location import Where
from unskew.apps.feedback.plans import Plans
from unskew.apps.reports import TaskReports
from unskew.grouping.loop import Interval, Loop, PlanState, Rebalance, effects


def end(loop: Loop, checkpoint: Where, batch: int, reports: TaskReports) -> tuple[Rebalance, ...]:
    """End a batch: write the plan state of the next batch, unless it is written already.

    Returns
    -------
    tuple of Rebalance
        The plans that moved keys, if this batch is the first that was routed by them.

    """
    plans = Plans(checkpoint)
    before = plans.at(batch) or PlanState(loop.workers)
    interval = _interval(batch, reports, before.workers)
    if plans.written(batch + 1) is None:
        plans.write(batch + 1, loop.after(before, interval))
    return effects(before, interval)


def _interval(batch: int, reports: TaskReports, workers: int) -> Interval:
    """What the batch's tasks report to the loop. ``workers`` is W by the plan that the batch was routed by."""
    return Interval(
        batch,
        {worker: report.monitor for worker, report in reports.workers.items() if report.monitor is not None},
        {source: report.grouping for source, report in reports.routers.items() if report.grouping is not None},
        reports.tuples,
        reports.busy(workers).tolist(),
        migrations={worker: report.migration for worker, report in reports.workers.items()},
    )


def record_workers(checkpoint: Where, workers: int, batch: int) -> None:
    """Write how many workers a checkpoint has had up to the newest planned batch, unless its plan state has it."""
    plans = Plans(checkpoint)
    if plans.at(batch) is None:
        plans.write(0, PlanState(workers))
