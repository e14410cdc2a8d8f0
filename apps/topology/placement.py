"""Placement: the packets that the router cuts, each sent to exactly its worker's partition."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from unskew.apps.topology import packets
from unskew.apps.topology.fields import MESSAGE, Fields
from unskew.apps.topology.router import Routing
from unskew.apps.topology.routes import route_packets
from unskew.grouping import named


def place(
    df: DataFrame,
    routing: Routing,
    key: str,
    carry: list[str],
    *,
    source: str | Column | None = None,
    time: str | Column | None = None,
    tasks: int | None = None,
    fields: Fields | None = None,
) -> DataFrame:
    """Packets (``unskew.apps.topology.packets``) of the columns ``carry``, each in the partition of its worker.

    With ``tasks`` there are so many partitions only, and worker *w* shares partition *w* mod ``tasks`` with others.
    With ``fields`` the rows are messages (``MESSAGE``), of which the router reads the key first.
    """
    chosen = df
    source_column = time_column = None
    if source is not None:
        source_column = "__source"
        chosen = chosen.withColumn(source_column, column(source))
    if named(routing.grouping).uses_time:
        time_column = "__time"
        chosen = chosen.withColumn(time_column, F.current_timestamp() if time is None else column(time))
    own = [c for c in (source_column, time_column) if c]
    needed = dict.fromkeys([key, *carry, *own] if fields is None else [*unread(fields, carry), *own])
    partitions = min(tasks or routing.workers, routing.workers)
    route = route_packets(routing, key, source_column, time_column, carry, fields)
    return (
        chosen.select(*needed).mapInArrow(route, packets.DDL).repartitionById(partitions, F.col("worker") % partitions)
    )


def unread(fields: Fields, carry: list[str]) -> list[str]:
    """The columns from which the router makes those that are carried."""
    return [MESSAGE, *(name for name in carry if name not in fields.gives)]


def column(of: str | Column) -> Column:
    """A column by its name, or as it is."""
    return F.col(of) if isinstance(of, str) else of
