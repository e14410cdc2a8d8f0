"""Feedback in simulated time: reports travel to the loop, and plans travel back to the sources."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_number
from unskew.grouping.feedback import Plan
from unskew.grouping.feedback_loop import FeedbackLoop, Interval, PlanState
from unskew.grouping.interface import Grouping


@dataclass(frozen=True, slots=True)
class FeedbackTiming:
    """How often workers and sources report, and how late a plan takes effect.

    Attributes
    ----------
    interval : float, ms
        The time between two reports, above 0. Plans are taken up when an interval begins.
    delay : float, ms
        The time from when all reports of an interval are there to when the sources have the plan.
    transfer : float, ms
        How long a unit of moving state keeps two workers busy, the one that hands it out and the one that takes it in.
        Units are those of a plan's ``migration``. Tuples that come meanwhile wait.

    """

    interval: float = 1000.0
    delay: float = 0.0
    transfer: float = 0.0

    def __post_init__(self) -> None:
        check_number("interval", self.interval, 0, above=True)
        check_number("delay", self.delay, 0)
        check_number("transfer", self.transfer, 0)


@dataclass(slots=True)
class FeedbackChannel:
    """The loop's plan state, the reports in transit to the loop, and the plans in transit from it."""

    loop: FeedbackLoop
    state: PlanState
    delay: float
    reported: deque[tuple[float, Interval]] = field(default_factory=deque)
    planned: deque[tuple[float, Plan]] = field(default_factory=deque)
    plans: int = 0
    moved: int = 0
    migration: float = 0.0

    @property
    def pending(self) -> bool:
        """Whether a report or a plan is under way."""
        return bool(self.reported or self.planned)

    def report(self, ready: float, interval: Interval) -> None:
        """Note an interval's reports. They arrive at ``ready`` (ms), but not before those of earlier intervals."""
        if self.reported:
            ready = max(ready, self.reported[-1][0])
        self.reported.append((ready, interval))

    def take_up(self, now: float, routers: Sequence[Grouping]) -> list[Plan]:
        """Plan from the reports that have come by ``now``, and let the routers adopt the plans due. Return these."""
        while self.reported and self.reported[0][0] <= now:
            ready, interval = self.reported.popleft()
            before, self.state = self.state, self.loop.after(self.state, interval)
            if self.state.active is not None and self.state.active is not before.active:
                self.planned.append((ready + self.delay, self.state.active))
        adopted: list[Plan] = []
        while self.planned and self.planned[0][0] <= now:
            _, plan = self.planned.popleft()
            for router in routers:
                router.adopt(plan)
            self.plans += 1
            values: Mapping[str, Any] = plan.values
            self.moved += int(values.get("moved", 0))
            self.migration += float(values.get("migration", 0.0))
            adopted.append(plan)
        return adopted


def sum_transfers(plans: Sequence[Plan], workers: int) -> NDArray[np.float64]:
    """The state that each worker hands out or takes in for these plans: float64[W], 0 if the plans don't say."""
    moved = np.zeros(workers)
    for plan in plans:
        values: Mapping[str, Any] = plan.values
        if "moved_sizes" in values:
            for side in ("moved_from", "moved_to"):
                moved += np.bincount(values[side], values["moved_sizes"], workers)
    return moved
