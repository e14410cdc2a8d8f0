"""Plans that are made at a batch's beginning, when its sources ask for them. They serve queries of one's own.

The driver has a thread that answers the sources of all calls (``PlanService``). It makes the plan state of a batch from
the one before and the reports since then, whose batches Spark has committed. It writes the state, whole and once, and
only then answers. So a batch that runs again has the same plan, whatever the next attempt measures. The workers run
after all sources of their batch, and find its state beside the checkpoint, as the sources do.

Reports lie in the driver's memory, and are lost with it. They are hints: without them the plan stays as it is, and
workers report again what they have released (``unskew.apps.driver.plans.feedback_loop.begin_batch``).
"""

import itertools
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from pyspark.sql import SparkSession

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.plans.feedback_loop import begin_batch, require_known_plans
from unskew.apps.driver.plans.planner_server import ENABLED, ListenAddress, TaskServer, choose_listen_address
from unskew.apps.metrics.task_reports import Reports, TaskReports
from unskew.apps.router.planner_protocol import BEGUN, PlannerAddress
from unskew.apps.router.planner_session import connect_server, report_unreachable, request_answer
from unskew.apps.router.router import Routing
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping.feedback_loop import FeedbackLoop, PlanState
from unskew.grouping.registry import STANDALONE
from unskew.grouping.state import pack_values, unpack_values
from unskew.spark.micro_batches import get_run_id

_BEGIN = "begin"


@dataclass(frozen=True)
class PlanClient:
    """The plan states of a query's batches, in a source's task: batch → PlanState or None.

    Parameters
    ----------
    address : PlannerAddress
        Where the driver's thread listens.
    call : int
        The number of the call whose plans they are.
    checkpoint : str or Location
        The query's checkpoint location.

    """

    address: PlannerAddress
    call: int
    checkpoint: Where

    def __call__(self, batch: int) -> PlanState | None:
        """The state at the start of a batch. None: there is no plan yet.

        Raises
        ------
        EnvironmentFault
            The driver can't be reached, or can't make the plan.

        """
        question = pack_values(_BEGIN, {"call": self.call, "batch": batch, "run": get_run_id()})
        with report_unreachable(self.address), closing(connect_server(self.address)) as driver:
            request_answer(driver, question)
        return PlanStateLog(self.checkpoint).at(batch)


class BatchPlanner:
    """The plans of one call, batch after batch.

    Parameters
    ----------
    loop : FeedbackLoop
        The query's feedback loop.
    checkpoint : str or Location
        The query's checkpoint location.
    reports : Reports
        Where the query's tasks send their reports.
    planned : callable, optional
        Called with the reports of the batch before, when the plan state of a batch is written. No source waits for it.

    """

    def __init__(
        self,
        loop: FeedbackLoop,
        checkpoint: Where,
        reports: Reports,
        planned: Callable[[TaskReports], None] = lambda _: None,
    ) -> None:
        self._loop, self._checkpoint, self._reports = loop, checkpoint, reports
        self.planned = planned
        self._beginning = threading.Lock()  # held while the store is asked, so no other call has to wait for it
        self._newest = self._tried = -1
        self._run: str | None = None

    @property
    def address(self) -> str:
        """The checkpoint's address."""
        return Location.of(self._checkpoint).address

    def begin(self, batch: int, run: str) -> TaskReports | None:
        """Write a batch's plan state if its sources haven't asked yet.

        Returns
        -------
        TaskReports or None
            The reports of the batch before, for ``planned``. None: another source of the batch has asked before.

        """
        with self._beginning:
            known = self._run == run
            if batch != self._newest:
                # Another run may have had batches in between, whose reports aren't here.
                self._write(batch, self._newest if known else None)
            again, self._newest, self._run = batch == self._newest, batch, run
            if again:
                return None
            # Taken only now: if the plan fails, the next attempt makes it of the same reports.
            return self._reports.take(batch - 1)

    def _write(self, batch: int, since: int | None) -> None:
        """Write the plan state, or go on with what an earlier driver, or an attempt of this one, has written."""
        again, self._tried = self._tried == batch, batch
        own = begin_batch(self._loop, self._checkpoint, batch, self._reports.until(batch - 1), since)
        if not own and self._newest >= 0 and not again:
            self._tried = -1
            raise _refuse_other_call(batch, self.address)


