"""A home's batch: the states of a key that several workers had are made one, and what is over leaves."""

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from unskew.apps.keyed.calls import Calls
from unskew.apps.keyed.keeper import Keeper
from unskew.apps.keyed.note import Note
from unskew.apps.keyed.parcels import BEAT, FRAGMENTS, RESULTS, Parcel, by_window, opened, packed
from unskew.apps.keyed.program import Beat, Program
from unskew.apps.keyed.store import Store
from unskew.apps.keyed.table import Table

_STATES = 0


def meet(program: Program, store: Store, home: int, parcels: Sequence[Parcel], beat: Beat) -> Iterator[Parcel]:
    """Let the states that have arrived at a home meet those that are there.

    Parameters
    ----------
    program : Program
        What the workers do.
    store : Store
        The home's own.
    home : int
        Its number.
    parcels : sequence of Parcel
        What the workers sent it, in their order.
    beat : Beat
        The batch.

    Raises
    ------
    StateFault
        The work failed.

    """
    started = time.perf_counter()
    note = Note.read(store) if program.lasting else Note()
    keeper = Keeper(
        Table(store, _STATES, program.work.state, program.key, program.ttl_ms), Calls(program.work), program.ttl_ms
    )
    now = program.now(beat)
    sent = [opened(parcel.blob) for parcel in parcels if parcel.kind == FRAGMENTS]
    fragments = dict(by_window(pa.concat_batches(sent))) if sent else {}
    for window in sorted({*fragments, *keeper.table.windows}):
        closes = program.window_ms is not None and window + program.window_ms <= beat.watermark_ms
        if window in fragments:
            keeper.merge(window, fragments[window], now, note.met_ms)
        if closes and window in keeper.table.windows:
            keeper.close(window, now)
    if program.ttl_ms is not None and any(parcel.kind == BEAT and parcel.blob for parcel in parcels):
        keeper.expire(beat.watermark_ms, now)
        note = Note(met_ms=beat.watermark_ms)
        note.write(store)
    if program.lasting:
        keeper.table.close()
    yield from packed(RESULTS, home, keeper.told)
    if program.reports is not None:
        program.reports.send(beat.number, "home", home, {
            "met": keeper.met, "states": keeper.table.keys,
            "bytes": keeper.table.size, "finished": keeper.finished, "met_ms": note.met_ms,
            "seconds": time.perf_counter() - started,
        })  # fmt: skip
