"""Reads a run's states from its checkpoint with Spark's state reader, even while it runs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Checkpoint, WorkerHistory
from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.worker.stateful.operator import AT_MERGERS, AT_WORKERS
from unskew.apps.worker.stateful.operator_output import choose_mergers
from unskew.apps.worker.stateful.store import KEY, LAST, Directory, choose_buckets
from unskew.apps.worker.stateful.table import DIRECTORY
from unskew.errors import UsageError
from unskew.grouping.keys import hash_keys
from unskew.spark.compat import choose_tokens

_WORK = 0  # the table of the user's operator; another table has the counts
#: Spark's operators with states.
WORKER, MERGER = "worker", "merger"
_ROLES = {AT_WORKERS: WORKER, AT_MERGERS: MERGER}
_ROWS = "operator string, number int, window long, key string, bytes long, last long, state string"


class States:
    """The states of a checkpoint, as of its last batch. Raises ``UsageError`` if the checkpoint has none."""

    def __init__(self, spark: SparkSession, where: Where) -> None:
        checkpoint, location = Checkpoint(where), Location.of(where).address
        record, partitions = checkpoint.read_record(), checkpoint.partitions()
        if "state" not in record or partitions is None:
            raise UsageError(f"the checkpoint {location} has no states; valid: one of a run with a keyed operator")
        # Starts the coordinator of state stores, without which each store logs a stack trace.
        _ = spark.streams.active
        self.work: str = record["work"]
        self.workers: int = record["numWorkers"]
        history = WorkerHistory.of(record, self.workers)
        self._mergers = min(history.first, partitions)
        self._numbers = {token: number for number, token in enumerate(choose_tokens(history.most, partitions))}
        self._blobs = [
            (name, self._read(spark, location, operator, name)) for name, operator in _find_operators(spark, location)
        ]
        #: (``worker`` or ``merger``, number) → the directory of its buckets.
        self.directories = {
            (_ROLES[name], self._numbers[row["token"]]): Directory.read(bytes(row["blob"]))
            for name, blobs in self._blobs
            for row in blobs.where(F.col("bucket") == DIRECTORY).collect()
        }

    @staticmethod
    def _read(spark: SparkSession, location: str, operator: int, name: str) -> DataFrame:
        reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
        address, blob = F.col("user_map_key"), F.col("user_map_value.blob").alias("blob")
        columns = (address[each].alias(each) for each in ("window", "bucket", "table"))
        return reader.load(location).select("key.token", *columns, blob).where(F.col("table") == _WORK)

    def rows(self, *, full: bool = False, key: str | None = None) -> DataFrame:
        """One row per state, or only of the states of a key, from the buckets that may have it.

        The columns are Spark's operator (``worker``, ``merger``), its number, window, key, bytes, last tuple (ms), and
        the state (JSON), which is read if ``full``.
        """
        parts = []
        for name, blobs in self._blobs:
            role = _ROLES[name]
            buckets = self._buckets_of(role, key)
            wanted = F.col("bucket") >= 0
            if buckets is not None:
                wanted = F.lit(False)
                for token, window, bucket in buckets:
                    wanted |= (F.col("token") == token) & (F.col("window") == window) & (F.col("bucket") == bucket)
            schemas = {number: directory.schema for (of, number), directory in self.directories.items() if of == role}
            reader = _decode_states(role, self._numbers, schemas, full=full, key=key)
            parts.append(blobs.where(wanted).select("token", "window", "blob").mapInArrow(reader, _ROWS))
        together = parts[0]
        for part in parts[1:]:
            together = together.unionByName(part)
        return together

    def _buckets_of(self, role: str, key: str | None) -> list[tuple[int, int, int]] | None:
        """The (token, window, bucket) that may have a key; None: all."""
        if key is None:
            return None
        buckets = []
        by_number = {number: token for token, number in self._numbers.items()}
        for (of, number), directory in self.directories.items():
            keys = _parse_key(key, directory.schema.field(KEY).type)
            if of != role or (role == MERGER and choose_mergers(keys, self._mergers)[0] != number):
                continue
            for window, index in directory.indexes.items():
                bucket = int(choose_buckets(hash_keys(keys), len(index))[0])
                if index.keys[bucket]:
                    buckets.append((by_number[number], window, bucket))
        return buckets


def _parse_key(key: str, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([key]).cast(kind)
    except pa.ArrowInvalid:
        raise UsageError(f"the key is {key!r}; valid: {kind}") from None


def _find_operators(spark: SparkSession, location: str) -> list[tuple[str, int]]:
    """The map state's name and the number of each of Spark's operators that has our state."""
    rows = spark.read.format("state-metadata").load(location).select("operatorId", "operatorProperties").distinct()
    found = []
    for row in rows.collect():
        properties = row["operatorProperties"] or ""
        found += [(name, row["operatorId"]) for name in (AT_WORKERS, AT_MERGERS) if f'"{name}"' in properties]
    return sorted(set(found), reverse=True)


def _decode_states(
    role: str, numbers: dict[int, int], schemas: dict[int, pa.Schema], *, full: bool, key: str | None
) -> Any:
    """Blobs → rows of states: a function for ``mapInArrow``."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for token, window, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number = numbers[token]
                states = pa.ipc.read_record_batch(pa.py_buffer(blob), schemas[number])
                if key is not None:
                    own = _parse_key(key, states.schema.field(KEY).type)[0].as_py()
                    states = states.filter(pa.array([each == own for each in states.column(KEY).to_pylist()]))
                n = states.num_rows
                plain = states.drop_columns([KEY, LAST])
                sizes = pa.array([plain.slice(row, 1).nbytes for row in range(n)], pa.int64())
                texts = pa.array([_format_value(row) for row in plain.to_pylist()] if full else [None] * n, pa.string())
                keys = pa.array([_format_value(each) for each in states.column(KEY).to_pylist()], pa.string())
                at = pa.array(np.full(n, number, np.int32)), pa.array(np.full(n, window))
                columns = [pa.array([role] * n, pa.string()), *at, keys, sizes, states.column(LAST), texts]
                names = ["operator", "number", "window", "key", "bytes", "last", "state"]
                yield pa.RecordBatch.from_arrays(columns, names)

    return rows


def _format_value(value: Any) -> str:
    """A key or a state in readable form."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return orjson.dumps(value, default=_encode_value, option=orjson.OPT_NON_STR_KEYS).decode()


def _encode_value(value: Any) -> str:
    """Encode what JSON has no type for: a binary, a decimal, a duration, or a time in nanoseconds."""
    return _format_value(value) if isinstance(value, bytes) else str(value)
