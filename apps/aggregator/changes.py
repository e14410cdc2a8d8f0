"""Publishes counts of open windows: the running total of each key that a batch changed, and a mark at the end.

Spark's state returns the rows that a batch changed. Its tasks publish the keys' totals among them, and report to the
driver what changed in the windows: loads, new keys, new pairs of key and worker, and the hottest of the changed keys.
The driver adds that to the distributions of the open windows, which it writes with the run's totals. A batch that runs
again starts from the state and totals before it, and so publishes and adds the same.

When a window closes, the driver writes a mark to each partition of the topic: no newer total of the window follows
there. Windows close

- in batch time before a batch's job, if they end at or before the batch's time: all that the batch reads is later;
- in event time after a batch's job, if they end at or before the next batch's watermark, which is known then: Spark
  drops rows of these windows from the next batch on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.apps.aggregator.aggregator import (
    MERGED,
    SCHEMA_DDL,
    WindowPacker,
    collect_pieces,
    make_count_records,
    open_delivery,
    read_pieces,
)
from unskew.apps.aggregator.exactly_once import TransactionalPartitions
from unskew.apps.aggregator.observer import Distribution, HotKey, find_runs, select_hottest, take_hottest
from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.checkpoint.location import Where
from unskew.apps.worker.counting_stage import TOTAL
from unskew.apps.worker.result_messages import ResultMessage, format_window, make_message, name_batch
from unskew.kafka.connection import Connection
from unskew.kafka.transactions import BatchId
from unskew.spark.micro_batches import get_batch_number

#: The ``key`` of a mark.
CLOSED = "CLOSED"


@dataclass(frozen=True)
class WindowChanges:
    """What a batch changed in a window, or in one task's share of it."""

    #: Start and end of the window, and the latest time of its tuples (ms), −1 if no load changed.
    start_ms: int
    end_ms: int
    latest_ms: int
    #: list of (int, int, int): The workers whose loads changed, each with its tuples and its count in the window so
    #: far.
    loads: list[tuple[int, int, int]]
    #: list of (int, int): Workers, each with the number of keys of which it got the first tuples in this batch.
    pairs: list[tuple[int, int]]
    new_keys: int  #: The number of keys without tuples before this batch.
    hottest: list[HotKey]  #: The hottest of the changed keys, with their totals.

    def pack(self) -> bytes:
        """The changes as bytes, which ``unpack`` reads."""
        return orjson.dumps(self)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The changes from their bytes."""
        values = orjson.loads(data)
        return cls(**(values | {"hottest": [HotKey(**hot) for hot in values["hottest"]]}))


def merge_changes(first: WindowChanges, second: WindowChanges) -> WindowChanges:
    """Merge two tasks' changes of a batch in the same window. A load, a pair or a key is in only one of them."""
    return WindowChanges(
        first.start_ms,
        first.end_ms,
        max(first.latest_ms, second.latest_ms),
        first.loads + second.loads,
        first.pairs + second.pairs,
        first.new_keys + second.new_keys,
        take_hottest([*first.hottest, *second.hottest]),
    )


def observe_changes(rows: pa.RecordBatch, merged: pa.Table, number: int) -> Iterator[WindowChanges]:
    """Derive the changes of windows from the rows of the state that a batch changed.

    These have start, end, latest (ms), key, slot, tuples, count, batch, as in ``CountingStage._sum_changes``. Those of
    them that are keys' totals are ``merged``, in the schema ``aggregator.MERGED``.
    """
    order = np.argsort(rows.column("start").to_numpy(), kind="stable")
    names = ("start", "end", "latest", "slot", "tuples", "count", "batch")
    start, end, latest, slot, tuples, count, batch = (rows.column(name).to_numpy()[order] for name in names)
    is_load = rows.column("key").is_null().to_numpy(zero_copy_only=False)[order]
    by_window = merged.take(pa.array(np.argsort(merged["start"].to_numpy(), kind="stable")))
    hottest = {
        by_window["start"][first].as_py(): select_hottest(by_window.slice(first, stop - first))
        for first, stop in find_runs(by_window["start"].to_numpy())
    }
    for first, stop in find_runs(start):
        of = slice(first, stop)
        load, new = is_load[of], ~is_load[of] & (batch[of] == number)
        workers, pairs = np.unique(slot[of][new & (slot[of] != TOTAL)], return_counts=True)
        yield WindowChanges(
            int(start[first]),
            int(end[first]),
            int(latest[of][load].max()) if load.any() else -1,
            list(zip(*(column[of][load].tolist() for column in (slot, tuples, count)), strict=True)),
            list(zip(workers.tolist(), pairs.tolist(), strict=True)),
            int((new & (slot[of] == TOTAL)).sum()),
            hottest.get(int(start[first]), []),
        )


def count_workers(rows: pa.RecordBatch) -> NDArray[np.int64]:
    """The number of workers of each of n rows, int64[n]: the bits set in its masks."""
    masks = [rows.column(name).to_numpy() for name in rows.schema.names if name.startswith("mask")]
    return sum((np.bitwise_count(mask).astype(np.int64) for mask in masks), np.zeros(rows.num_rows, np.int64))


