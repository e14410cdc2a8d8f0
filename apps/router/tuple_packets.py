"""Packets: tuples of one source for one worker, as one row that is sent to the worker's partition.

A Spark row costs some hundred nanoseconds each time it passes between the JVM and Python, and more in a shuffle. Tuples
that go to a Python worker anyway can avoid this cost. So the router cuts its Arrow batches by worker, and sends each
part through the shuffle as one row of (worker, Arrow IPC bytes).
"""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegralType, NumericType, TimestampNTZType, TimestampType

from unskew.apps.router.router import Part, Routing
from unskew.errors import UsageError
from unskew.grouping import get_grouping
from unskew.grouping.arguments import MOST_COST
from unskew.spark.compat import explain_import, get_type, map_in_arrow, place_rows
from unskew.spark.micro_batches import get_partition, to_milliseconds

if TYPE_CHECKING:  # `balance` needs nothing that reads messages
    from unskew.apps.splitter.json_fields import JsonFields

SCHEMA = pa.schema([("worker", pa.int32()), ("packet", pa.binary())])
DDL = "worker int, packet binary"

# Tuples gathered before they are cut: so many that a packet's fixed cost (about 20 µs) vanishes, so few that memory
# stays in megabytes.
_ROWS = 65_536
_ROWS_A_WORKER = 512
_MAX_ROWS = 1_048_576
_MAX_BYTES = 64 << 20


class Packer:
    """Gathers routed batches and cuts them into packets. Each worker's tuples keep their order."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._limit = min(max(_ROWS, workers * _ROWS_A_WORKER), _MAX_ROWS)
        self._batches: list[pa.RecordBatch] = []
        self._routes: list[NDArray[np.int32]] = []
        self._rows = self._bytes = 0

    def add(self, tuples: pa.RecordBatch, workers: NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
        """Add n tuples and their workers (int32[n]). Yield packets if enough tuples are gathered."""
        self._batches.append(tuples)
        self._routes.append(workers)
        self._rows += len(workers)
        self._bytes += _count_plain_bytes(tuples)
        if self._rows >= self._limit or self._bytes >= _MAX_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield packets of the tuples that are left, at most one for each worker."""
        if not self._rows:
            return
        table = pa.Table.from_batches(self._batches).unify_dictionaries().combine_chunks()
        routes = np.concatenate(self._routes)
        self._batches, self._routes, self._rows, self._bytes = [], [], 0, 0
        yield cut_packets(table.to_batches()[0], routes, self.workers)


def cut_packets(tuples: pa.RecordBatch, workers: NDArray[np.int32], count: int) -> pa.RecordBatch:
    """Cut n tuples by worker: the result is a batch of ``SCHEMA``, with a row for each worker that has tuples."""
    narrow = workers.astype(np.int16) if count <= np.iinfo(np.int16).max else workers  # a radix sort, where it fits
    order = np.argsort(narrow, kind="stable")
    bounds = np.searchsorted(narrow[order], np.arange(count + 1))
    ordered = _decode_large_dictionaries(tuples, count).take(pa.array(order))
    named = np.flatnonzero(np.diff(bounds))
    packets = [_write_packet(ordered.slice(bounds[w], bounds[w + 1] - bounds[w])) for w in named]
    return pa.record_batch([pa.array(named, pa.int32()), pa.array(packets, pa.binary())], schema=SCHEMA)


def read_packet(packet: pa.BinaryScalar) -> pa.RecordBatch:
    """The tuples of a packet."""
    with pa.ipc.open_stream(packet.as_buffer()) as reader:
        return reader.read_next_batch()


def decode_dictionaries(tuples: pa.RecordBatch) -> pa.RecordBatch:
    """The tuples, with no column dictionary-encoded. It costs 10 µs, and 1 ns (integers) to 6 ns (text) a tuple."""
    for i, column in enumerate(tuples.columns):
        if isinstance(column, pa.DictionaryArray):
            tuples = tuples.set_column(i, tuples.schema.names[i], column.dictionary_decode())
    return tuples


