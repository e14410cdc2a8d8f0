"""The driver's part of the feedback loop: at a batch's end, its reports become the plan state of the next batch.

The plan state after batch *b* is a function of the state before *b* and of the reports of *b*'s tasks. If workers have
states that move with their keys, a plan is *pending* for a batch first. Tuples are then routed as before, and the
workers release the states that the plan takes from them. When all workers have reported this, the plan is *active*.
Spark calls no worker in a batch without rows. The plan is then pending for longer, and no tuple waits for it.

Another number of workers on the same checkpoint begins as a plan, too. Such a plan has no values, because routers and
the controller start anew when W changes.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unskew.apps.checkpoint.location import Where
from unskew.apps.reports import TaskReports
from unskew.apps.routing.plans import Plans, PlanState, Rebalance
from unskew.grouping import Grouping, measures
from unskew.grouping.feedback import Controller, Plan

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loop:
    """The loop of one query.

    Parameters
    ----------
    checkpoint : str or Location
        The query's checkpoint location.
    router : W → Grouping
        Makes a new router of the run. The router's controller makes the plans.
    workers : int
        The run's W. If earlier batches had another W, keys and states go to the new workers.
    moving : bool
        Whether the workers have states that move with their keys.
    keyed : bool
        Whether the workers have states.

    """

    checkpoint: Where
    router: Callable[[int], Grouping]
    workers: int
    moving: bool = False
    keyed: bool = False

    def end(self, batch: int, reports: TaskReports) -> tuple[Rebalance, ...]:
        """End a batch: write the plan state of the next batch, unless it is written already.

        Returns
        -------
        tuple of Rebalance
            The plans that moved keys, if this batch is the first that was routed by them.

        """
        plans = Plans(self.checkpoint)
        before = plans.at(batch) or PlanState(self.workers)
        if plans.written(batch + 1) is None:
            plans.write(batch + 1, self.after(before, batch, reports))
        return _effects(before, batch, reports)

    def after(self, before: PlanState, batch: int, reports: TaskReports) -> PlanState:
        """The plan state after a batch, made from the state before it and the reports of its tasks."""
        settled = _released(before, batch, reports)
        if settled.pending is None and settled.workers != self.workers:
            uneven = measures.straggling(reports.busy(before.workers))
            settled = rescaled(settled, self.router(self.workers), batch, uneven, waits=self.keyed)
        if reports.tuples:
            unrouted = tuple(rebalance for rebalance in settled.unrouted if not _routed(rebalance, before))
            settled = replace(settled, unrouted=unrouted)
            same = settled.pending is None and settled.workers == before.workers
            if same and self.router(settled.workers).controller() is not None:
                # The batch's times are measurements of the plan by which the batch was routed.
                return self._planned(settled, batch, reports, fresh=settled.active == before.active)
        return settled

    def _planned(self, before: PlanState, batch: int, reports: TaskReports, *, fresh: bool) -> PlanState:
        router = self.router(before.workers)
        controller = self._controller(router, before)
        busy = reports.busy(before.workers).tolist()
        monitors = {w: report.monitor for w, report in reports.workers.items() if report.monitor is not None}
        sources = {s: report.grouping for s, report in reports.routers.items() if report.grouping is not None}
        # A scheme that moves keys by queues gets the workers' shares of the batch's work as their queues. A scheme that
        # estimates the waiting work (POSG) gets no queues, because no work waits at a batch's end: queues of work that
        # is done would make the next batch as uneven, the other way round.
        queues = backlog(busy, reports.tuples) if router.moves and fresh else None
        started = time.perf_counter()
        plan = controller.plan(monitors, queues, sources)
        seconds = time.perf_counter() - started
        after = replace(before, controller=controller.save())
        if plan is None:
            return after
        if router.moves:
            values: Mapping[str, Any] = plan.values
            moved = int(values["moved"]) if "moved" in values else None
            rebalance = Rebalance(
                plan.number,
                batch,
                seconds,
                _table_size(router, plan),
                measures.straggling(busy),
                0 if self.moving else moved,
            )
            after = replace(after, unrouted=(*after.unrouted, rebalance))
        return replace(after, pending=plan, pending_files={}) if self.moving else replace(after, active=plan, files={})

    def _controller(self, router: Grouping, state: PlanState) -> Controller:
        controller = router.controller()
        assert controller is not None
        if state.controller:
            try:
                controller.load(state.controller)
            except Exception as error:  # noqa: BLE001  another version may raise any kind
                log.warning("the controller's state can't be read (%s): it starts cold", error)
                controller = self._controller(router, replace(state, controller=b""))
        elif state.active is not None:
            # Routers that follow this plan take newer plans only.
            controller.number = state.active.number
        return controller


def _released(before: PlanState, batch: int, reports: TaskReports) -> PlanState:
    """Make the pending plan active if all workers have released the states that it takes from them.

    Its files are named from then on. When a later plan is active, nobody needs them: before a worker releases states
    for a plan, it has taken in those of the plan before.
    """
    pending = before.pending
    if pending is None:
        return before
    migrations = {worker: report.migration for worker, report in reports.workers.items()}
    files = before.pending_files
    if files is not None:
        files = {**files, **{worker: batch for worker, each in migrations.items() if each.wrote}}
    released = before.released | {w for w, each in migrations.items() if each.released >= pending.number}
    new = [migrations[w] for w in released - before.released]
    unrouted = tuple(
        replace(
            rebalance,
            keys=(rebalance.keys or 0) + sum(migration.keys for migration in new),
            bytes=rebalance.bytes + sum(migration.bytes for migration in new),
        )
        if rebalance.plan == pending.number
        else rebalance
        for rebalance in before.unrouted
    )
    # The plan waits for new workers too, though they have no states: in their first batch they learn the watermark.
    if not released >= frozenset(range(max(before.workers, before.pending_workers))):
        return replace(before, released=released, unrouted=unrouted, pending_files=files)
    return replace(
        before, active=pending, workers=before.pending_workers, pending=None, released=frozenset(), unrouted=unrouted,
        files=files, pending_files={},
    )  # fmt: skip


def _effects(before: PlanState, batch: int, reports: TaskReports) -> tuple[Rebalance, ...]:
    """The rebalances by which this batch was the first to be routed, with how even its workers' times were."""
    if not reports.tuples:
        return ()
    after = measures.straggling(reports.busy(before.workers))
    return tuple(
        replace(rebalance, batch=batch, after=after) for rebalance in before.unrouted if _routed(rebalance, before)
    )


