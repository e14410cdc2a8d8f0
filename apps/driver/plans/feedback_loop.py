"""The driver's part of the feedback loop: a batch's reports become the plan state of the next batch.

A topology makes it at the batch's end. A user's query has no end of a batch that is ours, so that the next one's
sources ask for it (``unskew.apps.driver.plans.batch_planner``).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.metrics.task_reports import TaskReports
from unskew.errors import EnvironmentFault
from unskew.grouping.feedback_loop import FeedbackLoop, Interval, MigrationReport, PlanState, Rebalance, measure_effects


class PlanLoop(Protocol):
    """What makes the plans of a query: a ``FeedbackLoop``, or a ``SplitJoinLoop``."""

    @property
    def workers(self) -> int:
        """The query's W."""
        ...

    def after(self, before: PlanState, interval: Interval) -> PlanState:
        """The plan state after an interval."""
        ...


def end_batch(loop: FeedbackLoop, checkpoint: Where, batch: int, reports: TaskReports) -> tuple[Rebalance, ...]:
    """End a batch: write the plan state of the next batch, unless it is written already.

    Returns
    -------
    tuple of Rebalance
        The plans that moved keys, if this batch is the first that was routed by them.

    """
    begin_batch(loop, checkpoint, batch + 1, {batch: reports}, batch)
    before = PlanStateLog(checkpoint).at(batch) or PlanState(loop.workers)
    return measure_effects(before, _make_interval(batch, reports, before.workers))


def begin_batch(
    loop: PlanLoop, checkpoint: Where, batch: int, reports: Mapping[int, TaskReports], since: int | None
) -> bool:
    """Begin a batch: write its plan state, unless it is written already.

    In a batch without rows no source asks for a plan, but some workers may be called, or all. So tuples, times and
    monitors are those of the newest batch with tuples. What a worker has released is as of the newest batch that called
    it: as long as the plan is pending, it writes its file anew in each of them.

    Nobody waits for a query's end of a batch here. So reports may be lost with their driver, after the batch has been
    committed. Then the plan state has none of what workers have released before: their files may be newer. A worker
    that is called again releases anew, and reports that.

    Parameters
    ----------
    loop, checkpoint, batch
        The query's loop, its checkpoint, and the batch.
    reports : mapping
        Number → the reports of a batch before this one, as far as they are known.
    since : int or None
        The batch of the plan state before, if the reports of it and of all later batches are known. None: some may be
        lost.

    Returns
    -------
    bool
        Whether nobody else has written the batch's plan state.

    """
    plans = PlanStateLog(checkpoint)
    if batch == 0:
        return True
    if plans.written_for(batch) is not None:
        return False
    before = plans.at(batch - 1) or PlanState(loop.workers)
    if since is None:
        before, since = replace(before, released=frozenset(), pending_files={}), batch - 1
    measured = reports.get(
        max((of for of, each in reports.items() if each.tuples), default=-1), reports.get(batch - 1, TaskReports())
    )
    migrations: dict[int, MigrationReport] = {}
    called: dict[int, int] = {}
    for of in sorted(of for of in reports if of >= since):
        migrations |= _collect_migrations(reports[of])
        called |= dict.fromkeys(reports[of].workers, of)
    interval = _make_interval(batch - 1, measured, before.workers)
    return plans.write(batch, loop.after(before, replace(interval, migrations=migrations, called=called)))


def _collect_migrations(reports: TaskReports) -> dict[int, MigrationReport]:
    return {worker: report.migration for worker, report in reports.workers.items()}


def _make_interval(batch: int, reports: TaskReports, workers: int) -> Interval:
    """What the batch's tasks report to the loop. ``workers`` is W by the plan that the batch was routed by."""
    return Interval(
        batch,
        {worker: report.monitor for worker, report in reports.workers.items() if report.monitor is not None},
        {source: report.grouping for source, report in reports.routers.items() if report.grouping is not None},
        reports.tuples,
        reports.busy(workers).tolist(),
        migrations=_collect_migrations(reports),
    )


def record_workers(checkpoint: Where, workers: int, batch: int) -> None:
    """Write how many workers a checkpoint has had up to the newest planned batch, unless its plan state has it."""
    plans = PlanStateLog(checkpoint)
    if plans.at(batch) is None:
        plans.write(0, PlanState(workers))


def require_known_plans(loop: FeedbackLoop, checkpoint: Where) -> None:
    """Refuse a checkpoint whose states were moved by a plan that the loop's routers can't follow.

    Raises
    ------
    EnvironmentFault
        The checkpoint has such a plan.

    """
    state = PlanStateLog(checkpoint).newest() if loop.moving else None
    if state is None:
        return
    for plan, workers in ((state.active, state.workers), (state.pending, state.pending_workers)):
        identity = loop.router(workers).identity
        if plan is not None and plan.identity != identity:
            raise EnvironmentFault(
                f"the states of {Location.of(checkpoint).address} lie as a plan for ({plan.identity}) has it, this "
                f"version has ({identity}): go on with the options, or the version, that made it, or begin with "
                "another checkpoint"
            )
