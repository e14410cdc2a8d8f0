"""``keyed_map``: run a keyed operator, which keeps a state per key, over a stream or DataFrame."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.driver.plans.batch_planner import add_feedback, prepare_feedback
from unskew.apps.driver.plans.plan_service import choose_listen_address
from unskew.apps.driver.plans.planned_routing import add_planner
from unskew.apps.driver.python_processes import start_python
from unskew.apps.library.route_options import RouteOptions
from unskew.apps.library.stateful_query import claim_checkpoint, forget_transfers, require_rocksdb, select_timely
from unskew.apps.library.static_keyed_map import execute_at_once
from unskew.apps.metrics.balance_observation import Observation, observe_keys
from unskew.apps.operators.interface import KeyedOperator, require_operator
from unskew.apps.router.router import Routing
from unskew.apps.router.row_keys import Key, list_key_columns
from unskew.apps.router.tuple_packets import as_column
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.apps.worker.stateful.config import (
    KeyedOperatorConfig,
    choose_merge_period,
    find_changed_fields,
    parse_lifetime,
    parse_window_slide,
    splits_keys,
)
from unskew.apps.worker.stateful.flow import (
    apply_operators,
    count_partitions,
    route_to_workers,
    send_heartbeats,
    unpack_results,
)
from unskew.apps.worker.stateful.key_columns import KeyColumns
from unskew.apps.worker.stateful.migration import StateTransfers
from unskew.apps.worker.stateful.operator_output import WINDOW
from unskew.apps.worker.stateful.store import KEY
from unskew.durations import Duration, parse_milliseconds
from unskew.errors import UsageError, suggest_names
from unskew.grouping.registry import SINGLE_OWNER, STICKY
from unskew.spark.compat import choose_tokens, convert_schema_to_spark, quote_name, require_frame
from unskew.spark.micro_batches import make_batch_time, read_heartbeats


def keyed_map(
    df: DataFrame | Sequence[DataFrame],
    key: Key,
    workers: int,
    work: KeyedOperator,
    grouping: str = "BOUNDED_LOAD",
    checkpoint: str | None = None,
    *,
    window_length: Duration | None = None,
    window_slide: Duration | None = None,
    ttl: Duration | None = None,
    merge_every: Duration | None = None,
    time: str | Column | None = None,
    lateness: Duration = 10.0,
    max_ahead: Duration = 3600.0,
    source: str | Column | None = None,
    sources: int | None = None,
    cost: str | Column | None = None,
    weights: Sequence[float] | None = None,
    most_workers: int | None = None,
    seed: int = 0,
    idle_batches: bool = False,
    observe: str | None = None,
    **options: Any,
) -> DataFrame:
    """Run an operator that keeps a state per key, such as sessions, distinct counts or top-k, on evenly loaded workers.

    If a hot key has states at several workers, they are merged before its results are published.

    Parameters
    ----------
    df : DataFrame or sequence of DataFrames
        A stream, a static DataFrame, or several, united by their columns' names. The least watermark counts.
    key : str, Column, or a list of these
        As for ``balance``, but no arrays. For an operator that reads ``key``, as ``PerKey``: string, binary or integer.
    workers : int
        W ≥ 1. First set ``spark.sql.shuffle.partitions`` to W, or to the tasks that run at once if these are fewer.
    work, grouping : KeyedOperator; str
        The operator, from ``unskew.operators`` or your own, and the grouping as for ``balance``, or over a stream one
        with feedback, such as MIXED (not with Spark Connect). One that splits keys needs an operator with ``merge``.
    checkpoint : str
        The query's ``checkpointLocation``, which the driver and all executors must see. A stream needs it, and RocksDB.
    window_length, window_slide, ttl : timedelta, number (s) or str, optional
        States live until their window closes, or for ``ttl`` after their key's last row (default: the operator's TTL).
        A window begins every ``window_slide``, which is ``window_length`` divided by 1 to 60 (default: 1).
    merge_every : timedelta, number (s) or str, optional
        How often a split key's states are merged, such as ``"30 s"`` or ``"1 batch"``. Default: when the window closes;
        without windows in each batch if ``time`` is given, else every 10 s.
    time, lateness, max_ahead : str or Column, timestamp; timedelta, number (s) or str
        The rows' own time (default: the batch's), how late a row may be, and how far ahead of its batch. A stream's
        other rows are left out, as are rows without a time.
    source, sources, cost, weights, most_workers, seed, options
        As for ``balance``.
    idle_batches, observe : bool; str, optional
        Run a batch at every trigger, so that windows close without new rows (not with ``availableNow``); and the name,
        such as ``"unskew"``, under which Spark measures a stream's workers for ``watch``.

    Returns
    -------
    DataFrame
        The key's columns, ``window`` (its start) if there are windows, and the columns of ``work.results``.

    Raises
    ------
    UsageError
        As ``balance``, or if the state store or the number of shuffle partitions isn't the one that is needed.
    EnvironmentFault
        The checkpoint is unreadable or has states moved with other options, or an executor can't reach the driver.
    StateFault
        The query fails with it if the operator raises, or returns other columns than its schemas say.

    Examples
    --------
    >>> from unskew.apps.operators import Statistics
    >>> events = spark.range(6).selectExpr("concat('sensor ', id % 2) AS sensor", "cast(id AS double) AS value")
    >>> means = keyed_map(events, "sensor", 2, Statistics("value"), ttl="1 hour")
    >>> [tuple(row) for row in means.select("sensor", "count", "mean").orderBy("sensor").collect()]
    [('sensor 0', 3, 2.0), ('sensor 1', 3, 3.0)]

    """
    _require_clear_window(options, window_length, ttl)
    frames = _align_frames(df)
    first = frames[0]
    kept = checkpoint if first.isStreaming else None
    route = RouteOptions(
        workers, grouping, kept, source, sources, time, max_ahead, cost, weights, most_workers, seed, "", options
    )
    by, event = _resolve_key(first, key, work), time is not None
    lives = parse_lifetime(work, window_length, ttl, "window_length")
    lateness_ms = parse_milliseconds("lateness", lateness)
    owning = SINGLE_OWNER if first.isStreaming and choose_listen_address(first.sparkSession) else STICKY
    split = splits_keys(work, route.grouping, route.workers, owning)
    if len(frames) > 1:
        _check_several(route, split=split, observe=observe)
    period = choose_merge_period(merge_every, route.grouping, split=split, event=event, window_ms=lives[0])
    slide_ms = parse_window_slide(work, window_slide, lives[0], "window_slide")
    config = KeyedOperatorConfig(
        work, by.arrow, route.workers, split, route.workers, event, *lives, period, slide_ms=slide_ms
    )
    if first.isStreaming:
        require_rocksdb(first, "keyed_map")
        if observe is not None:
            config = replace(config, observe=Observation(observe, route.grouping))
    elif ttl is not None and event:
        raise UsageError(f"ttl is {ttl!r}, but a DataFrame that isn't a stream has no clock; valid: window_length")
    routing = route.make_routing(first, feedback=first.isStreaming)
    schema = _make_result_schema(by, config)
    tuples = _list_tuples(frames, by, key, route, config)
    of_source = F.col("__source") if source is not None else None
    if not first.isStreaming:
        parcels = execute_at_once(
            reduce(DataFrame.unionByName, tuples), routing, config, of_source, cost=cost is not None
        )
    else:
        parcels = _execute_in_batches(
            tuples,
            routing,
            config,
            of_source,
            cost=cost is not None,
            key_record=_describe_key(by, key),
            lateness_ms=lateness_ms,
            idle_batches=idle_batches,
        )
    return _unpack_results(parcels, schema, config, by, routing.checkpoint)


def _execute_in_batches(
    streams: Sequence[DataFrame],
    routing: Routing,
    config: KeyedOperatorConfig,
    source: Column | None,
    *,
    cost: bool,
    key_record: Mapping[str, Any],
    lateness_ms: int,
    idle_batches: bool,
) -> DataFrame:
    """The results that workers and mergers make of the tuples of one stream or several, as parcels.

    ``key_record`` is what the checkpoint records of the key. The arguments before it are as for ``execute_at_once``,
    and the others as for ``keyed_map``.
    """
    spark, moving = streams[0].sparkSession, not config.split
    prepare_feedback(spark, routing, moving=moving)
    assert routing.checkpoint is not None
    location = Location.of(routing.checkpoint)
    partitions = count_partitions(spark, location)
    config = replace(config, mergers=min(config.workers, partitions), checkpoint=location, partitions=partitions)
    tokens = choose_tokens(config.workers, partitions)
    record = {"groupingType": routing.grouping, "seed": routing.seed, **key_record}
    new = find_changed_fields(config.work, Checkpoint(location).read_record())
    claim_checkpoint(spark, location, config.identity | record | new, (*new,), partitions, tokens)
    routing = add_feedback(
        spark, routing, moving=moving, planned=forget_transfers(routing.workers, StateTransfers(location))
    )
    if routing.plans is not None:
        config = replace(config, reports=routing.reports, routing=routing, monitors=WorkerMonitors(routing))
    routing = add_planner(streams[0], routing, "keyed_map")
    if config.observe is not None and config.split:  # keys that aren't split have one worker each
        streams = [observe_keys(tuples, F.col("key"), config.observe.name) for tuples in streams]
    packets = [
        route_to_workers(tuples, routing, config, tokens, source=source, cost=cost, heartbeats=not idle_batches)
        for tuples in streams
    ]
    if idle_batches:
        heartbeats = send_heartbeats(read_heartbeats(spark), tokens, F.lit(None).cast("timestamp"))
        packets[0] = packets[0].unionByName(heartbeats)
    start_python(spark)
    batch_time = make_batch_time(0, F.col("worker"))
    return apply_operators(packets, config, tokens, batch_time, lateness_ms if config.event else None)


def _resolve_key(df: DataFrame, key: Key, work: KeyedOperator) -> KeyColumns:
    """The key's columns, if the operator can read them."""
    require_operator(work)
    by = KeyColumns.of(df, key)
    if not by.plain and "key" in work.columns:
        raise UsageError(
            f"{type(work).__name__} reads the key, which is {by.schema_text}; valid for it: one column, string, binary "
            "or integer"
        )
    return by


