"""Plans at set times, instead of the controller's, which is content with whatever there is."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from unskew.apps.feedback.plans import Plans
from unskew.apps.feedback.rebalance import Rebalance
from unskew.apps.feedback.standing import Standing
from unskew.apps.keyed.moving import owners
from unskew.apps.topology.router import Routing
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.sink import BatchReport
from unskew.grouping import measures
from unskew.grouping.feedback import Plan

_QUIET = 4  # batches at least from one move to the next


@dataclass(frozen=True)
class Move:
    """A share of all keys is to go from even workers to their neighbours, or back, ``at`` s after the start."""

    at: float
    share: float
    back: bool

    def __str__(self) -> str:
        """In words."""
        return f"{self.share:.3g} {'back' if self.back else 'to neighbours'}"


@dataclass
class Forcing:
    """A listener that lets plans be written.

    The loop leaves a standing alone that is written already: the plan of the batch after the next one is put there.

    Attributes
    ----------
    begun : float
        The moves' times are from this one on (``time.monotonic``).
    last, settled : float
        When tuples were last routed by a new plan; the batch from which on there may be another.
    made : list
        The moves so far, and the batch in which each was made.
    loads : dict
        Batch → its tuples by worker.
    rebalances : list
        What the run told of plans.

    """

    settings: Settings
    hashes: NDArray[np.uint64]
    moves: Sequence[Move]
    begun: float = float("inf")
    last: float = 0.0
    settled: float = 0
    made: list[tuple[Move, int]] = field(default_factory=list)
    loads: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    rebalances: list[Rebalance] = field(default_factory=list)

    def __call__(self, report: BatchReport) -> None:
        """Write a plan if one is due and no other is under way."""
        number = report.batch.number
        self.loads[number] = report.loads
        self.rebalances += report.rebalances
        if report.rebalances:
            self.last, self.settled = time.monotonic(), number + _QUIET
        if len(self.made) == len(self.moves):
            return
        move = self.moves[len(self.made)]
        if time.monotonic() < self.begun + move.at or number < self.settled:
            return
        plans = Plans(self.settings.checkpoint)
        standing = plans.at(number + 1) or Standing(self.settings.workers)
        if standing.pending is not None or plans.written(number + 2) is not None:
            return
        plan = self._plan(move, standing)
        uneven = measures.straggling(report.busy)
        known = Rebalance(plan.number, number + 1, 0.0, len(cast("np.ndarray", plan.values["table_keys"])), uneven)
        plans.write(number + 2, replace(standing, pending=plan, untold=(known,)))
        self.made.append((move, number))
        self.settled = float("inf")  # until tuples are routed by it

    def over(self, plans: int, seconds: float) -> bool:
        """Whether so many plans were routed by, and since the last of them some time is over."""
        return len(self.rebalances) >= plans and time.monotonic() > self.last + seconds

    def _plan(self, move: Move, standing: Standing) -> Plan:
        router = Routing.of(self.settings, None).router()
        named = np.empty(0, np.uint64)
        if not move.back:
            home = owners(router, self.hashes)
            even = np.flatnonzero((home % 2 == 0) & (home + 1 < router.workers))
            chosen = np.random.default_rng(len(self.made)).permutation(even)[: round(move.share * len(self.hashes))]
            named = np.sort(self.hashes[chosen])
        to = owners(router, named) + 1
        before = standing.active.number if standing.active else 0
        values = {"table_keys": named, "table_workers": to.astype(np.int32)}
        return Plan(before + 1, before, router.identity, values)
