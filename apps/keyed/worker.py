"""A worker's batch: its tuples change the states of their keys, and what is over leaves."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from unskew.apps.keyed import arrivals
from unskew.apps.keyed.calls import Calls
from unskew.apps.keyed.keeper import Keeper
from unskew.apps.keyed.moving import Mover
from unskew.apps.keyed.note import Note
from unskew.apps.keyed.parcels import BEAT, COUNTS, RESULTS, Parcel, packed, spread
from unskew.apps.keyed.program import Beat, Program
from unskew.apps.keyed.store import Delayed, Store
from unskew.apps.keyed.table import Table

_WORK, _COUNTS = 0, 1


def work(program: Program, store: Store, worker: int, packets: Sequence[bytes], beat: Beat) -> Iterator[Parcel]:
    """Do a worker's share of a batch.

    Parameters
    ----------
    program : Program
        What to do.
    store : Store
        The worker's own.
    worker : int
        Its number.
    packets : sequence of bytes
        Its tuples, in the order in which they count; perhaps none.
    beat : Beat
        The batch.

    Raises
    ------
    StateFault
        The work failed.

    """
    started = time.perf_counter()
    note = Note.read(store)
    mover = Mover(program.routing, worker, beat.number, note)
    later = Delayed(store) if mover.moves else None
    ttl_ms = None if program.split else program.ttl_ms
    own = Table(later or store, _WORK, program.work.state, program.key, ttl_ms)
    keeper = Keeper(own, Calls(program.work), ttl_ms)
    mover.take_in(own)
    tuples = arrivals.gathered(packets, program, beat)
    kept, counted, late = arrivals.punctual(tuples, program, note.closed_ms)
    now = program.now(beat)
    distinct = 0
    seen = ["time", *(name for name in program.work.columns if name != "time")]
    if kept.num_rows:
        parts = [(0, kept)] if program.window_ms is None else arrivals.windows_of(kept, program.window_ms)
        for window, part in parts:
            keys = arrivals.occurring(part)
            distinct += len(keys.distinct)
            over = note.closed_ms if program.event else beat.batch_ms
            keeper.update(window, keys, part.select(seen), now, over_ms=over, whole=not program.split)
    time.sleep(program.cost.total(tuples.column("key")))
    observed = None
    if program.monitors is not None:
        observed = program.monitors.report(worker, beat.number, kept, time.perf_counter() - started - mover.seconds)
    meets = program.split and _meets(program, note, beat)
    fragments = []
    for window in own.windows:
        closes = program.window_ms is not None and window + program.window_ms <= beat.watermark_ms
        if program.split and (meets or closes):
            fragments.append((window, own.take(window)))
        elif closes:
            keeper.close(window, now)
    if program.ttl_ms is not None and not program.split:
        keeper.expire(beat.watermark_ms, now)
    mover.hand_out(own, split=program.split)
    own.close()
    if later is not None:
        later.flush()
    yield from packed(RESULTS, worker % program.homes, keeper.told)
    yield from spread(fragments, program.homes)
    yield from _counted(program, store, worker, kept, beat)
    if program.split and worker < program.homes:
        yield Parcel(BEAT, worker, b"now" if meets else b"")
    _remember(program, store, note, mover.note, beat)
    _report(program, worker, beat, {
        "tuples": tuples.num_rows, "keys": distinct, "failures": {},
        "busy": time.perf_counter() - started - mover.seconds,
        "windows": counted, "late": late, "states": own.keys, "bytes": own.size, "finished": keeper.finished,
        "fragments": sum(rows.num_rows for _, rows in fragments), "monitor": observed, **mover.report(),
    })  # fmt: skip


def _meets(program: Program, note: Note, beat: Beat) -> bool:
    every = program.merge_every
    return every is not None and every.over(note.batch_ms or beat.batch_ms, beat.batch_ms, beat.number)


def _counted(program: Program, store: Store, worker: int, tuples: pa.RecordBatch, beat: Beat) -> Iterator[Parcel]:
    """Count the tuples by window; the counts of those that close."""
    length = program.counted_ms
    if length is None:
        return
    counts = program.counts
    keeper = Keeper(Table(store, _COUNTS, counts.state, program.key, None), Calls(counts))
    now = program.now(beat)
    if tuples.num_rows:
        for window, part in arrivals.windows_of(tuples, length):
            keys = arrivals.occurring(part)
            keeper.update(window, keys, part.select(["time", *counts.columns]), now, over_ms=None, whole=True)
    for window in keeper.table.windows:
        if window + length <= beat.watermark_ms:
            keeper.close(window, now)
    keeper.table.close()
    yield from packed(COUNTS, worker % program.homes, keeper.told)


def _remember(program: Program, store: Store, before: Note, note: Note, beat: Beat) -> None:
    """Note what the next batch must know: by event time the watermark, for a period in seconds the time."""
    every = program.merge_every
    batch_ms = beat.batch_ms if every is not None and every.ms else 0
    new = replace(note, batch_ms=batch_ms, closed_ms=beat.watermark_ms if program.event else 0)
    if new != before:
        new.write(store)


def _report(program: Program, worker: int, beat: Beat, report: dict) -> None:
    if program.reports is not None:
        program.reports.send(beat.number, "worker", worker, report)
