"""Another number of workers on the same checkpoint.

It begins as a plan like others: pending for a batch in which the workers hand out what they will no longer have, then
active. As routers of another W are new ones, it has no values, and the controller begins anew too.
"""

from dataclasses import replace

from unskew.apps.checkpoint.place import Where
from unskew.apps.feedback.plans import Plans
from unskew.apps.feedback.rebalance import Rebalance
from unskew.apps.feedback.standing import Standing
from unskew.grouping import Grouping
from unskew.grouping.feedback import Plan


def begun_with(checkpoint: Where, workers: int, batch: int) -> None:
    """Note how many workers a checkpoint has had up to a batch, the newest planned, unless something says so."""
    plans = Plans(checkpoint)
    if plans.at(batch) is None:
        plans.write(0, Standing(workers))


def rescaled(before: Standing, router: Grouping, batch: int, uneven: float, *, waits: bool) -> Standing:
    """The standing after a batch with which a run begins to have as many workers as this new router.

    Parameters
    ----------
    before : Standing
        Without a pending plan.
    router : Grouping
        A new one.
    batch : int
        The batch.
    uneven : float
        Slowest over mean worker's time in it.
    waits : bool
        Whether the workers have states: then the plan pends.

    """
    number = before.active.number if before.active is not None else 0
    plan = Plan(number + 1, number, router.identity, {})
    known = Rebalance(plan.number, batch, 0.0, 0, uneven, 0, workers_before=before.workers, workers=router.workers)
    after = replace(before, pending_workers=router.workers, controller=b"", untold=(*before.untold, known))
    if waits:
        return replace(after, pending=plan)
    return replace(after, active=plan, workers=router.workers)
