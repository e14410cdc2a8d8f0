"""The routing arguments that the library's functions share, checked and resolved in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from unskew.apps.checkpoint.location import resolve_location
from unskew.apps.router.order import stabilise_order
from unskew.apps.router.router import Routing, check_scheme_options
from unskew.apps.router.tuple_packets import make_cost_column, make_source_column, make_time_column
from unskew.durations import Duration, parse_milliseconds
from unskew.grouping import get_grouping, get_parameters
from unskew.grouping.arguments import check_integer
from unskew.grouping.registry import to_capitals
from unskew.spark.micro_batches import count_sources, is_in_stream, make_batch_time


@dataclass(frozen=True, eq=False)
class RouteOptions:
    """How rows are to be routed, as a user says it.

    Parameters
    ----------
    workers, grouping, checkpoint, source, sources, time, max_ahead, cost, weights, most_workers, seed, name
        As for ``balance``, and in its order. Afterwards ``grouping`` is in capitals.
    options : mapping
        The scheme's own parameters. Afterwards they include what follows from the other arguments.

    Raises
    ------
    UsageError
        The number of workers or ``max_ahead`` is invalid, or as ``check_scheme_options``.

    """

    workers: int
    grouping: str
    checkpoint: str | None = None
    source: str | Column | None = None
    sources: int | None = None
    time: str | Column | None = None
    max_ahead: Duration = 3600.0
    cost: str | Column | None = None
    weights: Sequence[float] | None = None
    most_workers: int | None = None
    seed: int = 0
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        grouping = to_capitals(self.grouping)
        options = check_scheme_options(
            grouping,
            self.options,
            cost=self.cost is not None,
            weights=self.weights,
            most_workers=self.most_workers,
            sources=self.sources,
        )
        workers = check_integer("workers", self.workers, 1, held=2**31 - 1)
        for name, value in {"workers": workers, "grouping": grouping, "options": options}.items():
            object.__setattr__(self, name, value)
        _ = self.ahead_ms

    @property
    def ahead_ms(self) -> int:
        """``max_ahead`` in ms."""
        return parse_milliseconds("max_ahead", self.max_ahead)

    def make_routing(self, df: DataFrame, *, feedback: bool = False) -> Routing:
        """The routing of a DataFrame's rows, without the driver's plans.

        ``feedback`` says that the query's workers report to the driver, for which it needs a checkpoint. Raises
        ``UsageError`` as ``Routing.check`` and ``resolve_location``.
        """
        routing = Routing(self.grouping, self.workers, options=dict(self.options), seed=self.seed, name=self.name)
        routing.check(costs=self.cost is not None, feedback=feedback)
        if "sources" in get_parameters(self.grouping) and "sources" not in self.options:
            routing.options["sources"] = count_sources(df) or 1
        kept = feedback or self.checkpoint is not None
        location = resolve_location(df.sparkSession, self.checkpoint) if kept else None
        return replace(routing, checkpoint=location, streaming=is_in_stream(df))

    def make_columns(self, df: DataFrame) -> dict[str, Column]:
        """What a router reads beside the key: ``source`` and ``cost`` if given, and ``time`` if the grouping uses it.

        Raises ``UsageError`` if there is no such column, or it is of another type.
        """
        columns = self.make_source_and_cost(df)
        if get_grouping(self.grouping).uses_time:
            columns["time"] = F.current_timestamp() if self.time is None else make_time_column(df, self.time)
            if self.time is not None and df.isStreaming:
                # A row without a time is as of the latest one so far.
                columns["time"] = F.when(columns["time"] <= make_batch_time(self.ahead_ms), columns["time"])
        return columns

    def make_source_and_cost(self, df: DataFrame) -> dict[str, Column]:
        """As ``make_columns``, for tuples that have a time of their own."""
        columns = {}
        if self.source is not None:
            columns["source"] = make_source_column(df, self.source)
        if self.cost is not None:
            columns["cost"] = make_cost_column(df, self.cost)
        return columns

    def stabilise_order(self, df: DataFrame) -> DataFrame:
        """The DataFrame as ``unskew.apps.router.order.stabilise_order`` gives it."""
        return stabilise_order(df, self.grouping, self.time)

    def is_counted(self, df: DataFrame) -> bool:
        """Whether Spark SQL counts the DataFrame before it is routed: the grouping plans batches, and this is one."""
        return get_grouping(self.grouping).batched and not df.isStreaming
