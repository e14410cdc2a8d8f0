"""Work with a state per key in somebody else's stream.

>>> told = keyed_map(events, "user_id", 32, Sessions(gap=30), "D_CHOICES", path, time="at")  # doctest: +SKIP
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructField, StructType, TimestampType

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.place import place_of
from unskew.apps.keyed.bins import KEY
from unskew.apps.keyed.parcels import WINDOW, opened
from unskew.apps.keyed.plan import heartbeat, parcels, partitions_of, placed, places_of
from unskew.apps.keyed.program import MERGE_EVERY, Period, Program, described, lifetime, splits
from unskew.apps.topology.placement import column
from unskew.apps.topology.router import Routing
from unskew.apps.topology.windows import batch_time
from unskew.errors import UsageError
from unskew.works.interface import KeyedWork

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def keyed_map(
    df: DataFrame,
    key: str,
    workers: int,
    work: KeyedWork,
    grouping: str = "BOUNDED_LOAD",
    checkpoint: str = "",
    *,
    window: float | None = None,
    ttl: float | None = None,
    merge_every: str | None = None,
    time: str | Column | None = None,
    lateness: float = 10.0,
    source: str | Column | None = None,
    seed: int = 0,
    idle_batches: bool = False,
    **options: Any,
) -> DataFrame:
    """Run a work with a state per key over a stream: each tuple at the worker that a grouping chooses.

    Parameters
    ----------
    df : DataFrame
        Streaming, with the columns that the work reads.
    key : str
        The key's column: string, binary or integer; a row whose key is null is left out.
    workers : int
        W ≥ 1. The state has ``spark.sql.shuffle.partitions`` partitions, each of which costs every batch a commit:
        set it to W at most.
    work : KeyedWork
        What is done with the tuples (``unskew.works``).
    grouping : str
        A groupingType of ``unskew.grouping.registry.STANDALONE``; one that splits keys needs a work with a ``merge``.
    checkpoint : str
        The query's ``checkpointLocation``.
    window : float, optional
        Length of the tumbling window that states live for (s).
    ttl : float, optional
        How long states live after their key's last tuple (s); instead of a window. Default: what the work asks for.
    merge_every : str, optional
        How often the states of a key that several workers have meet: ``"30s"``, ``"5 batches"``. Default: when their
        window closes; without windows every 10 s. Results come then.
    time : str or Column, timestamp
        The tuples' own time. Default: the batch's time; nothing is ever late.
    lateness : float
        With ``time``: how late a tuple may be (s).
    source, seed, **options
        As for ``balance``.
    idle_batches : bool
        Let a batch come at every trigger, so that windows close and states expire while no tuples come. (Not with
        ``availableNow``.)

    Returns
    -------
    DataFrame
        The key, ``window`` (its start, where states live for windows), and the columns of ``work.results``.

    Raises
    ------
    ValueError
        A bad argument, a grouping that doesn't fit the work, or a checkpoint of another run: the message names it
        and what is valid.
    StateFault
        (In the tasks, as the query's failure.) The work failed, or gave what isn't its states' schema.

    """
    _require_stream(df, checkpoint)
    window_ms, ttl_ms = lifetime(work, window, ttl)
    split = splits(work, grouping, workers)
    if merge_every is not None and not split:
        raise UsageError(f"merge_every is {merge_every!r}, but {grouping.upper()} splits no keys: leave it out")
    every = merge_every or (MERGE_EVERY if window_ms is None else None)
    place = place_of(df.sparkSession, checkpoint)
    routing = Routing(grouping.upper(), workers, place, options, seed, streaming=True)
    routing.check()
    partitions = partitions_of(df.sparkSession, place)
    program = Program(
        work, _key_type(df, key), workers, split, min(workers, partitions), time is not None, window_ms, ttl_ms,
        Period.of(every) if split and every is not None else None,
    )  # fmt: skip
    Checkpoint(place).claim(identity(program) | {"groupingType": routing.grouping, "seed": seed})
    places = places_of(program, partitions)
    moment = batch_time(0, F.col("worker"))
    tuples = _tuples(df, key, program, time)
    rows = placed(tuples, routing, program, places, source=column(source) if source is not None else None,
                  beats=not idle_batches)  # fmt: skip
    if idle_batches:
        beats = df.sparkSession.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        rows = rows.unionByName(heartbeat(beats, places, F.lit(None).cast("timestamp")))
    told = parcels(rows, program, places, moment, lateness if program.event else None)
    return told.mapInArrow(*_unpacked(key, program))


def identity(program: Program) -> dict[str, Any]:
    """What a checkpoint of keyed states is bound to."""
    return {
        "work": type(program.work).__name__,
        "state": described(program.work.state),
        "parameters": dict(program.work.parameters),
        "keyType": str(program.key),
        "numWorkers": program.workers,
        "states": f"window {program.window_ms} ms" if program.window_ms else f"ttl {program.ttl_ms} ms",
        "statesMeet": program.lasting,
        "statesSplit": program.split,
    }


def _require_stream(df: DataFrame, checkpoint: str) -> None:
    if not df.isStreaming:
        raise UsageError("keyed_map keeps states from batch to batch: give it a stream (spark.readStream)")
    if not checkpoint:
        raise UsageError("checkpoint is empty; valid: the query's checkpointLocation")
    provider = df.sparkSession.conf.get(_PROVIDER, "")
    if provider != _ROCKSDB:
        raise UsageError(
            f"{_PROVIDER} is {provider!r}; valid for keyed_map: spark.conf.set({_PROVIDER!r}, {_ROCKSDB!r})"
        )


def _key_type(df: DataFrame, key: str) -> pa.DataType:
    if key not in df.columns:
        raise UsageError(f"there is no column {key!r}; valid: {', '.join(df.columns)}")
    kind = to_arrow_type(df.schema[key].dataType, timezone="UTC")
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_integer(kind)):
        raise UsageError(f"the key {key!r} is {df.schema[key].dataType.simpleString()}; valid: string, binary, integer")
    return kind


def _tuples(df: DataFrame, key: str, program: Program, time: str | Column | None) -> DataFrame:
    """``key``, ``time`` where tuples have one, ``__time`` for groupings, and what the work reads."""
    missing = [name for name in program.columns if name not in (*df.columns, "time")]
    if missing:
        raise UsageError(
            f"{type(program.work).__name__} reads the column {missing[0]!r}, which there isn't; valid: "
            f"{', '.join(df.columns)}"
        )
    chosen = [F.col(key).alias("key"), *(F.col(name) for name in program.columns if name != "time")]
    moment = column(time).cast("timestamp") if time is not None else F.current_timestamp()
    if program.event:
        chosen.append(moment.alias("time"))
    return df.select(*chosen, moment.alias("__time"))


def _unpacked(key: str, program: Program) -> tuple[Any, StructType]:
    """Parcels as rows: a function for ``mapInArrow``, and its schema."""
    windowed = program.window_ms is not None
    results = from_arrow_schema(program.work.results)
    own = from_arrow_schema(pa.schema([(key, program.key)]))
    fields = [*own.fields, *([StructField("window", TimestampType())] if windowed else []), *results.fields]
    names = [field.name for field in fields]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(
            f"{type(program.work).__name__} tells a column {twice[0]!r}, which the result has already: rename the key's"
        )
    schema = StructType(fields)
    arrow = to_arrow_schema(schema, timezone="UTC")

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("blob").to_pylist():
                told = opened(blob)
                start = told.column(WINDOW).cast(pa.timestamp("ms", "UTC"))
                columns = [told.column(KEY), *([start] if windowed else []), *told.columns[2:]]
                cast = [array.cast(kind) for array, kind in zip(columns, arrow.types, strict=True)]
                yield pa.RecordBatch.from_arrays(cast, schema=arrow)

    return rows, schema
