"""A worker's batch of a keyed operator: updates states with tuples, and closes expired states."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.metrics.balance_observation import WorkerLoad
from unskew.apps.metrics.task_reports import StateReport, WorkerReport
from unskew.apps.router import tuple_packets as packets_
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.lifecycle import Lifecycle, OperatorCalls
from unskew.apps.worker.stateful.migration import Migration
from unskew.apps.worker.stateful.operator_output import (
    COUNTS,
    HEARTBEAT,
    REPORT,
    RESULTS,
    Parcel,
    pack_rows,
    spread_over_mergers,
)
from unskew.apps.worker.stateful.store import BufferedStore, Store
from unskew.apps.worker.stateful.table import StateTable
from unskew.grouping.keys import Keys, encode_keys
from unskew.spark.micro_batches import split_by_window, to_milliseconds

_WORK, _COUNTS = 0, 1

_MOST_BYTES = 2**31 - 1  # of an array with 32-bit offsets
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def run_batch(
    config: KeyedOperatorConfig,
    store: Store,
    worker: int,
    packets: Sequence[bytes],
    batch: WorkerBatch,
    progress: OperatorProgress,
) -> Iterator[Parcel]:
    """Execute a worker's part of a batch: its tuples, if any, in order of execution.

    ``progress`` is the worker's after the previous batch. Raises ``StateFault`` if the operator failed.
    """
    started = time.perf_counter()
    # 1. The batch's plans. If states arrive or leave, or fragments leave after their update, buckets change more than
    #    once, so the store is written at the end.
    migration = Migration(config.routing, worker, batch.number, progress)
    merges = _is_merge_due(config, progress, batch)
    later = BufferedStore(store) if migration.may_move or merges else None
    ttl_ms = None if config.split else config.ttl_ms
    calls = OperatorCalls(config.work)
    table = StateTable(later or store, _WORK, config.work.state, config.key, ttl_ms, calls.due, calls.upgrade)
    states = Lifecycle(table, calls, ttl_ms)
    # 2. The states that others have released to this worker, before the first tuple: routers already follow the plan,
    #    so without its state a key would start anew.
    migration.take_in(table)
    # 3. The tuples. Late ones are behind the *previous* batch's watermark: a window that this batch closes gets the
    #    batch's tuples first. In event time, states expire by that watermark, too.
    arrived = _read_tuples(packets, config, batch)
    tuples, windows, late = _drop_late(arrived, config, progress.closed_ms)
    now = config.now(batch)
    distinct = 0
    seen = ["time", *(name for name in config.work.columns if name != "time")]
    for window, part in _split_by_window(tuples, config.window_ms, config.slide_ms, progress.closed_ms):
        keys = _select_occurring(part)
        distinct += len(keys.distinct)
        over = progress.closed_ms if config.event else batch.batch_ms
        states.update(window, keys, part.select(seen), now, over_ms=over, whole=not config.split)
    # 4. The simulated cost of the tuples, also late ones. Monitors see the time until here: without the migration and
    #    the states that leave below, which aren't costs of these tuples.
    time.sleep(config.cost.total(arrived.column("key")))
    observed = None
    if config.monitors is not None:
        seconds = time.perf_counter() - started - migration.seconds
        observed = config.monitors.report(worker, batch.number, tuples.column("key"), seconds)
    # 5. States leave, after all tuples of the batch: those of closed windows, then expired ones. A split key's
    #    fragments go to its merger, which merges them and closes the whole state. They go when their window closes, or
    #    all when a merge is due.
    fragments = []
    for window in table.windows:
        closes = config.window_ms is not None and window + config.window_ms <= batch.watermark_ms
        if config.split and (merges or closes):
            fragments += [(window, rows) for rows in table.take(window)]
        elif closes:
            states.close(window, now)
    if config.ttl_ms is not None and not config.split:
        states.expire(batch.watermark_ms, now, prompt=config.prompt)
    # 6. Of the remaining states, those of keys that the pending plan gives away are released. So no receiver gets a
    #    state that has expired or lacks a tuple.
    migration.release(table, split=config.split)
    # 7. No bucket changes any more: write the table's directory, then the buffer.
    table.close()
    if later is not None:
        later.flush()
    # 8. The output. Counts are a separate table in the same store. The heartbeat of the worker with its number calls a
    #    merger in each batch, even without fragments, and says whether a merge is due.
    yield from pack_rows(RESULTS, worker % config.mergers, states.results)
    yield from spread_over_mergers(fragments, config.mergers)
    yield from _count_tuples(config, store, worker, tuples, batch, progress.closed_ms)
    if config.split and worker < config.mergers:
        yield Parcel(HEARTBEAT, worker, b"now" if merges else b"")
    # 9. The progress, with the migration's changes. Spark commits it with the states.
    _write_progress(config, store, progress, migration.progress, batch)
    # 10. The report, with the states as the next batch finds them.
    if config.reports is not None or config.observe is not None:
        busy = time.perf_counter() - started - migration.seconds
        sent = sum(rows.num_rows for _, rows in fragments)
        kept, moved = StateReport(table.keys, table.size, states.finished, sent), migration.report()
        report = WorkerReport(
            arrived.num_rows, distinct, busy, windows=windows, late=late, monitor=observed, states=kept, migration=moved
        )
        dropped = arrived.num_rows - tuples.num_rows
        yield from _send_report(config, worker, batch, arrived, report, dropped)


def _send_report(
    config: KeyedOperatorConfig,
    worker: int,
    batch: WorkerBatch,
    arrived: pa.RecordBatch,
    report: WorkerReport,
    dropped: int,
) -> Iterator[Parcel]:
    """Send the worker's report to the driver, and yield what Spark observes, as the config says."""
    if config.reports is not None:
        config.reports.send(batch.number, worker, report)
    if config.observe is not None:
        # Late tuples and all windows count: a key that the router sent here has a replica here.
        codes = arrived.column("key").indices
        keys = pc.call_function("count_distinct", [codes], pc.CountOptions("all")).as_py()
        assert report.states is not None
        kept, moved = report.states, report.migration.keys
        late = [dropped] if config.event else []
        load = WorkerLoad(report.tuples, keys, report.busy, kept.states, kept.bytes, moved, late=late)
        yield Parcel(REPORT, worker % config.mergers, load.text().encode())


