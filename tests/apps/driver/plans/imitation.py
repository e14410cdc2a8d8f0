"""A topology without Spark: the routers, workers and loop of the real one, batch by batch, killed where one likes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.feedback_loop import end_batch
from unskew.apps.metrics.task_reports import RouterReport, TaskReports, WorkerReport
from unskew.apps.router.router import Routing, SourceRouter
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.grouping import encode_keys
from unskew.grouping.feedback_loop import FeedbackLoop, Rebalance
from unskew.grouping.simulated_cost import Cost

SOURCES, WORKERS, BATCH = 2, 4, 2_000


class Killed(Exception):
    """As everything at once."""


def stream(batches: int, sources: int = SOURCES, seed: int = 0) -> list[list[NDArray[Any]]]:
    """Keys by batch and source: a fifth of the tuples have one key, the others one of 200, zipf-like."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, 201)
    return [
        [rng.choice(200, BATCH // sources, p=shares / shares.sum()) for _ in range(sources)] for _ in range(batches)
    ]


class Memory:
    """The reports of a driver's batches, as in `Reports`: what is taken is gone."""

    def __init__(self, reports: Mapping[int, TaskReports] = MappingProxyType({})) -> None:
        self.of = defaultdict(TaskReports, reports)

    def send(self, batch, number, report):
        reports = self.of[batch]
        (reports.routers if isinstance(report, RouterReport) else reports.workers)[number] = report

    def until(self, batch):
        return {of: each for of, each in self.of.items() if of <= batch}

    def take(self, batch):
        found = self.of.get(batch, TaskReports())
        self.of = defaultdict(TaskReports, {of: each for of, each in self.of.items() if of > batch})
        return found


@dataclass
class Imitation:
    """One query: its tasks and its driver; nothing of it but the checkpoint outlives a kill."""

    checkpoint: str
    grouping: str
    options: dict[str, Any] = field(default_factory=dict)
    cost: Cost = field(default_factory=lambda: Cost(0.001, (1.0, 2.0, 9.0)))
    states_move: bool = False
    routes: dict[int, list[NDArray[np.int32]]] = field(default_factory=dict)  # batch → source → worker of each tuple
    rebalances: dict[int, tuple[Rebalance, ...]] = field(default_factory=dict)
    reports: TaskReports = field(default_factory=TaskReports)

    @property
    def routing(self) -> Routing:
        plans = PlanStateLog(self.checkpoint).at
        return Routing(
            self.grouping, WORKERS, self.checkpoint, self.options, streaming=True, cost=self.cost, plans=plans
        )

    @property
    def loop(self) -> FeedbackLoop:
        return FeedbackLoop(self.routing.router, WORKERS, self.states_move)

    def end(self, batch: int, reports: TaskReports) -> tuple[Rebalance, ...]:
        return end_batch(self.loop, self.checkpoint, batch, reports)

    def steps(self, batch: int, keys: list[NDArray[Any]], factor: float = 1.0) -> Iterator[str]:
        """Do a batch; after each step one may stop. ``factor``: what is measured is so many times the cost."""
        self.reports = TaskReports()
        self.routes[batch] = []
        for source, part in enumerate(keys):
            router = SourceRouter(self.routing, source, batch)
            self.routes[batch].append(router.route(part, None))
            router.close()
            self.reports.routers[source] = RouterReport(len(part), 0.0, grouping=router._grouping.report())
            yield f"router {source}"
        for worker in range(WORKERS):
            yield self.work(batch, worker, keys, factor)
        self.rebalances[batch] = self.end(batch, self.reports)
        yield "loop"

    def work(self, batch: int, worker: int, keys: list[NDArray[Any]], factor: float) -> str:
        monitors = WorkerMonitors(self.routing)
        monitor = monitors.open(worker, batch)
        tuples, busy = 0, 0.0
        for part, routes in zip(keys, self.routes[batch], strict=True):
            mine = encode_keys(part[routes == worker])
            costs = self.cost.of(mine) * factor
            tuples, busy = tuples + len(mine), busy + float(costs.sum()) / 1000
            if monitor is not None and len(mine):
                monitor.observe(mine, costs)
        observed = None if monitor is None else monitors.close(monitor, worker, batch)
        self.reports.workers[worker] = WorkerReport(tuples, 0, busy, monitor=observed)
        return f"worker {worker}"

    def run(self, batch: int, keys: list[NDArray[Any]], kill_after: str = "", factor: float = 1.0) -> None:
        """Do a batch, or die after a step."""
        for step in self.steps(batch, keys, factor):
            if step == kill_after:
                raise Killed

    def loads(self, batch: int) -> NDArray[np.int64]:
        return np.bincount(np.concatenate(self.routes[batch]), minlength=WORKERS)