def _unpack_results(
    parcels: DataFrame, schema: StructType, config: KeyedOperatorConfig, by: KeyColumns, checkpoint: Where | None
) -> DataFrame:
    """The results that are in parcels."""

    def columns(_kind: int, _sender: int, rows: pa.RecordBatch) -> list[pa.Array]:
        start = [rows.column(WINDOW).cast(pa.timestamp("ms", "UTC"))] if config.window_ms is not None else []
        return [rows.column(KEY), *start, *rows.columns[2:]]

    results = unpack_results(parcels, schema, columns, checkpoint)
    if by.plain:
        return results
    first, *others = (f"c{n}" for n in range(len(schema)))
    named = (F.col(name).alias(shown) for name, shown in zip(others, schema.names[1:], strict=True))
    return results.toDF(first, *others).select(*by.columns(F.col(first)), *named)


def _require_clear_window(options: Mapping[str, Any], window_length: Duration | None, ttl: Duration | None) -> None:
    """Refuse a ``window`` that could be the states' as well as the grouping's own parameter."""
    if "window" in options and window_length is None and ttl is None:
        raise UsageError(
            f"window is {options['window']!r}, which could be the grouping's own parameter or the states' lifetime; "
            "valid: window_length= for the states, and beside it, or beside ttl=, the grouping's window"
        )