def advance_time(config: KeyedOperatorConfig, progress: OperatorProgress, batch: WorkerBatch) -> WorkerBatch:
    """The batch, with a time that doesn't reopen closed windows.

    In batch time, a driver's clock may be set back, or the next driver's may be behind. All workers are called in every
    batch with tuples, so they have closed the same windows, and compute the same time.
    """
    if config.event or config.window_ms is None:
        return batch
    least = progress.closed_ms
    return replace(batch, batch_ms=max(least, batch.batch_ms), watermark_ms=max(least, batch.watermark_ms))


def _read_tuples(blobs: Sequence[bytes], config: KeyedOperatorConfig, batch: WorkerBatch) -> pa.RecordBatch:
    """All packets' tuples in order: ``key`` (dictionary), ``time`` (int64, ms) and the other columns."""
    parts = [packets_.read_packet(pa.scalar(blob, pa.binary())) for blob in blobs]
    if not parts:
        names = ["key", "time"]
        empty = [pa.array([], config.key).dictionary_encode(), pa.array([], pa.int64())]
        return pa.RecordBatch.from_arrays(empty, names)
    kind = pa.dictionary(pa.int32(), config.key)
    keys = pa.chunked_array([_encode_keys(part.column("key"), kind) for part in parts]).unify_dictionaries()
    n = len(keys)
    columns = {"key": keys.combine_chunks()}
    if config.event:
        times = np.concatenate([to_milliseconds(part.column("time")) for part in parts])
        columns["time"] = pa.array(times)
    else:
        columns["time"] = pa.array(np.full(n, batch.batch_ms, np.int64))
    for name in config.columns:
        if name != "time":
            columns[name] = _concat_arrays([part.column(name) for part in parts])
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _concat_arrays(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenate arrays, to the large type if strings or binaries exceed their type's limit."""
    large = _LARGE.get(arrays[0].type)
    if large is not None and sum(array.nbytes for array in arrays) > _MOST_BYTES:
        arrays = [array.cast(large) for array in arrays]
    return pa.concat_arrays(arrays)


def _encode_keys(keys: pa.Array, kind: pa.DictionaryType) -> pa.Array:
    return (keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()).cast(kind)


def _select_occurring(tuples: pa.RecordBatch) -> Keys:
    """The keys that occur in the tuples: a dictionary may have more."""
    keys = encode_keys(tuples.column("key"))
    occurs = np.zeros(len(keys.distinct), np.bool_)
    occurs[keys.codes] = True
    if occurs.all():
        return keys
    positions = (np.cumsum(occurs) - 1).astype(np.int32)
    return Keys(positions[keys.codes], keys.hashes[occurs], keys.distinct.filter(pa.array(occurs)))


def _split_by_window(
    tuples: pa.RecordBatch, length_ms: int | None, slide_ms: int | None, closed_ms: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(start, tuples) of each window with tuples; without windows all tuples, as window 0.

    A tuple that isn't late is in one window, or with a slide in each of its windows that end after ``closed_ms``.
    """
    if not tuples.num_rows:
        return
    if length_ms is None:
        yield 0, tuples
        return
    times = tuples.column("time").to_numpy()
    if slide_ms is not None:
        yield from _split_by_sliding_window(tuples, times // slide_ms, length_ms, slide_ms, closed_ms)
        return
    for start, part, _ in split_by_window(tuples, times, length_ms):
        yield start, part


def _split_by_sliding_window(
    tuples: pa.RecordBatch, latest: NDArray[np.int64], length_ms: int, slide_ms: int, closed_ms: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """As ``_split_by_window``; window n begins at n slides, and ``latest`` is each tuple's last window."""
    overlap = length_ms // slide_ms
    order = np.argsort(latest, kind="stable")
    ordered = latest[order]
    for number in np.unique(np.unique(ordered)[:, np.newaxis] - np.arange(overlap)).tolist():
        if number * slide_ms + length_ms > closed_ms:
            begin, stop = np.searchsorted(ordered, [number, number + overlap])
            rows = np.sort(order[begin:stop])  # keeps a source's order
            yield number * slide_ms, tuples if len(rows) == len(order) else tuples.take(pa.array(rows))


def _drop_late(
    tuples: pa.RecordBatch, config: KeyedOperatorConfig, closed_ms: int
) -> tuple[pa.RecordBatch, dict[int, int], int]:
    """Leave out late tuples.

    If states live for a window, a tuple is late once its window, or with a slide its last one, is closed. If they live
    for a TTL, it is late if it is older than the watermark at the end of the previous batch, ``closed_ms``.

    Returns the tuples that aren't late; how many came of each counted window (with a slide: of which it is the last),
    by its start in slides; and how many are late though their window is open.
    """
    counted: dict[int, int] = {}
    if not config.event or not tuples.num_rows:
        return tuples, counted, 0
    times = tuples.column("time").to_numpy()
    length = config.counted_ms or config.window_ms
    open_ = np.ones(len(times), np.bool_)  # whether the tuple's window is still open
    slide = config.slide_ms or length
    if length is not None:
        open_ &= times // slide * slide + length > closed_ms
    older = open_ & (times < closed_ms) if config.window_ms is None else np.zeros(len(times), np.bool_)
    if length is not None:
        numbers, tallies = np.unique(times[~older] // slide, return_counts=True)
        counted = dict(zip(numbers.tolist(), tallies.tolist(), strict=True))
    kept = open_ & ~older
    return (tuples if kept.all() else tuples.filter(pa.array(kept))), counted, int(older.sum())


def _is_merge_due(config: KeyedOperatorConfig, progress: OperatorProgress, batch: WorkerBatch) -> bool:
    """Whether fragments are merged in this batch. All workers agree, so mergers get all of a key's fragments or none.

    An empty batch doesn't wait for the period: it is the last for now, and with ``availableNow`` the last of all.
    """
    every = config.merge_every
    if not config.split or every is None:
        return False
    return batch.empty or every.ends(progress.batch_ms or batch.batch_ms, batch.batch_ms, batch.number)


def _count_tuples(
    config: KeyedOperatorConfig,
    store: Store,
    worker: int,
    tuples: pa.RecordBatch,
    batch: WorkerBatch,
    closed_ms: int,
) -> Iterator[Parcel]:
    """Count the tuples by window, and yield the counts of closing windows."""
    length = config.counted_ms
    if length is None:
        return
    counts = config.counts
    states = Lifecycle(StateTable(store, _COUNTS, counts.state, config.key, None), OperatorCalls(counts))
    now = config.now(batch)
    for window, part in _split_by_window(tuples, length, config.slide_ms, closed_ms):
        states.update(
            window, _select_occurring(part), part.select(["time", *counts.columns]), now, over_ms=None, whole=True
        )
    for window in states.table.windows:
        if window + length <= batch.watermark_ms:
            states.close(window, now)
    states.table.close()
    yield from pack_rows(COUNTS, worker % config.mergers, states.results)


def _write_progress(
    config: KeyedOperatorConfig, store: Store, before: OperatorProgress, progress: OperatorProgress, batch: WorkerBatch
) -> None:
    """Write the progress for the next batch: what is closed, and for a period in s the batch's time."""
    every = config.merge_every
    batch_ms = batch.batch_ms if every is not None and every.ms else 0
    closed_ms = batch.watermark_ms
    if not config.event:  # so it is written once per window, not in every batch
        slide = config.slide_ms or config.window_ms
        closed_ms = closed_ms // slide * slide if slide else 0
    new = replace(progress, batch_ms=batch_ms, closed_ms=closed_ms)
    if new != before:
        new.write(store)
