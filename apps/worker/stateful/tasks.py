"""The operators' batch: a worker makes parcels from packets, and a merger makes results from fragments."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from unskew.apps.checkpoint.overflow import Overflow, content
from unskew.apps.worker.stateful.config import Program, Progress, WorkerBatch
from unskew.apps.worker.stateful.merger import merge
from unskew.apps.worker.stateful.operator_output import HEARTBEAT, OUT, SMALL, Parcel
from unskew.apps.worker.stateful.store import MemoryStore, SparkStore
from unskew.apps.worker.stateful.worker import going_on, work
from unskew.spark.micro_batches import batch_number


def worker_rows(
    program: Program,
    tokens: list[int],
    state: Any,
    worker: int,
    packets: list[bytes],
    batch_ms: int,
    watermark_ms: int,
    overflow: Overflow,
    *,
    empty: bool,
) -> Iterator[Row]:
    """A worker's batch: packets → rows of ``operators.PARCELS``.

    ``state`` is the worker's ``MapState``. ``overflow`` is that of the operator's call, which may be several workers'.
    """
    store = SparkStore(state)
    progress = Progress.read(store)
    batch = going_on(program, progress, WorkerBatch(batch_number() or 0, batch_ms, watermark_ms, empty))
    parcels = work(program, store, worker, packets, batch, progress)
    yield from rows_of(parcels, tokens, "worker", worker, batch, overflow)


def merger_rows(program: Program, tokens: list[int], state: Any, arrived: list[Any]) -> Iterator[Row]:
    """A merger's batch: rows of parcels → rows of parcels. ``state`` is the merger's ``MapState``.

    Results and counts from workers pass unchanged.
    """
    yield from (row for row in arrived if row["kind"] in OUT)
    first = arrived[0]
    batch = WorkerBatch(batch_number() or 0, first["batch_ms"], first["watermark_ms"])
    parcels = _parcels(program, (row for row in arrived if row["kind"] not in OUT))
    merged = merge(program, SparkStore(state), first["merger"], parcels, batch)
    yield from rows_of(merged, tokens, "merger", first["merger"], batch, Overflow(program.checkpoint, program.most))


def _parcels(program: Program, rows: Iterable[Any]) -> list[Parcel]:
    return [Parcel(row["kind"], row["merger"], content(bytes(row["blob"]), program.checkpoint)) for row in rows]


def rows_of(
    parcels: Iterable[Parcel], tokens: list[int], role: str, sender: int, batch: WorkerBatch, overflow: Overflow
) -> Iterator[Row]:
    """Parcels of a worker or a merger (``role``) as rows of ``operators.PARCELS``."""
    name, times = f"{role}-{sender}", {"batch_ms": batch.batch_ms, "watermark_ms": batch.watermark_ms}
    for number, parcel in enumerate(parcels):
        blob = parcel.blob if parcel.kind in SMALL else overflow.put(name, batch.number, number, parcel.blob)
        head = {"token": tokens[parcel.merger], "kind": parcel.kind, "sender": sender, "number": number}
        yield Row(**head, merger=parcel.merger, blob=blob, **times)
    overflow.forget(name, batch.number)


def stateless_merger(program: Program) -> Any:
    """A merger that keeps no states, as a function for ``DataFrame.mapInArrow``: every fragment leaves at once."""

    def parcels(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        schema = None
        for batch in batches:
            schema = batch.schema
            out = pa.array([kind in OUT for kind in batch.column("kind").to_pylist()])
            yield batch.filter(out)
            rows += batch.filter(pa.array([not each.as_py() for each in out])).to_pylist()
        if rows:
            rows.sort(key=lambda row: (row["sender"], row["number"]))
            first = rows[0]
            own = WorkerBatch(batch_number() or 0, first["batch_ms"], first["watermark_ms"])
            # It has no batch to come, so that even states with a TTL leave (``unskew.apps.library.static_keyed_map``).
            arrived = [*_parcels(program, rows), Parcel(HEARTBEAT, first["merger"], b"now")]
            for number, parcel in enumerate(merge(program, MemoryStore(), first["merger"], arrived, own)):
                row = first | {"kind": parcel.kind, "sender": first["merger"], "number": number, "blob": parcel.blob}
                yield pa.RecordBatch.from_pylist([row], schema=schema)

    return parcels
