"""The driver's part of the feedback loop: turns a batch's reports into the next batch's plan state.

A topology makes it at the batch's end. In users' queries we have no code there, so the next batch's sources request it
(``unskew.apps.driver.plans.batch_planner``).
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
    """Makes a query's plans: a ``FeedbackLoop`` or a ``SplitJoinLoop``."""

    @property
    def workers(self) -> int:
        """The query's W."""
        ...

    def after(self, before: PlanState, interval: Interval) -> PlanState:
        """The plan state after an interval."""
        ...


def end_batch(loop: FeedbackLoop, checkpoint: Where, batch: int, reports: TaskReports) -> tuple[Rebalance, ...]:
    """End a batch: write the next batch's plan state, unless it exists.

    Returns the plans that moved keys, if this batch is the first under them.
    """
    begin_batch(loop, checkpoint, batch + 1, {batch: reports}, batch)
    before = PlanStateLog(checkpoint).at(batch) or PlanState(loop.workers)
    return measure_effects(before, _make_interval(batch, reports, before.workers))


def begin_batch(
    loop: PlanLoop, checkpoint: Where, batch: int, reports: Mapping[int, TaskReports], since: int | None
) -> bool:
    """Begin a batch: write its plan state, unless it exists. Returns whether this call wrote it.

    In a batch without rows no source requests a plan, but workers may be called. So tuples, times and monitors are the
    newest batch's with tuples. Releases are as of the newest batch that called the worker: while the plan is pending,
    it writes its file anew in each.

    Nothing waits for the end of a batch here, so reports may be lost with their driver after the batch is committed.
    The plan state then has no earlier releases, because workers' files may be newer. Workers that are called again
    release anew, and report that. ``reports`` are the known ones, by batch. ``since`` is the batch of the previous plan
    state, if the reports of it and of all later batches are known; None: some may be lost.
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
    """The batch's reports to the loop. ``workers`` is W under the batch's plan."""
    return Interval(
        batch,
        {worker: report.monitor for worker, report in reports.workers.items() if report.monitor is not None},
        {source: report.grouping for source, report in reports.routers.items() if report.grouping is not None},
        reports.tuples,
        reports.busy(workers).tolist(),
        migrations=_collect_migrations(reports),
    )


def record_workers(checkpoint: Where, workers: int, batch: int) -> None:
    """Record a checkpoint's number of workers up to the newest planned batch, unless its plan state has it."""
    plans = PlanStateLog(checkpoint)
    if plans.at(batch) is None:
        plans.write(0, PlanState(workers))


def require_known_plans(loop: FeedbackLoop, checkpoint: Where) -> None:
    """Refuse a checkpoint whose states a plan moved that the loop's routers can't follow.

    Raises ``EnvironmentFault`` if the checkpoint has such a plan.
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
