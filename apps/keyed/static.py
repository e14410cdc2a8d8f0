"""``keyed_map`` over a DataFrame that isn't a stream: one batch, at the end of which all states end.

Workers keep the states in memory. There are no checkpoint and no watermark: no tuple is late, and whatever waits for
the watermark comes at the end.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from unskew.apps.keyed.flow import ROUTED_DDL, routed, with_tokens
from unskew.apps.keyed.merger import merge
from unskew.apps.keyed.parcels import HEARTBEAT, OUT, Parcel
from unskew.apps.keyed.program import Period, Program, Progress, WorkerBatch
from unskew.apps.keyed.store import MemoryStore
from unskew.apps.keyed.worker import work
from unskew.apps.routing.frames import routed_frame
from unskew.apps.routing.packets import Packer
from unskew.apps.routing.router import Routing
from unskew.apps.spark import placed
from unskew.grouping import named

Batches = Iterator[pa.RecordBatch]

#: The watermark while tuples come, and at the end (the year 10000): works may add times to them, and subtract.
BEGIN, END = -(1 << 60), 253_402_300_800_000
#: Fragments are merged once, at the end.
AT_THE_END = Period(batches=1 << 62)
_TOGETHER = 64 << 20  # bytes of packets that a worker executes at once
_PARCELS = pa.schema(
    [
        *((name, pa.int32()) for name in ("kind", "sender", "merger")),
        *((name, pa.int64()) for name in ("number", "batch_ms")),
        ("blob", pa.binary()),
    ]
)
_DDL = "kind int, sender int, merger int, number long, batch_ms long, blob binary"
_WORKER = "__unskew_worker"


def executed_at_once(tuples: DataFrame, routing: Routing, program: Program, source: str | None) -> DataFrame:
    """The results that workers and mergers make of all tuples, as parcels.

    Parameters
    ----------
    tuples, routing, program
        As for ``unskew.apps.keyed.flow.routed``.
    source : str, optional
        The column with the source of each row.

    """
    tokens = list(range(program.workers))
    if named(routing.grouping).batched:
        chosen = routed_frame(tuples, F.col("key"), routing, _WORKER)
        cut = with_tokens(_cut(program), program, tokens, heartbeats=False)
        packets = chosen.select("key", *program.columns, _WORKER).mapInArrow(cut, ROUTED_DDL)
    else:
        packets = routed(tuples, routing, program, tokens, source=None if source is None else F.col(source))
    packets = packets.withColumn("batch_ms", F.unix_millis(F.current_timestamp()))
    # Each attempt of a task gets its packets in the same order.
    at_workers = placed(packets, program.workers, F.col("worker")).sortWithinPartitions("source", "number")
    rows = at_workers.mapInArrow(_workers(program), _DDL)
    if not program.split:
        return rows
    at_mergers = placed(rows, program.mergers, F.col("merger")).sortWithinPartitions("sender", "number")
    return at_mergers.mapInArrow(_mergers(program), _DDL)


def _cut(program: Program) -> Any:
    """Packets of tuples that are routed already, as a function for ``with_tokens``."""
    carry = ["key", *program.columns]

    def packets(batches: Batches) -> Batches:
        packer = Packer(program.workers)
        for batch in batches:
            tuples = batch.select(carry).set_column(0, "key", batch.column("key").dictionary_encode())
            yield from packer.add(tuples, batch.column(_WORKER).to_numpy())
        yield from packer.flush()

    return packets


def at_worker(program: Program, worker: int, packets: Iterable[bytes], batch_ms: int) -> Iterator[Parcel]:
    """What a worker makes of all its packets. It executes some 64 MiB of them at once."""
    store, progress = MemoryStore(), Progress(closed_ms=BEGIN)
    begin = BEGIN if program.event else batch_ms
    number, size = 0, 0
    together: list[bytes] = []
    for packet in packets:
        together.append(packet)
        size += len(packet)
        if size >= _TOGETHER:
            yield from work(program, store, worker, together, WorkerBatch(number, batch_ms, begin), progress)
            number, size, together = number + 1, 0, []
    yield from work(program, store, worker, together, WorkerBatch(number, batch_ms, begin), progress)
    yield from work(program, store, worker, [], WorkerBatch(number + 1, batch_ms, END, empty=True), progress)


def at_merger(program: Program, merger: int, fragments: Sequence[Parcel], batch_ms: int) -> Iterator[Parcel]:
    """What a merger makes of all fragments of its keys."""
    arrived = [*fragments, Parcel(HEARTBEAT, merger, b"now")]
    yield from merge(program, MemoryStore(), merger, arrived, WorkerBatch(0, batch_ms, END))


def _workers(program: Program) -> Any:
    """The worker of a partition, as a function for ``DataFrame.mapInArrow``: its packets → rows of parcels."""

    def rows(batches: Batches) -> Batches:
        first = next(batches, None)
        if first is None:
            return
        worker, batch_ms = (first.column(name)[0].as_py() for name in ("worker", "batch_ms"))
        packets = (packet.as_py() for batch in chain([first], batches) for packet in batch.column("packet"))
        parcels = at_worker(program, worker, packets, batch_ms)
        yield from _rows((parcel for parcel in parcels if parcel.kind != HEARTBEAT), worker, batch_ms)

    return rows


def _mergers(program: Program) -> Any:
    """The merger of a partition: rows of parcels → rows of parcels. Results of workers pass unchanged."""

    def rows(batches: Batches) -> Batches:
        fragments: list[dict[str, Any]] = []
        for batch in batches:
            is_out = pa.array([kind in OUT for kind in batch.column("kind").to_pylist()])
            yield batch.filter(is_out)
            fragments += batch.filter(pa.array([not each.as_py() for each in is_out])).to_pylist()
        if not fragments:
            return
        merger, batch_ms = fragments[0]["merger"], fragments[0]["batch_ms"]
        parcels = [Parcel(row["kind"], merger, row["blob"]) for row in fragments]
        yield from _rows(at_merger(program, merger, parcels, batch_ms), merger, batch_ms)

    return rows


def _rows(parcels: Iterator[Parcel], sender: int, batch_ms: int) -> Batches:
    for number, parcel in enumerate(parcels):
        row = {"kind": parcel.kind, "sender": sender, "merger": parcel.merger, "number": number}
        yield pa.RecordBatch.from_pylist([row | {"batch_ms": batch_ms, "blob": parcel.blob}], schema=_PARCELS)
