"""``balanced_join`` of two streams: rows with equal keys, whose times are close to each other, meet at a worker.

Hot keys are split while the query runs (``unskew.grouping.split_join``): workers report what their keys had to do, and
the driver makes a plan at the beginning of each batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from unskew.apps.checkpoint.location import Location
from unskew.apps.driver.plans.batch_planner import add_plans
from unskew.apps.driver.plans.plan_service import require_listen_address
from unskew.apps.driver.python_processes import start_python
from unskew.apps.library.route_options import RouteOptions
from unskew.apps.library.stateful_query import claim_checkpoint, forget_transfers, require_rocksdb, select_timely
from unskew.apps.metrics.balance_observation import Observation
from unskew.apps.router.join_router import make_join_router
from unskew.apps.router.order import stabilise_order
from unskew.apps.router.tuple_packets import as_column, make_time_column
from unskew.apps.worker.joining.config import Condition, JoinConfig
from unskew.apps.worker.joining.operator import JoinOperator
from unskew.apps.worker.joining.outer_merger import merge_copies
from unskew.apps.worker.joining.worker import open_copies
from unskew.apps.worker.stateful.flow import ROUTED_DDL, add_tokens, apply_operators, count_partitions, unpack_results
from unskew.apps.worker.stateful.key_columns import KeyColumns
from unskew.apps.worker.stateful.operator import PARCELS
from unskew.apps.worker.stateful.tasks import make_stateless_merger
from unskew.durations import Duration, parse_milliseconds, parse_seconds
from unskew.errors import UsageError
from unskew.grouping.split_join.controller import SplitJoinLoop
from unskew.grouping.split_join.plan import LEFT, RIGHT
from unskew.spark.compat import (
    choose_tokens,
    convert_schema_to_arrow,
    explain_import,
    map_in_arrow,
    place_rows,
    quote_name,
)
from unskew.spark.micro_batches import make_batch_time

#: How the observation of a join calls its grouping.
GROUPING = "SPLIT_JOIN"


def join_streams(
    left: DataFrame,
    right: DataFrame,
    kinds: Mapping[str, DataType],
    workers: int,
    how: str,
    checkpoint: str | None,
    within: Duration,
    after: Duration | None,
    left_time: str | Column,
    right_time: str | Column,
    lateness: Duration,
    max_ahead: Duration,
    *,
    where: Condition | None,
    observe: str | None,
    most_workers: int | None,
    seed: int,
) -> DataFrame:
    """The pairs of two streams' rows. ``kinds``: the columns that must be equal, and the type by which they are
    compared.

    The other arguments and the errors are those of ``balanced_join``. ``how`` is ``inner``, ``left``, ``right`` or
    ``full``.
    """
    spark = left.sparkSession
    before_us = round(1e6 * parse_seconds("within", within))  # as rows are compared
    after_us = before_us if after is None else round(1e6 * parse_seconds("after", after))
    lateness_ms, ahead_ms = parse_milliseconds("lateness", lateness), parse_milliseconds("max_ahead", max_ahead)
    require_rocksdb(left, "balanced_join of streams")
    place = require_listen_address(spark, "balanced_join of streams", "keyed_map with IntervalJoin and KEY")
    outer = how in ("left", "full"), how in ("right", "full")
    sides = [
        _Side.of(left, kinds, left_time, outer=outer[LEFT]),
        _Side.of(right, kinds, right_time, outer=outer[RIGHT]),
    ]
    columns, taken = _name_results(sides, [*kinds])
    # The grouping has no part in it, but what checks and resolves the arguments is the same.
    route = RouteOptions(workers, "KEY", checkpoint, max_ahead=max_ahead, seed=seed)
    routing = route.make_routing(left, feedback=True)
    assert routing.checkpoint is not None
    location = Location.of(routing.checkpoint)
    partitions = count_partitions(spark, location)
    config = JoinConfig(
        key=sides[LEFT].by.arrow,
        columns=(sides[LEFT].schema, sides[RIGHT].schema),
        names=([field.name for field in sides[LEFT].fields], [field.name for field in sides[RIGHT].fields]),
        before_us=before_us,
        after_us=after_us,
        routing=routing,
        where=where,
        outer=outer,
        partitions=partitions,
        observe=None if observe is None else Observation(observe, GROUPING),
    )
    loop = SplitJoinLoop(route.workers, seed, most_workers=most_workers)
    tokens = choose_tokens(route.workers, partitions)
    types = {name: kind.simpleString() for name, kind in kinds.items()}  # whose equal values have one plain form each
    claim_checkpoint(spark, location, {**config.identity, "seed": seed, "on": types}, (), partitions, tokens)
    forget = forget_transfers(route.workers, *(open_copies(location, side) for side in (LEFT, RIGHT)))
    routing = add_plans(spark, routing, loop, place, forget)
    config = replace(config, routing=routing)
    packets = [side.send(config, tokens, number, ahead_ms) for number, side in enumerate(sides)]
    start_python(spark)
    batch_time = make_batch_time(0, F.col("worker"))
    parcels = apply_operators(packets, config, tokens, batch_time, lateness_ms, JoinOperator)
    if any(config.outer):
        mergers = explain_import(make_stateless_merger(config, partial(merge_copies, config)))
        parcels = place_rows(parcels, config.mergers, F.col("merger")).mapInArrow(mergers, PARCELS)
    return _unpack_pairs(parcels, sides, columns, taken, location)


@dataclass(frozen=True, eq=False)
class _Side:
    """One stream of a join."""

    frame: DataFrame  #: Its rows, in an order that all attempts of a task give.
    by: KeyColumns  #: Its key.
    moment: Column  #: Its rows' times.
    fields: list[StructField]  #: The columns that the rows bring with them.
    several: list[StructField]  #: The key's columns, where the rows bring these with them, too.

    @classmethod
    def of(cls, frame: DataFrame, kinds: Mapping[str, DataType], moment: str | Column, *, outer: bool) -> "_Side":
        """The side of a stream."""
        columns = {name: F.col(quote_name(name)) for name in kinds}
        null = reduce(Column.__or__, (column.isNull() for column in columns.values()))
        if not outer:
            frame = frame.where(~null)
        by = KeyColumns.of(frame, [columns[name].cast(kind).alias(name) for name, kind in kinds.items()])
        by = replace(by, value=F.when(~null, by.value))
        # The key comes back from its plain value, unless one of several columns is null.
        several = [StructField(name, kind) for name, kind in kinds.items()] if outer and len(kinds) > 1 else []
        fields = [field for field in frame.schema.fields if field.name not in kinds]
        return cls(stabilise_order(frame, "SHUFFLE"), by, make_time_column(frame, moment), fields, several)

    @property
    def travelling(self) -> list[StructField]:
        """The columns that travel with the rows."""
        return [*self.fields, *self.several]

    @property
    def schema(self) -> pa.Schema:
        """These columns in packets and in the workers' tables."""
        named = (StructField(f"c{n}", field.dataType) for n, field in enumerate(self.travelling))
        return convert_schema_to_arrow(StructType([*named]))

    def send(self, config: JoinConfig, tokens: list[int], number: int, ahead_ms: int) -> DataFrame:
        """The rows as packets for workers, each with its worker's token."""
        moment = as_column(self.moment).cast("timestamp")
        frame = select_timely(self.frame, moment, ahead_ms, config.observe, number)
        given = frame.columns
        plain = frame.select("*", self.by.value, moment).toDF(*(f"c{n}" for n in range(len(given))), "key", "time")
        read = [
            F.col(f"c{given.index(field.name)}").cast(field.dataType).alias(f"r{n}")
            for n, field in enumerate(self.travelling)
        ]
        rows = plain.select("key", "time", *read)
        route = make_join_router(config.routing, number, outer=config.outer[number])
        packets = explain_import(add_tokens(route, config, tokens, heartbeats=True, side=number))
        return map_in_arrow(rows, rows.columns, packets, ROUTED_DDL)


