"""The routing of a stream's sources with one planner for them all, where the grouping plans batches (PLANNED)."""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from unskew.apps.driver.plans.planner import Planner, Plans, planners_at
from unskew.apps.driver.plans.planner_server import place_of
from unskew.apps.router.router import Routing
from unskew.grouping import named
from unskew.grouping.planned.interface import Batched


def planner_of(spark: SparkSession, routing: Routing) -> Planner | None:
    """A planner of a stream's sources, which the caller closes.

    None: the grouping plans no batches, or there is no driver of ours (``place_of``). Then each source plans its own
    part.
    """
    place = place_of(spark) if named(routing.grouping).batched else None
    return None if place is None else Planner(_batched(routing), routing.checkpoint, place, routing.name)


def planned(df: DataFrame, routing: Routing, name: str = "") -> Routing:
    """The routing of a DataFrame of the user's, with plans if it is a stream whose grouping plans batches.

    All such DataFrames of this process share a planner. ``name`` replaces that of the routers.
    """
    spark = df.sparkSession
    place = place_of(spark) if df.isStreaming and named(routing.grouping).batched else None
    if place is None:
        return routing
    plans = Plans(
        _batched(routing), routing.checkpoint, name or routing.name, lambda: {each.id for each in spark.streams.active}
    )
    return replace(routing, planner=planners_at(place).add(plans))


def _batched(routing: Routing) -> Callable[[int], Batched]:
    """Makes the router that plans a batch."""

    def router(batch: int) -> Batched:
        made = routing.router(routing.plan_state(batch).workers)
        assert isinstance(made, Batched)
        return made

    return router
