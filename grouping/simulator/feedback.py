"""Feedback in simulated time: delays of reports and plans."""

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
    """How often workers and sources report, and how late a plan takes effect."""

    #: float, ms: The time between reports, above 0. Plans are adopted when an interval begins.
    interval: float = 1000.0
    delay: float = 0.0  #: float, ms: The time from the last report of an interval to the plan's arrival at the sources.
    #: float, ms: How long a unit of moving state (of a plan's ``migration``) keeps its sender and its receiver busy.
    #: Tuples that come meanwhile wait.
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
        """Whether a report or a plan is in transit."""
        return bool(self.reported or self.planned)

    def report(self, ready: float, interval: Interval) -> None:
        """Add an interval's reports, which arrive at ``ready`` (ms), but not before earlier intervals'."""
        if self.reported:
            ready = max(ready, self.reported[-1][0])
        self.reported.append((ready, interval))

    def take_up(self, now: float, routers: Sequence[Grouping]) -> list[Plan]:
        """Plan from the reports that have arrived by ``now``. Let the routers adopt due plans, and return these."""
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
    """The state that each worker sends or receives under these plans: float64[W], 0 if they don't say."""
    moved = np.zeros(workers)
    for plan in plans:
        values: Mapping[str, Any] = plan.values
        if "moved_sizes" in values:
            for side in ("moved_from", "moved_to"):
                moved += np.bincount(values[side], values["moved_sizes"], workers)
    return moved
