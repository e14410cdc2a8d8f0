"""Routes a stream's sources with one planner for all, for groupings that plan batches (PLANNED)."""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from unskew.apps.driver.plans.plan_service import choose_listen_address, get_plan_service
from unskew.apps.driver.plans.planner import DataFramePlans, Planner
from unskew.apps.router.router import Routing
from unskew.grouping import get_grouping
from unskew.grouping.planned.interface import BatchGrouping


def make_planner(spark: SparkSession, routing: Routing) -> Planner | None:
    """A planner of a stream's sources, to be closed by the caller.

    None: the grouping plans no batches, or this process has no driver (``choose_listen_address``), so that each source
    plans its part.
    """
    place = choose_listen_address(spark) if get_grouping(routing.grouping).batched else None
    return None if place is None else Planner(_make_router_factory(routing), routing.checkpoint, place, routing.name)


def add_planner(df: DataFrame, routing: Routing, name: str = "") -> Routing:
    """The routing of a user's DataFrame, with plans if it is a stream whose grouping plans batches.

    All such DataFrames of this process share a planner. ``name`` replaces the routers'.
    """
    spark = df.sparkSession
    place = choose_listen_address(spark) if df.isStreaming and get_grouping(routing.grouping).batched else None
    if place is None:
        return routing
    plans = DataFramePlans(
        _make_router_factory(routing),
        routing.checkpoint,
        name or routing.name,
        lambda: {each.id for each in spark.streams.active},
    )
    return replace(routing, planner=get_plan_service(place).add(plans))


def _make_router_factory(routing: Routing) -> Callable[[int], BatchGrouping]:
    """Batch → the router that plans it."""

    def router(batch: int) -> BatchGrouping:
        made = routing.router(routing.plan_state(batch).workers)
        assert isinstance(made, BatchGrouping)
        return made

    return router
