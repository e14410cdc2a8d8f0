"""``keyed_map`` over a static DataFrame: it is one batch, and all states end with it.

Workers keep the states in memory, without a checkpoint. There is no watermark, so no tuple is late, and what waits for
the watermark in a stream comes at the end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from unskew.apps.checkpoint.overflow import Overflow
from unskew.apps.driver.plans.planned_frame import WORKER, route_frame
from unskew.apps.router.router import Routing
from unskew.apps.router.tuple_packets import Packer
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, MergePeriod, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.flow import ROUTED_DDL, add_tokens, route_to_workers
from unskew.apps.worker.stateful.operator import PARCELS
from unskew.apps.worker.stateful.operator_output import Parcel
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.apps.worker.stateful.tasks import make_rows, make_stateless_merger
from unskew.apps.worker.stateful.worker import run_batch
from unskew.grouping import get_grouping
from unskew.spark.compat import convert_schema_to_arrow, explain_import, map_in_arrow, place_rows

Batches = Iterator[pa.RecordBatch]

#: The watermark while tuples come, and at the end (the year 10000): operators may add times to them, and subtract.
BEGIN, END = -(1 << 60), 253_402_300_800_000
#: Fragments are merged once, at the end.
AT_THE_END = MergePeriod(batches=1 << 62)
_TOGETHER = 64 << 20  # bytes of packets that a worker executes at once


def execute_at_once(
    tuples: DataFrame, routing: Routing, config: KeyedOperatorConfig, source: Column | None, *, cost: bool = False
) -> DataFrame:
    """The results that workers and mergers make of all tuples, as parcels.

    The arguments are those of ``unskew.apps.worker.stateful.flow.route_to_workers``. By default, a row's source is its
    task's number.
    """
    if config.split:
        config = replace(config, merge_every=AT_THE_END)
    tokens = list(range(config.workers))
    if get_grouping(routing.grouping).batched:
        chosen = route_frame(tuples, F.col("key"), routing, WORKER, F.col("__cost") if cost else None)
        cut = explain_import(add_tokens(_pack_tuples(config), config, tokens, heartbeats=False))
        packets = map_in_arrow(chosen, ["key", *config.columns, WORKER], cut, ROUTED_DDL)
    else:
        packets = route_to_workers(tuples, routing, config, tokens, source=source, cost=cost)
    packets = packets.withColumn("batch_ms", F.unix_millis(F.current_timestamp()))
    # Each attempt of a task gets its packets in the same order.
    at_workers = place_rows(packets, config.workers, F.col("worker")).sortWithinPartitions("source", "number")
    rows = at_workers.mapInArrow(_execute_workers(config, tokens), PARCELS)
    if not config.split:
        return rows
    return place_rows(rows, config.mergers, F.col("merger")).mapInArrow(make_stateless_merger(config), PARCELS)


def _pack_tuples(config: KeyedOperatorConfig) -> Any:
    """Packets of tuples that are routed already, as a function for ``add_tokens``."""
    carry = ["key", *config.columns]

    def packets(batches: Batches) -> Batches:
        packer = Packer(config.workers)
        for batch in batches:
            tuples = batch.select(carry).set_column(0, "key", batch.column("key").dictionary_encode())
            yield from packer.add(tuples, batch.column(WORKER).to_numpy())
        yield from packer.flush()

    return packets


def execute_worker(
    config: KeyedOperatorConfig, worker: int, packets: Iterable[bytes], batch_ms: int
) -> Iterator[Parcel]:
    """What a worker makes of all its packets. It executes some 64 MiB of them at once."""
    store, progress = MemoryStore(), OperatorProgress(closed_ms=BEGIN)
    begin = BEGIN if config.event else batch_ms
    number, size = 0, 0
    together: list[bytes] = []
    for packet in packets:
        together.append(packet)
        size += len(packet)
        if size >= _TOGETHER:
            yield from run_batch(config, store, worker, together, WorkerBatch(number, batch_ms, begin), progress)
            number, size, together = number + 1, 0, []
    yield from run_batch(config, store, worker, together, WorkerBatch(number, batch_ms, begin), progress)
    yield from run_batch(config, store, worker, [], WorkerBatch(number + 1, batch_ms, END, empty=True), progress)


def _execute_workers(config: KeyedOperatorConfig, tokens: list[int]) -> Any:
    """The worker of a partition, as a function for ``DataFrame.mapInArrow``: its packets → rows of ``PARCELS``."""
    schema = convert_schema_to_arrow(PARCELS)

    def rows(batches: Batches) -> Batches:
        first = next(batches, None)
        if first is None:
            return
        worker, batch_ms = (first.column(name)[0].as_py() for name in ("worker", "batch_ms"))
        packets = (packet.as_py() for batch in chain([first], batches) for packet in batch.column("packet"))
        parcels, end = execute_worker(config, worker, packets, batch_ms), WorkerBatch(0, batch_ms, END)
        for row in make_rows(parcels, tokens, "worker", worker, end, Overflow(None)):
            yield pa.RecordBatch.from_pylist([row.asDict()], schema=schema)

    return rows
