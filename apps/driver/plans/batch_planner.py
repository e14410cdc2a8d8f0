"""Makes plans for users' queries at the start of a batch, when its sources request them.

The driver's service (``plan_service``) makes a batch's plan state from the previous one and the reports since then of
batches that Spark has committed. It writes the state once before it answers. So a batch that runs again has the same
plan, whatever the next attempt measures. The workers run after all sources of their batch, and read its state next to
the checkpoint, like the sources.

Reports are in the driver's memory, and may be lost with it: the plan then stays, and workers report again what they
have released (``unskew.apps.driver.plans.feedback_loop.begin_batch``).
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from pyspark.sql import SparkSession

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.feedback_loop import PlanLoop, begin_batch, require_known_plans
from unskew.apps.driver.plans.plan_service import (
    ListenAddress,
    PlanService,
    get_plan_service,
    require_listen_address,
)
from unskew.apps.metrics.task_reports import Reports, TaskReports
from unskew.apps.router.planner_protocol import BEGUN, PlannerAddress
from unskew.apps.router.planner_session import connect_server, make_question, report_unreachable, request_answer
from unskew.apps.router.router import Routing
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping.feedback_loop import FeedbackLoop, PlanState
from unskew.grouping.registry import STANDALONE
from unskew.spark.micro_batches import get_run_id


@dataclass(frozen=True)
class PlanClient:
    """Requests the plan states of a query's batches in a source's task: batch → PlanState or None."""

    address: PlannerAddress
    checkpoint: Where

    def __call__(self, batch: int) -> PlanState | None:
        """The state at the start of a batch, or None if there is no plan yet.

        Raises ``EnvironmentFault`` if the driver can't be reached, or can't make the plan.
        """
        question = make_question(self.address, batch=batch, run=get_run_id())
        with report_unreachable(self.address), closing(connect_server(self.address)) as driver:
            request_answer(driver, question)
        return PlanStateLog(self.checkpoint).at(batch)


class BatchPlanner:
    """Makes the plans of one call, batch after batch, from the reports of the query's tasks.

    ``planned`` is called with the previous batch's reports, after a batch's plan state is written. No source waits for
    it.
    """

    def __init__(
        self,
        loop: PlanLoop,
        checkpoint: Where,
        reports: Reports,
        planned: Callable[[TaskReports], None] = lambda _: None,
    ) -> None:
        self._loop, self._checkpoint, self._reports, self._planned = loop, checkpoint, reports, planned
        self._service: PlanService | None = None
        self._beginning = threading.Lock()  # held during requests to the store, so that no other call waits for them
        self._newest = self._tried = -1
        self._run: str | None = None

    def join(self, service: PlanService) -> PlanClient:
        """Register with a service, and return the sources' client."""
        self._service = service
        return PlanClient(service.add(self), self._checkpoint)

    def answer(self, source: Connection, question: Mapping[str, Any]) -> None:
        """Answer one attempt of a source."""
        batch, run = question["batch"], question["run"]
        assert self._service is not None
        if not self._service.claim(self._address, run, self):
            raise _refuse_other_call(batch, self._address)
        reports = self.begin(batch, run)
        source.send_bytes(BEGUN)
        if reports is not None:
            self._planned(reports)

    def close(self) -> None:
        """Do nothing: sources wait only for answers in progress."""

    @property
    def _address(self) -> str:
        return Location.of(self._checkpoint).address

    def begin(self, batch: int, run: str) -> TaskReports | None:
        """Write a batch's plan state at its sources' first request, and return the previous batch's reports, for
        ``planned``.

        At a later request it returns None.
        """
        with self._beginning:
            known = self._run == run
            if batch != self._newest:
                # Another run may have had batches in between, whose reports are missing here.
                self._write(batch, self._newest if known else None)
            again, self._newest, self._run = batch == self._newest, batch, run
            if again:
                return None
            # Taken only now, so that after a failure the next attempt has the same reports.
            return self._reports.take(batch - 1)

    def _write(self, batch: int, since: int | None) -> None:
        """Write the plan state, or use the one that an earlier driver or attempt has written."""
        again, self._tried = self._tried == batch, batch
        own = begin_batch(self._loop, self._checkpoint, batch, self._reports.until(batch - 1), since)
        if not own and self._newest >= 0 and not again:
            self._tried = -1
            raise _refuse_other_call(batch, self._address)


def _refuse_other_call(batch: int, address: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"the plan of batch {batch} in {address} isn't this call's own: a checkpoint has one call with feedback, and "
        "one query at a time; for another call, take another query or a grouping without feedback; to go on after "
        "another driver, make the call again"
    )


def prepare_feedback(
    spark: SparkSession, routing: Routing, *, moving: bool
) -> tuple[FeedbackLoop, ListenAddress] | None:
    """The loop of a stream with a checkpoint, and its driver's listen address, or None if its grouping needs no
    feedback.

    Nothing is written or started. ``moving``: states move with their keys, if the grouping moves keys.

    Raises ``UsageError`` if the grouping needs feedback, but this process has no driver, or the routing has a name;
    ``EnvironmentFault`` if a plan moved the checkpoint's states that these routers can't follow.
    """
    router = routing.router()
    if router.controller() is None or routing.checkpoint is None:
        return None
    place = require_listen_address(spark, router.name, ", ".join(STANDALONE))
    if routing.name:
        raise UsageError(f"name is {routing.name!r}, but a query has the plans of one call alone: leave name out")
    loop = FeedbackLoop(routing.router, routing.workers, moving=router.migrates_keys and moving, keyed=moving)
    require_known_plans(loop, routing.checkpoint)
    return loop, place


def add_feedback(
    spark: SparkSession,
    routing: Routing,
    *,
    moving: bool,
    planned: Callable[[TaskReports], None] = lambda _: None,
) -> Routing:
    """The routing of a stream with a checkpoint, with reports to the driver and plans if its grouping needs them.

    The driver keeps the call as long as this process lasts. So check all arguments first. ``moving`` and the errors are
    those of ``prepare_feedback``, and ``planned`` is that of ``BatchPlanner``.
    """
    needed = prepare_feedback(spark, routing, moving=moving)
    return routing if needed is None else add_plans(spark, routing, *needed, planned)


def add_plans(
    spark: SparkSession,
    routing: Routing,
    loop: PlanLoop,
    place: ListenAddress,
    planned: Callable[[TaskReports], None] = lambda _: None,
) -> Routing:
    """The routing of a stream with a checkpoint, with reports to the driver and the plans that ``loop`` makes of them.

    ``place`` is the driver's listen address, and ``planned`` that of ``BatchPlanner``.
    """
    assert routing.checkpoint is not None
    reports = Reports(spark.sparkContext)
    call = BatchPlanner(loop, routing.checkpoint, reports, planned)
    return replace(routing, reports=reports, plans=call.join(get_plan_service(place)))
