"""The aggregator: merges the workers' partials of each key when a window closes, and publishes the counts.

One Spark job runs the batch, and merges, publishes and observes the windows that it closes. Their rows pass through a
Python task once, sorted by (window, key). The task merges a key's partials, publishes the record, and sends the driver
the distribution of each window's tuples over the workers.

Nothing is cached between jobs. So if an executor dies, its tasks run again within the same job, with the batch's
number, and produce the same records.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.apps.aggregator.exactly_once import TransactionalPartitions
from unskew.apps.aggregator.observer import Distribution, Observer, merge_distributions
from unskew.apps.checkpoint.location import Where
from unskew.apps.checkpoint.overflow import Overflow, fetch_blob
from unskew.apps.worker.result_messages import format_window, make_message_id
from unskew.kafka.connection import Connection
from unskew.kafka.json_columns import format_integers, join_columns, quote_texts
from unskew.kafka.outbox import TaskDelivery
from unskew.kafka.transactions import BatchId, TransactionalDelivery
from unskew.spark.micro_batches import get_batch_number, get_partition

#: A key of a closed window: the window (ms), and the counts of all workers.
MERGED = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("key", pa.string()),
        ("tuples", pa.int64()),
        ("count", pa.int64()),
        ("workers", pa.int64()),
    ]
)
_SUMMED = ("tuples", "count", "workers")


class PartialMerger:
    """Merges rows of (window, key, worker) into one row for each (window, key).

    The rows of a (window, key) must be adjacent, as after sorting. Only the last key is kept in memory.
    """

    def __init__(self) -> None:
        self._open = MERGED.empty_table()  # the last key so far, or nothing

    def add(self, rows: pa.RecordBatch) -> pa.Table:
        """Add rows of start, end (ms), key, tuples, count. Return the rows of ``MERGED`` that are now complete."""
        one = pa.array(np.ones(rows.num_rows, np.int64))
        columns = [one if name == "workers" else rows.column(name).cast(kind) for name, kind in _list_types()]
        merged = _sum_neighbours(pa.concat_tables([self._open, pa.table(columns, schema=MERGED)]))
        whole = max(0, merged.num_rows - 1)
        self._open = merged.slice(whole)
        return merged.slice(0, whole)

    def finish(self) -> pa.Table:
        """The row of the last key."""
        last, self._open = self._open, MERGED.empty_table()
        return last


def _list_types() -> Iterator[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in MERGED)


def _sum_neighbours(rows: pa.Table) -> pa.Table:
    """Sum neighbours of the same window and key."""
    if rows.num_rows == 0:
        return rows
    rows = rows.combine_chunks()
    first = np.concatenate(
        [[0], np.flatnonzero(_compare_neighbours(rows["start"]) | _compare_neighbours(rows["key"])) + 1]
    )
    sums = {name: pa.array(np.add.reduceat(rows[name].to_numpy(), first)) for name in _SUMMED}
    kept = rows.take(pa.array(first))
    return pa.table([sums.get(name, kept[name]) for name in MERGED.names], schema=MERGED)


def _compare_neighbours(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether each value but the first differs from the one before."""
    values = column.chunk(0)
    return pc.call_function("not_equal", [values[1:], values[:-1]]).to_numpy(zero_copy_only=False)


def make_count_records(merged: pa.Table, batch: str = "") -> list[dict[str, Any]]:
    """The aggregator topic's records, ``key`` and ``value`` (bytes), for the client's batch call.

    ``batch`` is a JSON object with the batch, for records that later batches' overwrite.
    """
    if merged.num_rows == 0:
        return []
    rows = merged.combine_chunks().to_batches()[0]
    starts, window_of_row = np.unique(rows["start"].to_numpy(), return_inverse=True)
    windows = pa.array([format_window(int(start)) for start in starts]).take(pa.array(window_of_row))
    names = join_columns(windows, "/", rows["key"])
    ids = pa.array([make_message_id(name) for name in names.to_pylist()])
    end, tuples, count, workers = (
        format_integers(rows[name].to_numpy()) for name in ("end", "tuples", "count", "workers")
    )
    key = quote_texts(rows["key"])
    ending = f'}},"batch":{batch}}}' if batch else "}}"
    values = join_columns(  # more than twice as fast as orjson.dumps of each record
        *('{"key":', key, ',"messageId":"', ids, '","timestamp":', end),
        *(',"tags":{"key":', key, ',"window":"', windows),
        *('"},"fields":{"count":', count, ',"tuples":', tuples, ',"workers":', workers, ending),
    )
    pairs = zip(names.cast(pa.binary()).to_pylist(), values.cast(pa.binary()).to_pylist(), strict=True)
    return [{"key": name, "value": value} for name, value in pairs]


_ROLE = "aggregator"
_TASK, _PARTS = "task", "parts"
_SCHEMA = pa.schema([(_TASK, pa.int32()), (_PARTS, pa.binary())])
#: The schema in which tasks report windows to the driver.
SCHEMA_DDL = "task int, parts binary"
# In event time a batch may close any number of windows. By default, Spark takes 1 GiB of results from a job's tasks,
# which are at most 128.
_MOST = 4 << 20  # bytes per task
_PIECE = 1 << 20  # bytes per row, of several windows