def _refuse_other_call(batch: int, address: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"the plan of batch {batch} in {address} isn't this call's own: a checkpoint has one call with feedback, and "
        "one query at a time; for another call, take another query or a grouping without feedback; to go on after "
        "another driver, make the call again"
    )


class PlanService(TaskServer):
    """The driver's thread, which answers the sources of all calls. It lasts until ``close``, or as long as its process.

    Spark lets a checkpoint have one run at a time. So if the same run asks by two calls, both are in one query. If
    another run asks by another call, the run before is over, and its call is forgotten.
    """

    def __init__(self, place: ListenAddress) -> None:
        self._calls: dict[int, BatchPlanner] = {}
        self._numbers = itertools.count()
        self._asking: dict[str, tuple[str, int]] = {}  # checkpoint → the run that has asked last, and its call
        super().__init__(place)

    def add(self, call: BatchPlanner, checkpoint: Where) -> PlanClient:
        """Answer for one call more. What its sources ask with."""
        with self._changed:
            number = next(self._numbers)
            self._calls[number] = call
        return PlanClient(self.address, number, checkpoint)

    def _answer(self, source: Connection) -> None:
        asked: dict[str, Any] = unpack_values(_BEGIN, source.recv_bytes())
        batch, run = asked["batch"], asked["run"]
        call = self._find_call(asked["call"], batch, run)
        reports = call.begin(batch, run)
        source.send_bytes(BEGUN)
        if reports is not None:
            call.planned(reports)

    def _find_call(self, number: int, batch: int, run: str) -> BatchPlanner:
        """The call of this number, which no other call of its query may go before."""
        with self._changed:
            call = self._calls.get(number)
            if call is None:
                raise EnvironmentFault("a later query has gone on from this call's checkpoint; make the call again")
            last, other = self._asking.get(call.address, (run, number))
            if other != number:
                if last == run:
                    raise _refuse_other_call(batch, call.address)
                self._calls.pop(other, None)
            self._asking[call.address] = run, number
            return call


_opening = threading.Lock()
_opened: dict[ListenAddress, PlanService] = {}


def get_plan_service(place: ListenAddress) -> PlanService:
    """The thread of this process that listens there. The first call starts it.

    Raises
    ------
    EnvironmentFault
        It can't listen there.

    """
    with _opening:
        if place not in _opened:
            _opened[place] = PlanService(place)
        return _opened[place]


def prepare_feedback(
    spark: SparkSession, routing: Routing, *, moving: bool
) -> tuple[FeedbackLoop, ListenAddress] | None:
    """The loop of a stream with a checkpoint, and where its driver listens. None: its grouping needs no feedback.

    Nothing is written or started.

    Parameters
    ----------
    spark : SparkSession
        The session of this process that runs the stream.
    routing : Routing
        The routing.
    moving : bool
        Whether workers have states that move with their keys, if the grouping moves keys.

    Raises
    ------
    UsageError
        The grouping needs feedback, and there is no driver of this process, or the routing has a name.
    EnvironmentFault
        A plan that these routers can't follow has moved the checkpoint's states.

    """
    router = routing.router()
    if router.controller() is None or routing.checkpoint is None:
        return None
    place = choose_listen_address(spark)
    if place is None:
        raise UsageError(
            f"{router.name} needs feedback from the workers, which has no way to the driver through Spark Connect, nor "
            f"if {ENABLED} is false; valid then: {', '.join(STANDALONE)}"
        )
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
    """The routing of a stream with a checkpoint: with reports to the driver and plans, if its grouping needs these.

    The driver remembers the call as long as this process lasts. So check all arguments of a call first.

    Parameters
    ----------
    spark, routing, moving
        As for ``prepare_feedback``, whose errors it raises.
    planned
        As for ``BatchPlanner``.

    """
    needed = prepare_feedback(spark, routing, moving=moving)
    if needed is None or routing.checkpoint is None:
        return routing
    loop, place = needed
    reports = Reports(spark.sparkContext)
    call = BatchPlanner(loop, routing.checkpoint, reports, planned)
    return replace(routing, reports=reports, plans=get_plan_service(place).add(call, routing.checkpoint))
