"""The driver's part of the loop: at the end of each batch its reports become the standing of the next one.

The standing after batch *b* is a function of the one before it and of what the tasks of *b* reported. Where workers
have states that move with their keys, a plan first *pends* for a batch: routed as before, the workers hand out what it
takes from them, and when all have said so it becomes the active one. Spark calls no worker in a batch without rows:
then the plan goes on pending, and nothing waits for it.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unskew.apps.checkpoint.place import Where
from unskew.apps.feedback.backlog import backlog
from unskew.apps.feedback.plans import Plans
from unskew.apps.feedback.rebalance import Rebalance
from unskew.apps.feedback.rescaling import rescaled
from unskew.apps.feedback.standing import Standing
from unskew.apps.topology.router import Routing
from unskew.apps.topology.settings import Settings
from unskew.grouping import Grouping, measures
from unskew.grouping.feedback import Controller, Plan

log = logging.getLogger(__name__)

#: What the tasks of a batch told: stage → partition → report.
Told = Mapping[str, Mapping[int, Mapping[str, Any]]]


@dataclass(frozen=True)
class Loop:
    """The loop of one query.

    Parameters
    ----------
    checkpoint : str or Place
        The query's checkpoint location.
    router : W → Grouping
        A new router of the run's, whose controller plans.
    workers : int
        The run's W; if the batches before had another one, keys and states go to the new workers.
    moving : bool
        Whether the workers have states that move with their keys.
    keyed : bool
        Whether they have states.

    """

    checkpoint: Where
    router: Callable[[int], Grouping]
    workers: int
    moving: bool = False
    keyed: bool = False

    def end(self, batch: int, told: Told) -> tuple[Rebalance, ...]:
        """End a batch: write the standing of the next one, if it isn't the same and isn't written yet.

        Returns
        -------
        tuple of Rebalance
            The plans that moved keys by which this batch was the first to be routed.

        """
        plans = Plans(self.checkpoint)
        before = plans.at(batch) or Standing(self.workers)
        if plans.written(batch + 1) is None:
            after = self.after(before, batch, told)
            if after != before:
                plans.write(batch + 1, after)
        return _told(before, batch, told)

    def after(self, before: Standing, batch: int, told: Told) -> Standing:
        """The standing after a batch that had this one, and whose tasks told this."""
        settled = _released(before, told)
        if settled.pending is None and settled.workers != self.workers:
            uneven = measures.straggling(_busy(told, before.workers))
            settled = rescaled(settled, self.router(self.workers), batch, uneven, waits=self.keyed)
        if _tuples(told):
            left = tuple(known for known in settled.untold if not _routed(known, before))
            settled = replace(settled, untold=left)
            same = settled.pending is None and settled.workers == before.workers
            if same and self.router(settled.workers).controller() is not None:
                # What the batch's times say is about the plan that it was routed by.
                return self._planned(settled, batch, told, fresh=settled.active == before.active)
        return settled

    def _planned(self, before: Standing, batch: int, told: Told, *, fresh: bool) -> Standing:
        router = self.router(before.workers)
        controller = self._controller(router, before)
        busy = _busy(told, before.workers)
        monitors = {w: said["monitor"] for w, said in told["worker"].items() if said.get("monitor") is not None}
        sources = {s: said["report"] for s, said in told.get("router", {}).items() if said.get("report") is not None}
        # Who moves keys by queues asks who stands out. Who settles accounts by what waits (POSG) is told the truth,
        # that nothing does: an account of work that is done makes the next batch as uneven, the other way round.
        queues = backlog(busy, _tuples(told)) if router.moves and fresh else None
        started = time.perf_counter()
        plan = controller.plan(monitors, queues, sources)
        seconds = time.perf_counter() - started
        after = replace(before, controller=controller.save())
        if plan is None:
            return after
        if router.moves:
            said: Mapping[str, Any] = plan.values
            moved = int(said["moved"]) if "moved" in said else None
            known = Rebalance(
                plan.number,
                batch,
                seconds,
                _table(router, plan),
                measures.straggling(busy),
                0 if self.moving else moved,
            )
            after = replace(after, untold=(*after.untold, known))
        return replace(after, pending=plan) if self.moving else replace(after, active=plan)

    def _controller(self, router: Grouping, standing: Standing) -> Controller:
        controller = router.controller()
        assert controller is not None
        if standing.controller:
            try:
                controller.load(standing.controller)
            except Exception as error:  # noqa: BLE001  as many kinds as there are versions
                log.warning("the controller's state can't be read (%s): it starts cold", error)
                controller = self._controller(router, replace(standing, controller=b""))
        elif standing.active is not None:
            # Of routers that have this plan, only newer ones are taken.
            controller.number = standing.active.number
        return controller


def looped(settings: Settings) -> Loop | None:
    """The loop of a topology; None: its grouping has no controller, and it has had no other number of workers."""
    routing, states = Routing.of(settings, None), settings.states
    if not routing.planned:
        return None
    moving = states is not None and not states.splits and routing.router().moves
    return Loop(settings.place, routing.router, settings.workers, moving, keyed=states is not None)


def _released(before: Standing, told: Told) -> Standing:
    """Take up the pending plan if all workers have handed out what it takes from them."""
    pending = before.pending
    if pending is None:
        return before
    workers = told.get("worker", {})
    released = before.released | {w for w, said in workers.items() if said.get("released", 0) >= pending.number}
    new = [workers[w] for w in released - before.released]
    untold = tuple(
        replace(
            known,
            keys=(known.keys or 0) + sum(said.get("moved_keys", 0) for said in new),
            bytes=known.bytes + sum(said.get("moved_bytes", 0) for said in new),
        )
        if known.plan == pending.number
        else known
        for known in before.untold
    )
    # New workers are called before they have anything: they then know how late a tuple may be.
    if not released >= frozenset(range(max(before.workers, before.pending_workers))):
        return replace(before, released=released, untold=untold)
    return replace(
        before, active=pending, workers=before.pending_workers, pending=None, released=frozenset(), untold=untold
    )


def _told(before: Standing, batch: int, told: Told) -> tuple[Rebalance, ...]:
    """The rebalances that a batch, the first routed by them, shows the effect of."""
    if not _tuples(told):
        return ()
    after = measures.straggling(_busy(told, before.workers))
    return tuple(replace(known, batch=batch, after=after) for known in before.untold if _routed(known, before))


def _routed(known: Rebalance, standing: Standing) -> bool:
    return standing.active is not None and known.plan <= standing.active.number


def _tuples(told: Told) -> int:
    return sum(said["tuples"] for said in told.get("worker", {}).values())


def _busy(told: Told, workers: int) -> list[float]:
    busy = np.zeros(workers)
    for worker, said in told.get("worker", {}).items():
        if worker < workers:
            busy[worker] = said["busy"]
    return busy.tolist()


def _table(router: Grouping, plan: Plan) -> int:
    """How much a router has to know under the plan."""
    router.adopt(plan)
    said = router.internals()
    return int(said.get("table", said.get("tokens", 0)))