def open_delivery(
    connection: Connection, topic: str, commits: TransactionalPartitions | None, number: BatchId | None
) -> TaskDelivery | TransactionalDelivery:
    """Open the delivery of the aggregator's records in the calling task."""
    if commits is None or number is None:
        return TaskDelivery(connection, topic)
    return TransactionalDelivery(commits.writer(_ROLE, get_partition()), topic, number)


@dataclass(frozen=True)
class WindowPublisher:
    """Publishes closed windows: what the tasks do with their rows.

    The topic is that of the aggregator's records. With ``commits`` they are written exactly once, under the batch's
    number, which ``run`` sets; without, at least once. What exceeds ``most`` bytes that a task returns through Spark,
    in rows of about ``piece`` bytes, is written next to the query's checkpoint.
    """

    connection: Connection
    topic: str
    workers: int
    checkpoint: Where
    commits: TransactionalPartitions | None = None
    number: BatchId | None = None
    most: int = _MOST
    piece: int = _PIECE

    def run(self, rows: DataFrame, number: BatchId) -> list[Distribution]:
        """Run the batch of these counts (``WorkerStage.execute_batch``), publish, and return the distributions."""
        rows = rows.select(
            F.unix_millis("window.start").alias("start"),
            F.unix_millis("window.end").alias("end"),
            *("key", "worker", "tuples", "count"),
        )
        by = "start", "key"
        divided = rows.repartition(*by) if self.commits is None else rows.repartition(self.commits.of(_ROLE), *by)
        pieces = divided.sortWithinPartitions("start", "key").mapInArrow(
            replace(self, number=number).__call__, SCHEMA_DDL
        )
        return list(merge_distributions(map(self._read, collect_pieces(pieces))))

    def _read(self, blobs: list[bytes]) -> Iterator[Distribution]:
        """A task's distributions, with one row's in memory at a time."""
        return map(Distribution.unpack, read_pieces(blobs, self.checkpoint))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take sorted rows; yield a packed ``Distribution`` of each window once its records are written."""
        merger, observer, delivery = PartialMerger(), Observer(self.workers), None
        parts = WindowPacker(self.checkpoint, self.most, self.piece)
        try:
            for batch in batches:
                if not batch.num_rows:
                    continue
                delivery = delivery or open_delivery(self.connection, self.topic, self.commits, self.number)
                observer.rows(batch)
                merged = merger.add(batch)
                observer.keys(merged)
                delivery.put(make_count_records(merged))
                # The key still open belongs to the newest window.
                parts.add(observer.finish(before=batch.column("start")[-1].as_py()))
            if delivery is None:
                return
            last = merger.finish()
            observer.keys(last)
            delivery.put(make_count_records(last))
            delivery.finish()
        except BaseException:
            if delivery is not None:
                delivery.abort()
            raise
        parts.add(observer.finish())
        yield parts.finish()


class Packable(Protocol):
    """What a task reports to the driver about a window."""

    def pack(self) -> bytes:
        """Serialise it to one line."""
        ...


class WindowPacker:
    """Packs a task's reports of windows into rows of about equal size, the same for the same windows.

    At most ``most`` bytes go through Spark, in rows of about ``piece`` bytes. The rest goes next to the checkpoint.
    """

    def __init__(self, checkpoint: Where, most: int = _MOST, piece: int = _PIECE) -> None:
        self._piece = piece
        self._overflow = Overflow(checkpoint, most)
        self._name, self._batch = f"closing-{get_partition()}", get_batch_number() or 0
        self._rows: list[bytes] = []
        self._open: list[bytes] = []
        self._size = 0

    def add(self, parts: Iterable[Packable]) -> None:
        for part in parts:
            self._open.append(part.pack())
            self._size += len(self._open[-1])
            if self._size >= self._piece:
                self._put()

    def finish(self) -> pa.RecordBatch:
        """The rows, of ``SCHEMA_DDL``."""
        if self._open:
            self._put()
        self._overflow.forget(self._name, self._batch)
        tasks = pa.array([get_partition()] * len(self._rows), pa.int32())
        return pa.record_batch([tasks, pa.array(self._rows, pa.binary())], schema=_SCHEMA)

    def _put(self) -> None:
        packed = b"\n".join(self._open)
        self._rows.append(self._overflow.put(self._name, self._batch, len(self._rows), packed))
        self._open, self._size = [], 0


def collect_pieces(pieces: DataFrame) -> Iterable[list[bytes]]:
    """Run the job of a DataFrame of ``SCHEMA_DDL``, and return each task's pieces."""
    tasks: dict[int, list[bytes]] = {}
    for row in pieces.collect():
        tasks.setdefault(row[_TASK], []).append(bytes(row[_PARTS]))
    return tasks.values()


def read_pieces(blobs: Iterable[bytes], checkpoint: Where) -> Iterator[bytes]:
    """Unpack a task's report of each window, with one row in memory at a time."""
    for blob in blobs:
        yield from fetch_blob(blob, checkpoint).splitlines()
