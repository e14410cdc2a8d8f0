"""Workers of ``balanced_map`` that report their usage in a separate row."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from unskew.apps.metrics.balance_observation import Observation, WorkerLoad, observe_workers
from unskew.apps.router import tuple_packets
from unskew.grouping.keys import Keys, encode_keys, keys_from_hashes
from unskew.spark.compat import convert_schema_to_arrow

Batches = Iterator[pa.RecordBatch]

_WORKER, _REPORT = "__unskew_worker", "__unskew_report"


class WorkerUsage:
    """What a worker has had of a batch.

    Its number (``worker``) is −1 if it had no tuples, so that it doesn't know it. Its time at work (``busy``, s) is
    without the time that it waits for Spark to bring packets.
    """

    def __init__(self) -> None:
        self.worker = -1
        self.busy = 0.0
        self._codes: list[NDArray[np.int32]] = []
        self._hashes: list[NDArray[np.uint64]] = []
        self._distinct = 0

    def add(self, keys: pa.Array) -> None:
        """Note the key of each tuple of a packet. The packet itself isn't held."""
        found = encode_keys(keys)
        self._codes.append(found.codes + np.int32(self._distinct))
        self._hashes.append(found.hashes)
        self._distinct += len(found.hashes)

    @property
    def keys(self) -> Keys:
        """The keys of all tuples that it had, by their hashes."""
        if not self._codes:
            return keys_from_hashes(np.empty(0, np.uint64))
        hashes, position = np.unique(np.concatenate(self._hashes), return_inverse=True)
        return Keys(position[np.concatenate(self._codes)].astype(np.int32), hashes, pa.nulls(len(hashes)))


def map_at_workers(
    arrived: DataFrame,
    work: Callable[[Batches], Batches],
    schema: StructType | str,
    names: list[str],
    key: str,
    workers: int,
    observation: Observation | None,
    tell: Callable[[WorkerUsage], None] | None,
) -> DataFrame:
    """What ``work`` makes of packets at workers that report what they had.

    Each packet has arrived in the partition of its worker. ``work`` and ``schema`` are those of ``balanced_map``;
    ``work`` gets the columns of these ``names``. Packets carry the key's column, too. A worker's task calls ``tell`` at
    its end, and Spark may observe the same in an observation.
    """
    kinds = parse_result_type(arrived.sparkSession, schema)
    results = StructType([StructField(each.name, each.dataType) for each in kinds])
    reported = StructType([*results, StructField(_WORKER, IntegerType()), StructField(_REPORT, StringType())])
    empty = convert_schema_to_arrow(results)

    def run(batches: Batches) -> Batches:
        worked = WorkerUsage()
        made = track_usage(work, batches, names, key, worked)
        yield from made if observation is None else append_report(made, worked, empty)
        if tell is not None and worked.worker >= 0:
            tell(worked)

    if observation is None:
        return arrived.mapInArrow(run, schema)
    rows = observe_workers(arrived.mapInArrow(run, reported), F.col(_WORKER), F.col(_REPORT), workers, observation)
    return rows.where(F.col(_REPORT).isNull()).drop(_WORKER, _REPORT)


def parse_result_type(spark: SparkSession, schema: StructType | str) -> StructType:
    """What a user's function yields, as Spark understands it. Spark's own error says what it doesn't."""
    return schema if isinstance(schema, StructType) else spark.createDataFrame([], schema).schema


def track_usage(
    work: Callable[[Batches], Batches], arrived: Batches, names: list[str], key: str, worked: WorkerUsage
) -> Batches:
    """Run the user's function over a worker's packets (of ``packets.SCHEMA``), and note what the worker has had.

    Of a worker without tuples there are no packets. ``worked`` is complete when the last batch has been taken.
    """

    def fetch() -> Batches:
        while True:
            started = time.perf_counter()
            batch = next(arrived, None)
            worked.busy -= time.perf_counter() - started  # `work` asks for it within its own time
            if batch is None:
                return
            yield batch

    def unpack() -> Batches:
        for batch in fetch():
            for worker, packet in zip(batch.column("worker").to_pylist(), batch.column("packet"), strict=True):
                part = tuple_packets.read_packet(packet)
                worked.worker = worker
                worked.add(part.column(key))
                yield tuple_packets.decode_dictionaries(part.select(names))

    yielded = iter(work(unpack()))
    while True:
        started = time.perf_counter()
        batch = next(yielded, None)
        worked.busy += time.perf_counter() - started
        if batch is None:
            return
        yield batch


def append_report(results: Batches, worked: WorkerUsage, schema: pa.Schema) -> Batches:
    """Give results two columns more, and a last row with the worker's report. ``schema`` is theirs if there are none.

    A worker without tuples has no report.
    """
    for batch in results:
        schema, n = batch.schema, batch.num_rows
        yield _widen_batch(batch.columns, schema, pa.nulls(n, pa.int32()), pa.nulls(n, pa.string()))
    if worked.worker >= 0:
        keys = worked.keys
        load = WorkerLoad(len(keys), len(np.unique(keys.codes)), worked.busy)
        none = [pa.nulls(1, each.type) for each in schema]
        yield _widen_batch(none, schema, pa.array([worked.worker], pa.int32()), pa.array([load.text()]))


def _widen_batch(columns: Sequence[pa.Array], schema: pa.Schema, worker: pa.Array, report: pa.Array) -> pa.RecordBatch:
    own = [pa.field(_WORKER, worker.type), pa.field(_REPORT, report.type)]
    nullable = [each.with_nullable(True) for each in schema]
    return pa.RecordBatch.from_arrays([*columns, worker, report], schema=pa.schema([*nullable, *own]))
