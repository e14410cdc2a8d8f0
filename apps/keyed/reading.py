"""What a run's workers hold, read from its checkpoint by Spark's state reader; the run may go on meanwhile."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.crew import Crew
from unskew.apps.checkpoint.place import Place, Where
from unskew.apps.keyed.bins import KEY, LAST
from unskew.apps.keyed.buckets import Directory, address
from unskew.apps.keyed.operators import AT_HOMES, AT_WORKERS
from unskew.apps.keyed.parcels import home_of
from unskew.apps.keyed.table import DIRECTORY
from unskew.apps.keyed.tokens import tokens
from unskew.errors import UsageError
from unskew.grouping.keys import hash_keys

_WORK = 0  # the table of the user's work; the other one has the counts
_ROWS = "at string, number int, window long, key string, bytes long, last long, state string"


class States:
    """The states of a checkpoint, as of its last batch.

    Parameters
    ----------
    spark : SparkSession
        What reads.
    where : str or Place
        The checkpoint.

    Raises
    ------
    UsageError
        There are no states.

    """

    def __init__(self, spark: SparkSession, where: Where) -> None:
        checkpoint, location = Checkpoint(where), Place.of(where).address
        said, partitions = checkpoint.claimed(), checkpoint.partitions()
        if "state" not in said or partitions is None:
            raise UsageError(f"the checkpoint {location} has no states; valid: one of a run with a keyed work")
        _ = spark.streams.active  # starts what a state store looks for; without it each one logs a stack trace
        self.work: str = said["work"]
        self.workers: int = said["numWorkers"]
        crew = Crew.of(said, self.workers)
        self._homes = min(crew.first, partitions)
        self._numbers = {token: number for number, token in enumerate(tokens(crew.most, partitions))}
        self._blobs = [
            (name, self._read(spark, location, operator, name)) for name, operator in _operators(spark, location)
        ]
        #: (where, number) → what is known of its buckets.
        self.directories = {
            (name, self._numbers[row["token"]]): Directory.read(bytes(row["blob"]))
            for name, blobs in self._blobs
            for row in blobs.where(F.col("bucket") == DIRECTORY).collect()
        }

    @staticmethod
    def _read(spark: SparkSession, location: str, operator: int, name: str) -> DataFrame:
        found = (
            spark.read.format("statestore")
            .option("operatorId", operator)
            .option("stateVarName", name)
            .load(location)
        )  # fmt: skip
        place = F.col("user_map_key")
        chosen = found.select("key.token", place["window"].alias("window"), place["bucket"].alias("bucket"),
                              F.col("user_map_value.blob").alias("blob"), place["table"].alias("table"))  # fmt: skip
        return chosen.where(F.col("table") == _WORK)

    def rows(self, *, full: bool = False, key: str | None = None) -> DataFrame:
        """A row a state: at (``workers``, ``homes``), number of it, window, key, bytes, last tuple (ms), state (JSON).

        Parameters
        ----------
        full : bool
            Whether the state itself is wanted.
        key : str, optional
            Of this key alone: only the buckets that it can be in are read.

        """
        parts = []
        for name, blobs in self._blobs:
            places = self._places(name, key)
            wanted = F.col("bucket") >= 0
            if places is not None:
                wanted = F.lit(False)
                for token, window, bucket in places:
                    at = (F.col("token") == token) & (F.col("window") == window) & (F.col("bucket") == bucket)
                    wanted |= at
            schemas = {number: directory.schema for (of, number), directory in self.directories.items() if of == name}
            reader = _rows(name, self._numbers, schemas, full=full, key=key)
            parts.append(blobs.where(wanted).select("token", "window", "blob").mapInArrow(reader, _ROWS))
        together = parts[0]
        for part in parts[1:]:
            together = together.unionByName(part)
        return together

    def _places(self, name: str, key: str | None) -> list[tuple[int, int, int]] | None:
        """(token, window, bucket) that a key may be in; None: any."""
        if key is None:
            return None
        places = []
        by_number = {number: token for token, number in self._numbers.items()}
        for (of, number), directory in self.directories.items():
            keys = _as_key(key, directory.schema.field(KEY).type)
            if of != name or (name == AT_HOMES and home_of(keys, self._homes)[0] != number):
                continue
            for window, shelf in directory.shelves.items():
                bucket = int(address(hash_keys(keys), len(shelf))[0])
                if shelf.keys[bucket]:
                    places.append((by_number[number], window, bucket))
        return places


def _as_key(key: str, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([key]).cast(kind)
    except pa.ArrowInvalid:
        raise UsageError(f"the key is {key!r}; valid: {kind}") from None


def _operators(spark: SparkSession, location: str) -> list[tuple[str, int]]:
    """The name of the map state of each operator that has one of ours, and the operator's number."""
    rows = spark.read.format("state-metadata").load(location).select("operatorId", "operatorProperties").distinct()
    found = []
    for row in rows.collect():
        properties = row["operatorProperties"] or ""
        found += [(name, row["operatorId"]) for name in (AT_WORKERS, AT_HOMES) if f'"{name}"' in properties]
    return sorted(set(found), reverse=True)


def _rows(name: str, numbers: dict[int, int], schemas: dict[int, pa.Schema], *, full: bool, key: str | None) -> Any:
    """Blobs as rows of states: a function for ``mapInArrow``."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for token, window, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number = numbers[token]
                states = pa.ipc.read_record_batch(pa.py_buffer(blob), schemas[number])
                if key is not None:
                    own = _as_key(key, states.schema.field(KEY).type)[0].as_py()
                    states = states.filter(pa.array([each == own for each in states.column(KEY).to_pylist()]))
                n = states.num_rows
                plain = states.drop_columns([KEY, LAST])
                sizes = [plain.slice(row, 1).nbytes for row in range(n)]
                said = [_text(row) for row in plain.to_pylist()] if full else [None] * n
                keys = [_text(each) for each in states.column(KEY).to_pylist()]
                columns = [pa.array([name] * n, pa.string()), pa.array(np.full(n, number, np.int32)),
                           pa.array(np.full(n, window)), pa.array(keys, pa.string()), pa.array(sizes, pa.int64()),
                           states.column(LAST), pa.array(said, pa.string())]  # fmt: skip
                names = ["at", "number", "window", "key", "bytes", "last", "state"]
                yield pa.RecordBatch.from_arrays(columns, names)

    return rows


def _text(value: Any) -> str:
    """A key, or a state, for people to read."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return orjson.dumps(value, default=_text, option=orjson.OPT_NON_STR_KEYS).decode()