def _name_results(sides: Sequence[_Side], on: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names of the results' columns of each side. Names that differ in case alone are the same, as to Spark.

    Raises ``UsageError`` if two columns would have the same name.
    """
    left, right = ([field.name for field in side.fields] for side in sides)
    lower = {name.lower() for name in left}
    shown = [f"{name}_right" if name.lower() in lower else name for name in right]
    every = [name.lower() for name in (*on, *left, *shown)]
    twice = [name for name in (*on, *left, *shown) if every.count(name.lower()) > 1]
    if twice:
        raise UsageError(f"two columns of the result would be called {twice[0]!r}: rename one of them")
    return left, shown


def _unpack_pairs(
    parcels: DataFrame, sides: Sequence[_Side], left: Sequence[str], right: Sequence[str], location: Location
) -> DataFrame:
    """The rows of pairs that are in parcels."""
    key = sides[LEFT].by
    travelling = [(side, field.name, field.dataType) for side in (LEFT, RIGHT) for field in sides[side].travelling]
    kinds = [StructField(f"c{n}", kind) for n, (_, _, kind) in enumerate(travelling)]
    schema = StructType([StructField("key", key.kind), *kinds])

    def columns(_kind: int, _sender: int, rows: pa.RecordBatch) -> list[pa.Array]:
        return rows.columns[1:]

    results = unpack_results(parcels, schema, columns, location)
    given = {(side, name): F.col(f"c{n}") for n, (side, name, _) in enumerate(travelling)}
    on = [
        F.coalesce(column, *(given[side, field.name] for side in (LEFT, RIGHT) if sides[side].several)).alias(
            field.name
        )
        for field, column in zip(key.fields, key.columns(F.col("key")), strict=True)
    ]
    own = [
        given[side, field.name].alias(name)
        for side, names in ((LEFT, left), (RIGHT, right))
        for field, name in zip(sides[side].fields, names, strict=True)
    ]
    return results.select(*on, *own)