def _routed(rebalance: Rebalance, state: PlanState) -> bool:
    return state.active is not None and rebalance.plan <= state.active.number


def _table_size(router: Grouping, plan: Plan) -> int:
    """Entries of the routing table, or tokens of the ring, that a router has under the plan."""
    router.adopt(plan)
    internals = router.internals()
    return int(internals.get("table", internals.get("tokens", 0)))


def backlog(busy: Sequence[float], tuples: int) -> list[float]:
    """Each worker's queue, in tuples, float64[W]: its share of the batch's measured work, times the batch's tuples.

    A micro-batch leaves no queues behind, but it lasts as long as its slowest worker. So the workers' times show what
    queues would show: which worker is behind the others, and how far. If all times are equal, each worker has a W-th of
    the batch. If there was no work, all queues are 0.

    Parameters
    ----------
    busy : float[W], s
        Each worker's time at work in the batch.
    tuples : int
        The batch's tuples.

    Examples
    --------
    >>> backlog([3.0, 1.0], 100)
    [75.0, 25.0]

    """
    times = np.asarray(busy, np.float64)
    total = times.sum()
    return (times / total * tuples if total else np.zeros(len(times))).tolist()


def record_workers(checkpoint: Where, workers: int, batch: int) -> None:
    """Write how many workers a checkpoint has had up to the newest planned batch, unless its plan state has it."""
    plans = Plans(checkpoint)
    if plans.at(batch) is None:
        plans.write(0, PlanState(workers))


def rescaled(before: PlanState, router: Grouping, batch: int, uneven: float, *, waits: bool) -> PlanState:
    """The plan state after a batch, with a plan for the new router's number of workers.

    Parameters
    ----------
    before : PlanState
        The state before, without a pending plan.
    router : Grouping
        A new router with the new number of workers.
    batch : int
        The batch.
    uneven : float
        The slowest worker's time divided by the mean worker's in the batch.
    waits : bool
        Whether the workers have states. If so, the plan is pending first.

    """
    number = before.active.number if before.active is not None else 0
    plan = Plan(number + 1, number, router.identity, {})
    rebalance = Rebalance(plan.number, batch, 0.0, 0, uneven, 0, workers_before=before.workers, workers=router.workers)
    after = replace(before, pending_workers=router.workers, controller=b"", unrouted=(*before.unrouted, rebalance))
    if waits:
        return replace(after, pending=plan, pending_files={})
    return replace(after, active=plan, workers=router.workers, files={})