def _count_plain_bytes(tuples: pa.RecordBatch) -> int:
    """The bytes of tuples when no dictionary saves any, as in packets."""
    return sum(
        _count_decoded_bytes(column) if pa.types.is_dictionary(column.type) else column.nbytes
        for column in tuples.columns
    )


def _count_decoded_bytes(column: pa.DictionaryArray) -> int:
    """The bytes of a column without its dictionary."""
    values = column.dictionary
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return len(column) * (values.nbytes // max(1, len(values)))
    lengths = pc.call_function("binary_length", [values]).to_numpy(zero_copy_only=False)
    codes = column.indices.drop_null().to_numpy(zero_copy_only=False)
    return int(lengths[codes].sum(dtype=np.int64)) + 4 * len(column)


def _decode_large_dictionaries(tuples: pa.RecordBatch, count: int) -> pa.RecordBatch:
    """Decode the dictionaries that are larger than what they save: every packet has a copy of them."""
    for i, column in enumerate(tuples.columns):
        if pa.types.is_dictionary(column.type) and column.dictionary.nbytes * count > _count_decoded_bytes(column):
            tuples = tuples.set_column(i, tuples.schema.names[i], column.dictionary_decode())
    return tuples


def _write_packet(tuples: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tuples.schema) as writer:
        writer.write_batch(tuples)
    return sink.getvalue().to_pybytes()


def make_column_router(routing: Routing, given: Sequence[str]) -> Any:
    """The router as a function for ``unskew.spark.compat.apply_to_arrays``: arrays → worker.

    ``given`` names the arrays: ``key``, and those of ``source``, ``time`` and ``cost`` that there are.
    """

    def workers(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        first = next(batches, None)
        if first is None:
            return
        filled = "source" in given and len(first[0])
        router = routing.open(first[given.index("source")][0].as_py() if filled else get_partition())

        def parts() -> Iterator[Part]:
            for arrays in chain([first], batches):
                named = dict(zip(given, arrays, strict=True))
                times = to_milliseconds(named["time"]) if "time" in named else None
                costs = named["cost"].to_numpy(zero_copy_only=False) if "cost" in named else None
                yield None, named["key"], times, costs

        for _, routes in router.through(parts()):
            yield pa.array(routes, pa.int32())
        router.close()

    return workers


def _split_by_source(batches: Iterator[pa.RecordBatch], source: str | None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(source, its tuples) for each stretch of tuples of one source. Without a column, all are of source 0."""
    for batch in batches:
        if not batch.num_rows:
            continue
        sources = np.zeros(batch.num_rows) if source is None else batch.column(source).to_numpy(zero_copy_only=False)
        bounds = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist(), batch.num_rows]
        for first, stop in pairwise(bounds):
            yield int(sources[first]), batch.slice(first, stop - first)


def make_packet_router(
    routing: Routing,
    key: str,
    source: str | None,
    time_column: str | None,
    carry: list[str],
    fields: "JsonFields | None" = None,
    cost: str | None = None,
    *,
    messages: bool = False,
) -> Any:
    """The router as a function for ``DataFrame.mapInArrow``: record batches → packets.

    Packets carry the columns ``carry``. Null is a separate key. But of ``messages`` one without a key isn't routed,
    and the report counts it as rejected. With ``fields``, key and count are read from the messages first. A task may
    have the messages of several sources, one source after the other. Rows that aren't messages are of one source.
    """

    def packets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, tuples in groupby(_split_by_source(batches, source if messages else None), itemgetter(0)):
            yield from packets_of_source(batch for _, batch in tuples)

    def packets_of_source(filled: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(filled)
        router = routing.open(first.column(source)[0].as_py() if source else get_partition())
        packer, rejected = Packer(router.workers), 0

        def parts() -> Iterator[Part]:
            nonlocal rejected
            for batch in chain([first], filled):
                read = fields(batch) if fields else batch
                missing = read.column(key).null_count if messages else 0
                tuples = read.filter(read.column(key).is_valid()) if missing else read
                rejected += missing
                if not tuples.num_rows:
                    continue
                keys = tuples.column(key).dictionary_encode()
                columns = [keys if name == key else tuples.column(name) for name in carry]
                times = to_milliseconds(tuples.column(time_column)) if time_column else None
                costs = tuples.column(cost).to_numpy(zero_copy_only=False) if cost else None
                yield pa.record_batch(columns, carry), keys, times, costs

        for tuples, workers in router.through(parts()):
            yield from packer.add(tuples, workers)
        yield from packer.flush()
        router.close(rejected=rejected)

    return packets


def send_packets(
    df: DataFrame,
    routing: Routing,
    key: str,
    carry: list[str],
    *,
    source: str | Column | None = None,
    time: str | Column | None = None,
    cost: Column | None = None,
    tasks: int | None = None,
    fields: "JsonFields | None" = None,
    messages: bool = False,
) -> DataFrame:
    """Packets of the columns ``carry``, each in the partition of its worker.

    With ``tasks`` there are only that many partitions, and worker *w* shares partition *w* mod ``tasks`` with others.
    Rows without a key are rejected if they are ``messages``. With ``fields`` the router first reads the keys from them.
    ``cost`` is as ``make_cost_column`` gives it.
    """
    chosen = df
    source_column = time_column = cost_name = None
    if source is not None:
        source_column = "__source"
        chosen = chosen.withColumn(source_column, as_column(source))
    if get_grouping(routing.grouping).uses_time:
        time_column = "time" if reads_time(fields) else "__time"
        if time_column == "__time":
            chosen = chosen.withColumn(time_column, F.current_timestamp() if time is None else as_column(time))
    if cost is not None:
        cost_name = "__cost"
        chosen = chosen.withColumn(cost_name, cost)
    own = [c for c in (source_column, time_column, cost_name) if c]
    needed = dict.fromkeys([key, *carry, *own] if fields is None else fields.unread([*carry, *own]))
    partitions = min(tasks or routing.workers, routing.workers)
    route = make_packet_router(routing, key, source_column, time_column, carry, fields, cost_name, messages=messages)
    made = map_in_arrow(chosen, list(needed), explain_import(route), DDL)
    return place_rows(made, partitions, F.col("worker") % partitions)


def reads_time(fields: "JsonFields | None") -> bool:
    """Whether the router reads the tuples' time from the messages."""
    return fields is not None and "time" in fields.gives


def as_column(of: str | Column) -> Column:
    """A column, given by its name or as it is."""
    return F.col(of) if isinstance(of, str) else of


def make_cost_column(df: DataFrame, cost: str | Column) -> Column:
    """The cost of each row, double: from 0 to ``MOST_COST``. One that isn't so counts as 0.

    Raises ``UsageError`` if there is no such column, or it isn't a number.
    """
    value = _require_type(df, "cost", cost, "a number", NumericType).cast("double")
    return F.when((value >= 0) & (value <= F.lit(MOST_COST)), value).otherwise(F.lit(0.0))


def make_source_column(df: DataFrame, source: str | Column) -> Column:
    """The source of each row, a whole number.

    Raises ``UsageError`` if there is no such column, or it is of another type.
    """
    return _require_type(df, "source", source, "an integer", IntegralType)


def make_time_column(df: DataFrame, time: str | Column) -> Column:
    """The time of each row, for schemes that use it.

    Raises ``UsageError`` if there is no such column, or it isn't a timestamp.
    """
    return _require_type(df, "time", time, "a timestamp", TimestampType, TimestampNTZType)


def _require_type(df: DataFrame, what: str, of: str | Column, valid: str, *types: type[DataType]) -> Column:
    kind = get_type(df, of)
    if not isinstance(kind, types):
        raise UsageError(f"{what} is {kind.simpleString()}; valid: {valid}")
    return as_column(of)
