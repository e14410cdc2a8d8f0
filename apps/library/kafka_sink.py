"""``kafka_sink``: write a stream to Kafka so that readers of committed messages see each record once.

A batch's records are divided into parts by a hash of their keys. A task writes a part's records and the batch's number
in one transaction, and writes nothing if it finds the number there (``unskew.kafka.transactions``). So a task must get
the same records in each attempt of a batch. The partitions of the stream don't guarantee that: adaptive execution
merges them by size, and a shuffle without keys deals rows in turn. The hash does, as long as the keys stay the same.

It returns a writer instead of a function for ``foreachBatch``, because a batch's DataFrame doesn't show how its columns
are made, so that keys which differ from attempt to attempt couldn't be refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from unskew.apps.aggregator.exactly_once import (
    TransactionalPartitions,
    TransactionalWriteTask,
    limited_arrow_batches,
    load_or_create,
    make_pair_records,
)
from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.location import resolve_location
from unskew.apps.checkpoint.visibility import require_own_query
from unskew.errors import UsageError
from unskew.kafka.connection import Connection
from unskew.kafka.outbox import ANY_PARTITION
from unskew.kafka.topics import COMMITS_TOPIC, LONGEST_TOPIC, count_partitions, ensure_topic, missing_topic
from unskew.kafka.transactions import COMMITS, BatchId
from unskew.spark.compat import (
    explain_import,
    explain_missing_column,
    find_nondeterministic,
    get_type,
    is_remote,
    require_frame,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_OTHERWISE = 'Spark\'s own sink, writeStream.format("kafka"), needs no transactions, and writes at least once'
_BYTES = ("key", "value")
_TEXT = "string, binary"
# The columns that Kafka gets, in this order, and their types.
_VALID = {"key": _TEXT, "value": _TEXT, "partition": "int", "headers": "array<struct<key:string,value:binary>>"}
_MOST = 16  # parts by default: a process keeps a producer for each part that it has written


#: The writers of a batch's records, and one by which a call finds out whether the broker grants transactions.
_RECORDS, _TRIAL = "records", "trial"


@dataclass(frozen=True)
class KafkaBatchWriter:
    """What ``foreachBatch`` calls. The batch has the query's columns."""

    topic: str  #: The topic of the records.
    parts: TransactionalPartitions  #: The parts in which they are written.
    checkpoint: Checkpoint  #: The query's checkpoint.
    columns: tuple[str, ...]  #: Those that Kafka gets.
    by: tuple[str, ...]  #: Those that divide the records into parts: of each record the first that isn't null.

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a batch, whose number Spark gives.

        Raises
        ------
        UsageError
            The checkpoint is another query's.
        EnvironmentFault
            The broker refuses records or transactions, the checkpoint can't be read, or it was set back.

        """
        spark = batch.sparkSession
        require_own_query(spark, self.checkpoint.location)
        planned = BatchId(number, self.checkpoint.planned_ms(number))
        writing = TransactionalWriteTask(partial(self.parts.writer, _RECORDS), self.topic, planned, make_records)
        more = (name for name in self.columns if name not in _BYTES)
        chosen = batch.select(*map(self._bytes, _BYTES), *more)
        divided = chosen.repartition(self.parts.of(_RECORDS), F.coalesce(*self.by))
        with limited_arrow_batches(spark):
            divided.mapInArrow(explain_import(writing.__call__), "nothing int").collect()

    def _bytes(self, name: str) -> Column:
        column = F.col(name) if name in self.columns else F.lit(None)
        return column.cast("binary").alias(name)


def kafka_sink(
    df: DataFrame,
    topic: str,
    bootstrap_servers: str | None = None,
    checkpoint: str | None = None,
    *,
    parts: int | None = None,
    repeatable: bool = False,
    kafka_config: Path | str | None = None,
) -> "DataStreamWriter":
    """Write a stream to a Kafka topic exactly once, for consumers that read only committed messages.

    A batch that runs again, after a failure of the driver, an executor or a task, adds nothing to what it has written;
    Spark's own Kafka sink would write its records again. Keys (without keys, values) must be the same in each run of a
    batch. The topic ``TOPIC-unskew-commits-ID`` has the batches' numbers: keep it as long as the checkpoint.

    Parameters
    ----------
    df : DataFrame
        A stream, without Spark Connect, from a source that replays, such as Kafka or files. Its columns are ``value``,
        and optionally ``key`` (both string or binary), ``partition`` (int; null: by the key) and ``headers``
        (array<struct<key string, value binary>>); others are left out. If the stream comes from Kafka, drop its
        ``partition``, unless the records shall go to partitions of the same numbers.
    topic : str
        The topic, which must exist.
    bootstrap_servers : str, optional
        The brokers, HOST:PORT, several separated by commas. Default: ``$KAFKA_BOOTSTRAP_SERVERS``, or the broker that
        ``unskew kafka start`` has started.
    checkpoint : str
        The query's ``checkpointLocation``, which the driver must see. The writer gets it.
    parts : int, optional
        How many tasks ≥ 1 write a batch, each in its own transaction. It stays that of the checkpoint's first run.
        Default: the topic's number of partitions, at most 16.
    repeatable : bool
        Your word that keys are the same when a batch runs again, where the plan doesn't show it. Default: False.
    kafka_config : path, optional
        A file of Kafka settings, with lines NAME=VALUE in librdkafka's names. Executors need the files that it names.

    Returns
    -------
    DataStreamWriter
        Set a trigger, a name and an output mode, and start it. Don't set ``foreachBatch`` or ``checkpointLocation``.

    Raises
    ------
    UsageError
        An argument or a column is invalid, there is no such topic, the checkpoint has another number of ``parts``, or
        the keys depend on an expression such as ``rand()``, which may differ when a batch runs again.
    EnvironmentFault
        The broker can't be reached or refuses transactions, or the checkpoint can't be read or written. The query fails
        with it for the same reasons, and if Kafka refuses records. Started again, it goes on, unless a record is too
        large or names a partition that doesn't exist.

    Examples
    --------
    >>> events = spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS value")
    >>> writer = kafka_sink(events, "numbers", "localhost:9092", "checkpoint")  # doctest: +SKIP
    >>> query = writer.trigger(processingTime="1 second").start()  # doctest: +SKIP

    """
    require_frame(df)
    if not df.isStreaming:
        raise UsageError('kafka_sink takes a stream; valid for a static DataFrame: df.write.format("kafka")')
    if is_remote(df.sparkSession):
        raise UsageError("kafka_sink needs a session without Spark Connect, which runs foreachBatch at its server")
    if not re.fullmatch(rf"[\w.-]{{1,{LONGEST_TOPIC}}}", topic, re.ASCII) or topic in {".", ".."}:
        raise UsageError(f"the topic is {topic!r}; valid: 1 to {LONGEST_TOPIC} of the characters a-z, A-Z, 0-9, . _ -")
    if parts is not None and parts < 1:
        raise UsageError(f"parts is {parts}; valid: 1 or more")
    columns = select_columns(df)
    by = choose_dividing_columns(df, columns, repeatable=repeatable)
    location = resolve_location(df.sparkSession, checkpoint)
    connection = Connection.of(bootstrap_servers, None if kafka_config is None else Path(kafka_config))
    there = count_partitions(connection, topic)
    if there is None:
        raise missing_topic(connection, topic, ": make it first")
    made = load_or_create_writers(Checkpoint(location), connection, topic, parts, min(there, _MOST))
    require_allowed(made)
    sink = KafkaBatchWriter(topic, made, Checkpoint(location), columns, by)
    return df.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))


def load_or_create_writers(
    checkpoint: Checkpoint, connection: Connection, topic: str, given: int | None, default: int
) -> TransactionalPartitions:
    """The parts of a checkpoint, which notes their number (given, or the default) once for all.

    Raises ``UsageError`` if it has noted another number than the given one; ``EnvironmentFault`` if the checkpoint
    can't be read or written, or the broker can't be reached.
    """
    made = load_or_create(checkpoint, given or default, partial(_make_writers, connection, topic))
    there = made.of(_RECORDS)
    if given not in (None, there):
        raise UsageError(
            f"parts is {given}, but the checkpoint {checkpoint.location} has {there}, so that a batch that runs again "
            f"finds what it has written; valid: {there}, or another checkpoint"
        )
    return made


def require_allowed(made: TransactionalPartitions) -> None:
    """Make the topic with the numbers if it is missing, and check that the broker grants transactions.

    It disturbs no query. Raises ``UsageError`` if the topic has another number of partitions; ``EnvironmentFault`` if
    the broker refuses the topic or transactions, or can't be reached.
    """
    ensure_topic(made.connection, made.topic, made.partitions, COMMITS)
    trial = made.writer(_TRIAL)
    trial.fence()
    trial.abort()


def _make_writers(connection: Connection, topic: str, found: Mapping[str, Any]) -> TransactionalPartitions:
    roles = ((_RECORDS, found["parts"]), (_TRIAL, 1))
    return TransactionalPartitions(connection, COMMITS_TOPIC.format(topic=topic, id=found["id"]), roles, _OTHERWISE)


def select_columns(df: DataFrame) -> tuple[str, ...]:
    """The columns that Kafka gets.

    Raises ``UsageError`` if there is no ``value``, there are several columns of a name, or one has another type.
    """
    if "value" not in df.columns:
        raise explain_missing_column(df, "value")
    found = tuple(name for name in _VALID if name in df.columns)
    for name in found:
        if df.columns.count(name) > 1:
            raise UsageError(f"there are several columns {name!r}; valid: one")
        kind = get_type(df, name)
        if not _is_writable(name, kind):
            raise UsageError(f"column {name!r} is {kind.simpleString()}; valid: {_VALID[name]}")
    return found


def _is_writable(name: str, kind: DataType) -> bool:
    if name == "partition":
        return isinstance(kind, IntegerType)
    if name == "headers":
        of = kind.elementType if isinstance(kind, ArrayType) else None
        fields = [(field.name, type(field.dataType)) for field in of] if isinstance(of, StructType) else []
        return fields == [("key", StringType), ("value", BinaryType)]
    return isinstance(kind, StringType | BinaryType)


def choose_dividing_columns(df: DataFrame, columns: tuple[str, ...], *, repeatable: bool = False) -> tuple[str, ...]:
    """The columns that divide records into parts: of each record the first that isn't null.

    Raises ``UsageError`` if the plan shows that another attempt of a batch may make the first one otherwise, and nobody
    says that it won't.
    """
    first = "key" if "key" in columns else "value"
    found = [] if repeatable else find_nondeterministic(df.select(first))
    if found:
        raise UsageError(
            f"the {first} depends on {', '.join(found)}, which may differ when a batch runs again: records would be "
            f"lost or doubled; valid: a {first} that doesn't, or repeatable=True if it stays the same all the same"
        )
    return (first,) if first == "value" or find_nondeterministic(df.select("value")) else (first, "value")


def make_records(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The records of rows, as ``TransactionalWriter.put`` takes them."""
    names = rows.schema.names
    if len(names) == 2:
        return make_pair_records(rows)
    made = rows.to_pylist()
    for record in made:
        if record.get("partition", 0) is None:
            record["partition"] = ANY_PARTITION
        if record.get("headers") is not None:
            if any(header is not None and header["key"] is None for header in record["headers"]):
                raise UsageError("a record has a header whose key is null; Kafka takes none")
            record["headers"] = [(header["key"], header["value"]) for header in record["headers"] if header]
    return made