def _describe_key(by: KeyColumns, key: Key) -> dict[str, Any]:
    """What the checkpoint's record says of the key: other columns, or other types, would be other keys."""
    parts = list_key_columns(key)
    # An expression has a name that another Spark may spell otherwise.
    named = {"keyColumns": parts} if all(isinstance(part, str) for part in parts) else {}
    return named if by.plain else named | {"keyType": by.schema_text}


def _check_several(route: RouteOptions, *, split: bool, observe: str | None) -> None:
    """Refuse what several streams can't have.

    Raises ``UsageError`` if the sources have numbers, which two streams might share, or an observation would count the
    keys of each stream.
    """
    if route.source is not None:
        raise UsageError("source is given, but sources of several streams might have one number; valid: no source")
    if observe is not None and split:
        raise UsageError(
            f"observe is {observe!r}, but {route.grouping} splits keys, whose number isn't known of several streams; "
            "valid: no observe, or a grouping that splits none"
        )


def _align_frames(given: DataFrame | Sequence[DataFrame]) -> list[DataFrame]:
    """The DataFrames with the same columns; one that a DataFrame lacks is null there.

    Raises ``UsageError`` if there is none, one is something else, or some are streams and others aren't.
    """
    frames: list[Any] = [*given] if isinstance(given, list | tuple) else [given]
    if not frames:
        raise UsageError("df has no DataFrame; valid: one or more")
    for frame in frames:
        require_frame(frame)
    if len({frame.isStreaming for frame in frames}) > 1:
        raise UsageError("some of the DataFrames are streams and others aren't; valid: all of one kind")
    if len(frames) == 1:
        return frames
    fields = {field.name: field.dataType for frame in reversed(frames) for field in frame.schema}
    return [
        frame.select(
            *map(quote_name, frame.columns),
            *(F.lit(None).cast(kind).alias(name) for name, kind in fields.items() if name not in frame.columns),
        )
        for frame in frames
    ]


