"""A merger's batch: merges the fragments of each split key into one state, and closes expired states."""

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from unskew.apps.metrics.task_reports import MergerReport
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.lifecycle import Lifecycle, OperatorCalls
from unskew.apps.worker.stateful.operator_output import (
    FRAGMENTS,
    HEARTBEAT,
    RESULTS,
    Parcel,
    group_by_key,
    pack_rows,
    read_rows,
    split_by_window,
)
from unskew.apps.worker.stateful.store import Store
from unskew.apps.worker.stateful.table import StateTable

_STATES = 0


def merge_fragments(
    config: KeyedOperatorConfig, store: Store, merger: int, parcels: Sequence[Parcel], batch: WorkerBatch
) -> Iterator[Parcel]:
    """Merge a batch's fragments with a merger's states. The parcels are the workers' for it, in order.

    Raises ``StateFault`` if the operator failed.
    """
    started = time.perf_counter()
    progress = OperatorProgress.read(store) if config.mergers_keep else OperatorProgress()
    calls = OperatorCalls(config.work)
    table = StateTable(store, _STATES, config.work.state, config.key, config.ttl_ms, calls.due, calls.upgrade)
    states = Lifecycle(table, calls, config.ttl_ms)
    now = config.now(batch)
    arrived: dict[int, list[pa.RecordBatch]] = {}
    for parcel in parcels:
        if parcel.kind == FRAGMENTS:
            for window, rows in split_by_window(read_rows(parcel.blob)):
                arrived.setdefault(window, []).append(rows)
    for window in sorted({*arrived, *table.windows}):
        closes = config.window_ms is not None and window + config.window_ms <= batch.watermark_ms
        for fragments in group_by_key(arrived.pop(window, [])):
            states.merge(window, fragments, now, progress.merged_ms)
        if closes and window in table.windows:
            states.close(window, now)
    if config.ttl_ms is not None and any(parcel.kind == HEARTBEAT and parcel.blob for parcel in parcels):
        states.expire(batch.watermark_ms, now, prompt=config.prompt)
        progress = OperatorProgress(merged_ms=batch.watermark_ms)
        progress.write(store)
    if config.mergers_keep:
        table.close()
    yield from pack_rows(RESULTS, merger, states.results)
    if config.reports is not None:
        seconds = time.perf_counter() - started
        report = MergerReport(table.keys, table.size, states.finished, states.merged, progress.merged_ms, seconds)
        config.reports.send(batch.number, merger, report)
