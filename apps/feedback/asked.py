"""Plans that are made at a batch's beginning, when its sources ask for them. They serve queries of one's own.

The driver has a thread that answers (``Beginnings``). It makes the plan state of a batch from the one before and the
reports since then, whose batches Spark has committed. It writes the state, whole and once, and only then
answers. So a batch that runs again has the same plan, whatever the next attempt measures. The workers run after all
sources of their batch, and find its state beside the checkpoint, as the sources do.

Reports lie in the driver's memory, and are lost with it. They are hints: without them the plan stays as it is, and
workers report again what they have released (``unskew.apps.feedback.loop.begin``).
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from pyspark.sql import SparkSession

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.feedback.loop import begin, require_followed
from unskew.apps.feedback.plans import Plans
from unskew.apps.planning.asking import answered, connection, reaching
from unskew.apps.planning.server import ENABLED, Place, Server, place_of
from unskew.apps.planning.wire import BEGUN, Address
from unskew.apps.reports import Reports, TaskReports
from unskew.apps.routing.router import Routing
from unskew.errors import EnvironmentFault, UsageError
from unskew.grouping.loop import Loop, PlanState
from unskew.grouping.registry import STANDALONE
from unskew.grouping.state import pack, unpack

_BEGIN = "begin"


@dataclass(frozen=True)
class Asked:
    """The plan states of a query's batches, in a source's task: batch → PlanState or None.

    Parameters
    ----------
    address : Address
        Where the driver's thread listens.
    checkpoint : str or Location
        The query's checkpoint location.

    """

    address: Address
    checkpoint: Where

    def __call__(self, batch: int) -> PlanState | None:
        """The state at the start of a batch. None: there is no plan yet.

        Raises
        ------
        EnvironmentFault
            The driver can't be reached, or can't make the plan.

        """
        with reaching(self.address), closing(connection(self.address)) as driver:
            answered(driver, pack(_BEGIN, {"batch": batch}))
        return Plans(self.checkpoint).at(batch)


class Beginnings(Server):
    """The driver's thread. It lasts as long as this process, or until ``close``.

    Parameters
    ----------
    loop : Loop
        The query's feedback loop.
    checkpoint : str or Location
        The query's checkpoint location.
    reports : Reports
        Where the query's tasks send their reports.
    place : Place
        Where it listens.
    planned : callable, optional
        Called with the reports of the batch before, when the plan state of a batch is written. No source waits for it.

    """

    def __init__(
        self,
        loop: Loop,
        checkpoint: Where,
        reports: Reports,
        place: Place,
        planned: Callable[[TaskReports], None] = lambda _: None,
    ) -> None:
        self._loop, self._checkpoint, self._reports, self._planned = loop, checkpoint, reports, planned
        self._newest = self._tried = -1
        super().__init__(place)

    def _answer(self, source: Connection) -> None:
        asked: dict[str, Any] = unpack(_BEGIN, source.recv_bytes())
        batch, reports = asked["batch"], None
        with self._changed:
            if batch != self._newest:  # the first of its sources
                self._begin(batch)
                self._newest = batch
                # Taken only now: if the plan fails, the next attempt makes it of the same reports.
                reports = self._reports.take(batch - 1)
        source.send_bytes(BEGUN)
        if reports is not None:
            self._planned(reports)

    def _begin(self, batch: int) -> None:
        """Write a batch's plan state, or go on with what an earlier driver, or an attempt of this one, has written."""
        again, self._tried = self._tried == batch, batch
        own = begin(self._loop, self._checkpoint, batch, self._reports.until(batch - 1))
        if not own and self._newest >= 0 and not again:
            self._tried = -1
            raise EnvironmentFault(
                f"the plan of batch {batch} in {Location.of(self._checkpoint).address} isn't this call's own: a "
                "checkpoint has one call with feedback, and one query at a time; for another call, take another query "
                "or a grouping without feedback; to go on after another driver, make the call again"
            )


def require_feedback(spark: SparkSession, routing: Routing, *, moving: bool) -> tuple[Loop, Place] | None:
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
    place = place_of(spark)
    if place is None:
        raise UsageError(
            f"{router.name} needs feedback from the workers, which has no way to the driver through Spark Connect, nor "
            f"if {ENABLED} is false; valid then: {', '.join(STANDALONE)}"
        )
    if routing.name:
        raise UsageError(f"name is {routing.name!r}, but a query has the plans of one call alone: leave name out")
    loop = Loop(routing.router, routing.workers, moving=router.moves and moving, keyed=moving)
    require_followed(loop, routing.checkpoint)
    return loop, place


def with_feedback(
    spark: SparkSession,
    routing: Routing,
    *,
    moving: bool,
    planned: Callable[[TaskReports], None] = lambda _: None,
) -> Routing:
    """The routing of a stream with a checkpoint: with reports to the driver and plans, if its grouping needs these.

    The driver's thread lasts as long as this process. So check all arguments of a call first.

    Parameters
    ----------
    spark, routing, moving
        As for ``require_feedback``, whose errors it raises.
    planned
        As for ``Beginnings``.

    """
    needed = require_feedback(spark, routing, moving=moving)
    if needed is None or routing.checkpoint is None:
        return routing
    loop, place = needed
    reports = Reports(spark.sparkContext)
    server = Beginnings(loop, routing.checkpoint, reports, place, planned)
    return replace(routing, reports=reports, plans=Asked(server.address, routing.checkpoint))