def _list_tuples(
    frames: Sequence[DataFrame],
    by: KeyColumns,
    key: Key,
    route: RouteOptions,
    config: KeyedOperatorConfig,
) -> list[DataFrame]:
    """The tuples of each DataFrame, as ``_select_tuples`` has them. ``by`` is the key of the first one.

    Raises ``UsageError`` if a DataFrame's key is of another type than the first one's.
    """
    found, keys = [], [by, *(KeyColumns.of(frame, key) for frame in frames[1:])]
    for number, (frame, own) in enumerate(zip(frames, keys, strict=True)):
        if own.schema_text != by.schema_text:
            raise UsageError(
                f"the key is {by.schema_text} in the first DataFrame and {own.schema_text} in another; valid: one type"
            )
        columns, ordered = route.make_source_and_cost(frame), route.stabilise_order(frame)
        found.append(_select_tuples(ordered, own, config, route, columns, number))
    return found


def _select_tuples(
    df: DataFrame,
    by: KeyColumns,
    config: KeyedOperatorConfig,
    route: RouteOptions,
    routed: Mapping[str, Column],
    number: int,
) -> DataFrame:
    """The columns ``key``, ``time`` where tuples have one, those that the operator reads, and the routers' own.

    These are ``__time``, and those of ``routed`` with ``__`` before their names. By event time, rows without a time are
    left out, and so are those of a stream whose time is too far ahead of the batch's. ``number`` is that of the
    DataFrame.
    """
    missing = [name for name in config.columns if name not in (*df.columns, "time")]
    if missing:
        raise UsageError(
            f"{type(config.work).__name__} reads the column {missing[0]!r}, which there isn't"
            f"{suggest_names(missing[0], df.columns)}"
        )
    moment = as_column(route.time).cast("timestamp") if route.time is not None else F.current_timestamp()
    own = {"key": by.value, "__time": moment}
    if config.event:
        own["time"] = moment
        df = select_timely(df, moment, route.ahead_ms, config.observe, number)
    own |= {f"__{name}": column for name, column in routed.items()}
    # The user's columns by their places, because names may differ in case alone, or be those of our own.
    given = df.columns
    plain = df.select("*", *own.values()).toDF(*(f"c{n}" for n in range(len(given))), *own)
    read = (F.col(f"c{given.index(name)}").alias(name) for name in config.columns if name != "time")
    return plain.select(*own, *read)


def _make_result_schema(by: KeyColumns, config: KeyedOperatorConfig) -> StructType:
    """The key as states have it, the window where states live for one, and the columns that the operator publishes."""
    results = convert_schema_to_spark(config.work.results)
    own = convert_schema_to_spark(pa.schema([(by.fields[0].name if by.plain else KEY, config.key)]))
    window = [StructField("window", TimestampType())] if config.window_ms is not None else []
    fields = [*own.fields, *window, *results.fields]
    names = [field.name for field in (*by.fields, *fields[1:])]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(
            f"{type(config.work).__name__} publishes a column {twice[0]!r}, as the key's is called: rename the key's"
        )
    return StructType(fields)
