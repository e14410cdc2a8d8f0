"""``kafka_sink``: a query of one's own writes to Kafka, and readers of committed messages see each record once.

A batch's records are divided into parts. A task writes a part's records and the batch's number in one transaction, and
writes nothing if it finds the number there (``unskew.kafka.transactions``). So it must get the same records in
each attempt of a batch. The partitions of the stream itself give no such promise: adaptive execution merges them by
their sizes, and a shuffle without keys deals rows by turns. So the records are divided by a hash of their key into a
number of parts that the checkpoint notes. Values may differ from attempt to attempt then, but keys may not. Records
without a key are divided by their values, unless these may differ.

It returns a writer, and is no function for ``foreachBatch``: a batch's DataFrame doesn't show any more how its columns
are made, so that a key that differs from attempt to attempt couldn't be refused.
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
    """What ``foreachBatch`` calls. The batch has the query's columns.

    Attributes
    ----------
    topic : str
        The topic of the records.
    parts : TransactionalPartitions
        The parts in which they are written.
    checkpoint : Checkpoint
        The query's checkpoint.
    columns : tuple of str
        Those that Kafka gets.
    by : tuple of str
        Those that divide the records into parts: of each record the first that isn't null.

    """

    topic: str
    parts: TransactionalPartitions
    checkpoint: Checkpoint
    columns: tuple[str, ...]
    by: tuple[str, ...]

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
    """Write a stream to a Kafka topic exactly once, for consumers that read committed messages only.

    A batch that runs again, after a failure of the driver, of an executor or of a task, adds nothing to what it has
    written. Spark's own Kafka sink writes it once more.

    Parameters
    ----------
    df : DataFrame
        A stream, of a session without Spark Connect. Its columns are those of Spark's Kafka sink: ``value`` (string or
        binary), and if it has them ``key`` (string or binary), ``partition`` (int; null: by the key) and ``headers``
        (array<struct<key string, value binary>>). Other columns are left out, ``topic`` too. A stream that comes from
        Kafka has a column ``partition``: drop it, unless its records shall go to partitions of the same numbers. The
        source must replay, as Kafka and files do, and sockets don't.
    topic : str
        The topic, which must exist.
    bootstrap_servers : str, optional
        The brokers, HOST:PORT, several separated by commas. Default: ``$KAFKA_BOOTSTRAP_SERVERS``, or the broker that
        ``unskew kafka start`` has started.
    checkpoint : str
        The query's ``checkpointLocation``, which the writer gets. This process must see it.
    parts : int, optional
        How many tasks write a batch, each in a transaction of its own, at least 1. A checkpoint keeps the number of its
        first run. Default: as many as the topic has partitions, 16 at most.
    repeatable : bool
        Your word that a batch that runs again has the same keys, where the plan doesn't show it.
    kafka_config : path, optional
        A file with Kafka's settings: lines NAME=VALUE with librdkafka's names. Executors get what is in it. Files that
        it names must be there for them, too.

    Returns
    -------
    DataStreamWriter
        Give it a trigger, a name and an output mode as you like, and start it. Leave its ``foreachBatch`` and its
        ``checkpointLocation`` alone.

    Raises
    ------
    UsageError
        An argument or a column is invalid, there is no such topic, or the checkpoint has another number of parts. Or
        keys (without a column ``key``: values) depend on ``rand()``, ``uuid()``, ``collect_list``, a UDF that is marked
        as non-deterministic, the workers of PLANNED without a checkpoint, or another expression that a batch that runs
        again may evaluate otherwise.
    EnvironmentFault
        The broker refuses transactions, or can't be reached. Or the checkpoint can't be read or written.
        The query fails with it for the same reasons, and if Kafka refuses records; Spark wraps it into an error of its
        own. Started again, the query goes on, unless a record is too large or names a partition that isn't there.

    Notes
    -----
    A record belongs to a part by a hash of its key. A task writes a part's records and the batch's number in one
    transaction. If it runs again, it finds the number and writes nothing. A part without records writes nothing,
    either. So values may differ when a batch runs again, but keys may not. (``current_timestamp()`` is the batch's
    time, which Spark logs.) Records whose key is null belong to a part by a hash of their value, or all to one if
    values may differ.

    Plans don't show everything. You must know whether keys stay the same behind Python functions that aren't marked
    (``mapInArrow``, UDFs), behind operators whose rows depend on the order in which they come (``dropDuplicates``,
    ``limit``), and behind a join with a table that changes. A batch that was under way must run again by a program that
    makes the same keys. So if you change how keys or values are made, ``repeatable`` or the topic, let the query end
    first with ``.trigger(availableNow=True)``. It isn't a function for ``foreachBatch``, because a batch's DataFrame
    doesn't show how its columns are made.

    Records of a key are written in the order in which the shuffle by the key gives them. Those that one task had before
    it stay in their order.

    The batches' numbers are in a compacted topic, ``TOPIC-unskew-commits-ID``, with a partition a part and one more, in
    the cluster's default replication (``default.replication.factor``). Keep it as long as the checkpoint. Without it,
    the batch that was under way may be written again. The broker must let the user ``Write`` and ``Describe``
    transactional ids that begin with ``TOPIC-unskew-commits-``, read, write and make the topic of that name, and write
    ``TOPIC``. Executors need the packages of ``unskew[kafka]``, as the driver does.

    Whoever begins a part's transaction ends those that another process has begun: an older driver, an executor that was
    given up, a speculative task. So leave ``spark.speculation`` off: a slow part may never end.

    A query that ends within a batch, be it killed or stopped, may leave transactions open. Consumers wait for them
    until it is started again, or until they time out: after the broker's ``transaction.max.timeout.ms``, at most 15
    minutes. A task that writes for longer fails each time: give more ``parts``, or smaller batches.

    If Kafka's only broker is killed (SIGKILL) right after a commit, it may forget the commit's end, as Kafka 4.3.1 did
    in our trials. Consumers then stop there, and the query ends with a line that says what to do. In a
    campaign of a thousand faults on two brokers no end was lost for good.

    If a checkpoint is replaced by an older copy, the batches since are planned anew and published again. A warning says
    so. A copy must never run beside its original: one would take the other's batches for its own, and leave them out.

    Examples
    --------
    >>> events = spark.readStream.format("rate").load().selectExpr("cast(value AS string) AS value")
    >>> writer = kafka_sink(events, "numbers", "localhost:9092", "checkpoint")  # doctest: +SKIP
    >>> query = writer.trigger(processingTime="1 second").start()  # doctest: +SKIP

    A key that another attempt of a batch may make otherwise is refused:

    >>> kafka_sink(events.selectExpr("uuid() AS key", "value"), "numbers")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    unskew.errors.UsageError: the key depends on uuid(...), which may differ when a batch runs again: records would ...

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

    Raises
    ------
    UsageError
        It has noted another number than the given one.
    EnvironmentFault
        The checkpoint can't be read or written, or the broker can't be reached.

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

    It disturbs no query.

    Raises
    ------
    UsageError
        The topic has another number of partitions.
    EnvironmentFault
        The broker refuses the topic or transactions, or can't be reached.

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

    Raises
    ------
    UsageError
        There is no ``value``, there are several columns of a name, or one has another type.

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

    Raises
    ------
    UsageError
        The plan shows that another attempt of a batch may make the first one otherwise, and nobody says that it won't.

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