@dataclass(frozen=True)
class ChangePublisher:
    """Publishes changed totals: what the tasks do with the state's changed rows.

    The topic is that of the aggregator's records. The generation is greater than those of earlier checkpoints that
    wrote to it. ``ahead_ms`` is how far batch time is ahead of Spark's. With ``commits``, a task's writer is that of
    its state partition, which the checkpoint fixes.
    """

    connection: Connection
    topic: str
    checkpoint: Where
    generation: int
    ahead_ms: int = 0
    commits: TransactionalPartitions | None = None

    def __call__(self, rows: DataFrame) -> DataFrame:
        """Turn the rows of ``CountingStage._sum_changes`` into the tasks' reports (``SCHEMA_DDL``)."""
        masks = [name for name in rows.columns if name.startswith("mask")]
        times = {"start": F.col("window.start"), "end": F.col("window.end"), "latest": F.col("latest")}
        return rows.select(
            *(F.unix_millis(time).alias(name) for name, time in times.items()),
            *("key", "slot", "tuples", "count", "batch", "batch_ms", *masks),
        ).mapInArrow(self.publish, SCHEMA_DDL)

    def publish(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the totals in a task's rows, then yield the packed ``WindowChanges``."""
        windows: dict[int, WindowChanges] = {}
        delivery = None
        try:
            for rows in batches:
                if not rows.num_rows:
                    continue
                number, batch_ms = get_batch_number() or 0, rows.column("batch_ms")[0].as_py()
                is_total = pc.call_function("equal", [rows.column("slot"), pa.scalar(TOTAL, rows.column("slot").type)])
                totals = rows.filter(is_total)
                columns = [totals.column(name) for name in MERGED.names[:-1]]
                merged = pa.table([*columns, pa.array(count_workers(totals))], schema=MERGED)
                if merged.num_rows:
                    batch_id = BatchId(number, batch_ms - self.ahead_ms)
                    delivery = delivery or open_delivery(self.connection, self.topic, self.commits, batch_id)
                    named = orjson.dumps(name_batch(self.generation, number, batch_ms)).decode()
                    delivery.put(make_count_records(merged, named))
                for changes in observe_changes(rows, merged, number):
                    known = windows.get(changes.start_ms)
                    windows[changes.start_ms] = changes if known is None else merge_changes(known, changes)
            if delivery is not None:
                delivery.finish()
        except BaseException:
            if delivery is not None:
                delivery.abort()
            raise
        if windows:
            packer = WindowPacker(self.checkpoint)
            packer.add(windows[start] for start in sorted(windows))
            yield packer.finish()


def collect_changes(pieces: DataFrame, checkpoint: Where) -> Iterator[WindowChanges]:
    """Run the batch of these pieces (``ChangePublisher``), and yield its tasks' reports of windows."""
    for blobs in collect_pieces(pieces):
        yield from map(WindowChanges.unpack, read_pieces(blobs, checkpoint))


#: The distributions of open windows in the totals: start of the window (ms) → JSON values.
OpenWindows = Mapping[str, dict[str, Any]]


def add_changes(windows: OpenWindows, changes: Iterable[WindowChanges], workers: int) -> dict[str, dict[str, Any]]:
    """Add a batch's changes to the open windows, and return them oldest first.

    Loads are running totals, and replace the old ones. Keys and pairs are new ones, and are added. The hottest keys are
    exact: a key that is among the hottest at the end was so among the changed keys when its total changed last, because
    the others' totals only grow.
    """
    opened: dict[int, Distribution] = {}
    for each in changes:
        known = opened.get(each.start_ms)
        if known is None and (values := windows.get(str(each.start_ms))) is not None:
            known = Distribution.from_json(values)
        if known is None:
            none = np.zeros(workers, np.int64)
            known = Distribution(each.start_ms, each.end_ms, none, none, none, 0, [])
        opened[each.start_ms] = _add_to_window(known, each, workers)
    found = dict(windows) | {str(start): window.to_json() for start, window in opened.items()}
    return {start: found[start] for start in sorted(found, key=int)}


def _add_to_window(known: Distribution, changes: WindowChanges, workers: int) -> Distribution:
    most = max([workers, len(known.tuples), *(worker + 1 for worker, *_ in [*changes.loads, *changes.pairs])])
    tuples, counts, keys = (np.pad(loads, (0, most - len(loads))) for loads in (known.tuples, known.counts, known.keys))
    for worker, its_tuples, its_count in changes.loads:
        tuples[worker], counts[worker] = its_tuples, its_count
    for worker, new in changes.pairs:
        keys[worker] += new
    newest = {hot.key: hot for hot in [*known.hottest, *changes.hottest]}
    distinct = known.distinct_keys + changes.new_keys
    return Distribution(known.start_ms, known.end_ms, tuples, counts, keys, distinct, take_hottest(newest.values()))


def take_closed(windows: OpenWindows, until_ms: int) -> tuple[dict[str, dict[str, Any]], list[Distribution]]:
    """The windows that stay open, and those that end at or before this time (ms), oldest first."""
    still = {start: values for start, values in windows.items() if values["end_ms"] > until_ms}
    return still, [Distribution.from_json(values) for start, values in windows.items() if start not in still]


def make_marks(
    windows: Sequence[Distribution], topic: str, partitions: int, generation: int, batch: Batch
) -> Iterator[ResultMessage]:
    """The marks of closed windows, one for each partition of the topic.

    A mark's Kafka key is the window alone, while a total's has a slash. Its fields are the sums over all partitions,
    with which a consumer of the whole topic can check its data.
    """
    make = partial(make_message, batch=name_batch(generation, batch.number, batch.time_ms))
    for window in windows:
        start = format_window(window.start_ms)
        fields = {
            "keys": window.distinct_keys,
            "tuples": int(window.tuples.sum()),
            "count": int(window.counts.sum()),
        }
        mark = make(start, CLOSED, window.end_ms, {"window": start}, fields)
        for number in range(partitions):
            yield ResultMessage(mark.key, mark.value, topic, number)
