"""A batch in Spark's operators: workers turn packets into parcels, and mergers fragments into results."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Row

from unskew.apps.checkpoint.overflow import Overflow, fetch_blob
from unskew.apps.worker.stateful.config import DataflowConfig, KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.merger import merge_fragments
from unskew.apps.worker.stateful.operator_output import HEARTBEAT, OUT, SMALL, Parcel
from unskew.apps.worker.stateful.store import MemoryStore, SparkStore
from unskew.apps.worker.stateful.worker import advance_time, run_batch
from unskew.spark.micro_batches import get_batch_number

#: A merger's parcels in a batch, its number, and the batch → the parcels of its results.
Merge: TypeAlias = Callable[[list[Parcel], int, WorkerBatch], Iterable[Parcel]]


def run_worker(
    config: Any,
    tokens: list[int],
    state: Any,
    worker: int,
    packets: list[Any],
    batch_ms: int,
    watermark_ms: int,
    overflow: Overflow,
    *,
    empty: bool,
    run: Callable[..., Iterator[Parcel]] = run_batch,
) -> Iterator[Row]:
    """Run a worker's batch: packets → rows of ``operator.PARCELS``.

    ``state`` is the worker's ``MapState``. ``overflow`` is the operator call's, which may be several workers'. ``run``
    executes the batch, with the signature of ``run_batch``.
    """
    store = SparkStore(state)
    progress = OperatorProgress.read(store)
    batch = advance_time(config, progress, WorkerBatch(get_batch_number() or 0, batch_ms, watermark_ms, empty))
    parcels = run(config, store, worker, packets, batch, progress)
    yield from make_rows(parcels, tokens, "worker", worker, batch, overflow)


def run_merger(config: KeyedOperatorConfig, tokens: list[int], state: Any, arrived: list[Any]) -> Iterator[Row]:
    """Run a merger's batch: rows of parcels → rows of parcels. ``state`` is the merger's ``MapState``.

    Results and counts from workers pass unchanged.
    """
    yield from (row for row in arrived if row["kind"] in OUT)
    first = arrived[0]
    batch = WorkerBatch(get_batch_number() or 0, first["batch_ms"], first["watermark_ms"])
    parcels = _read_blobs(config, (row for row in arrived if row["kind"] not in OUT))
    merged = merge_fragments(config, SparkStore(state), first["merger"], parcels, batch)
    yield from make_rows(merged, tokens, "merger", first["merger"], batch, Overflow(config.checkpoint, config.most))


def _read_blobs(config: DataflowConfig, rows: Iterable[Any]) -> list[Parcel]:
    return [Parcel(row["kind"], row["merger"], fetch_blob(bytes(row["blob"]), config.checkpoint)) for row in rows]


def make_rows(
    parcels: Iterable[Parcel], tokens: list[int], role: str, sender: int, batch: WorkerBatch, overflow: Overflow
) -> Iterator[Row]:
    """Convert a worker's or merger's (``role``) parcels to rows of ``operator.PARCELS``."""
    name, times = f"{role}-{sender}", {"batch_ms": batch.batch_ms, "watermark_ms": batch.watermark_ms}
    for number, parcel in enumerate(parcels):
        blob = parcel.blob if parcel.kind in SMALL else overflow.put(name, batch.number, number, parcel.blob)
        head = {"token": tokens[parcel.merger], "kind": parcel.kind, "sender": sender, "number": number}
        yield Row(**head, merger=parcel.merger, blob=blob, **times)
    overflow.forget(name, batch.number)


def make_stateless_merger(config: DataflowConfig, merge: Merge | None = None) -> Any:
    """A merger without states, as a function for ``DataFrame.mapInArrow``.

    ``merge`` turns a merger's parcels of a batch into parcels of results. Default: it merges fragments of states.
    """
    if merge is None:
        merge = partial(_merge_at_once, config)

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
            own = WorkerBatch(get_batch_number() or 0, first["batch_ms"], first["watermark_ms"])
            for number, parcel in enumerate(merge(_read_blobs(config, rows), first["merger"], own)):
                row = first | {"kind": parcel.kind, "sender": first["merger"], "number": number, "blob": parcel.blob}
                yield pa.RecordBatch.from_pylist([row], schema=schema)

    return parcels


def _merge_at_once(config: Any, parcels: list[Parcel], merger: int, batch: WorkerBatch) -> Iterator[Parcel]:
    """Merge fragments of a merger without a next batch: even states with a TTL leave."""
    return merge_fragments(config, MemoryStore(), merger, [*parcels, Parcel(HEARTBEAT, merger, b"now")], batch)
