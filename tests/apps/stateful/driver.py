"""Workers and mergers without Spark: the engine's own functions over dictionaries, batch by batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.operators.interface import KeyedOperator, Now
from unskew.apps.router.tuple_packets import cut_packets
from unskew.apps.worker.stateful import merger, operator_output, worker
from unskew.apps.worker.stateful.config import KeyedOperatorConfig, OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.operator_output import OUT, RESULTS, Parcel
from unskew.apps.worker.stateful.store import MemoryStore
from unskew.grouping import create


class Tally(KeyedOperator):
    """Number and sum of a key's values, published whenever they are settled and when they leave."""

    state = pa.schema([("n", pa.int64()), ("total", pa.int64())])
    results = pa.schema([("kind", pa.string()), ("n", pa.int64()), ("total", pa.int64())])

    def __init__(self, column: str = "value") -> None:
        self.columns = (column,)

    def update(self, tuples, states, now):
        slots, values = tuples.column("slot").to_numpy(), tuples.column(self.columns[0]).to_numpy()
        k = states.num_rows
        n = states.column("n").fill_null(0).to_numpy() + np.bincount(slots, minlength=k)
        total = states.column("total").fill_null(0).to_numpy(zero_copy_only=False).copy()
        np.add.at(total, slots, values)
        return None, pa.record_batch([pa.array(n, pa.int64()), pa.array(total)], schema=self.state)

    def merge(self, states, slots, keys):
        columns = []
        for column in states.columns:
            total = np.zeros(keys, np.int64)
            np.add.at(total, slots.to_numpy(), column.to_numpy())
            columns.append(pa.array(total))
        return pa.record_batch(columns, schema=self.state)

    def on_merge(self, before, after, now: Now):
        return self._rows("settled", after), after

    def on_close(self, states, now: Now):
        return self._rows("finished", states)

    def _rows(self, kind, states):
        k = states.num_rows
        columns = [pa.array(np.arange(k, dtype=np.int32)), pa.array([kind] * k), *states.columns]
        return pa.record_batch(columns, ["slot", *self.results.names])


class TallyOfKinds(Tally):
    """Settled and finished results have different identities, so neither overwrites the other."""

    identity = ("kind",)


class Hoard(Tally):
    """A state with as many bytes, or others of its unit, as the sum of its key's values."""

    state = pa.schema([*Tally.state, pa.field("all", pa.binary())])

    def __init__(self, unit: int = 1) -> None:
        super().__init__()
        self.unit = unit

    def update(self, tuples, states, now):
        k = states.num_rows
        held = [blob or b"" for blob in states.column("all").to_pylist()]
        for slot, value in zip(tuples.column("slot").to_pylist(), tuples.column("value").to_pylist(), strict=True):
            held[slot] += bytes(value * self.unit)
        total = pa.array([len(blob) // self.unit for blob in held])
        return None, pa.record_batch([pa.array([1] * k), total, pa.array(held, pa.binary())], schema=self.state)

    def _rows(self, kind, states):
        return super()._rows(kind, states.select(["n", "total"]))


def packets_of(rows: pa.RecordBatch, routed: NDArray[np.int32], workers: int) -> list[list[bytes]]:
    """Each worker's packets of these rows: none or one."""
    packets: list[list[bytes]] = [[] for _ in range(workers)]
    if rows.num_rows:
        for to, packet in zip(*cut_packets(rows, routed, workers).columns, strict=True):
            packets[to.as_py()].append(packet.as_py())
    return packets


class Engine:
    """Workers and mergers with their stores in memory: ``run`` runs one batch.

    Attributes
    ----------
    results, counts : list of tuples
        The rows that were published, in their order: (window, key, the columns).

    """

    def __init__(self, config: KeyedOperatorConfig) -> None:
        self.config = config
        self.workers = [MemoryStore() for _ in range(config.workers)]
        self.mergers = [MemoryStore() for _ in range(config.mergers)]
        self.number = 0
        self.results: list[tuple[Any, ...]] = []
        self.counts: list[tuple[Any, ...]] = []

    def run(self, packets: Sequence[Sequence[bytes]], batch_ms: int, watermark_ms: int, *, empty: bool = False) -> None:
        """Run one batch; worker w gets ``packets[w]``; ``empty``: as Spark does where only the watermark has moved."""
        config = self.config
        given = WorkerBatch(self.number, batch_ms, watermark_ms, empty)
        [batch] = {worker.advance_time(config, OperatorProgress.read(store), given) for store in self.workers}
        self.number += 1
        sent: list[Parcel] = []
        for w, store in enumerate(self.workers):
            sent += worker.run_batch(config, store, w, packets[w], batch, OperatorProgress.read(store))
        if config.split:
            arrived = [[p for p in sent if p.merger == h] for h in range(config.mergers)]
            sent = [parcel for parcel in sent if parcel.kind in OUT]
            for h, own in enumerate(arrived):
                store = self.mergers[h] if config.mergers_keep else MemoryStore()
                sent += merger.merge_fragments(config, store, h, own, batch)
                assert config.mergers_keep or not any(address[2] >= 0 for address in store.blobs)
        for parcel in sent:
            for row in operator_output.read_rows(parcel.blob).to_pylist() if parcel.kind in OUT else []:
                (self.results if parcel.kind == RESULTS else self.counts).append(tuple(row.values()))


class Driver(Engine):
    """An engine whose sources route with a grouping."""

    def __init__(self, config: KeyedOperatorConfig, grouping: str, sources: int = 1, seed: int = 0) -> None:
        super().__init__(config)
        self.routers = [create(grouping, config.workers, seed=seed).at_source(s) for s in range(sources)]

    def batch(self, streams: Sequence[pa.RecordBatch], batch_ms: int, watermark_ms: int | None = None) -> None:
        """Run one batch; a stream for each source, with ``key`` and the columns that the config names."""
        packets: list[list[bytes]] = [[] for _ in self.workers]
        for router, stream in zip(self.routers, streams, strict=True):
            if stream.num_rows:
                routed = router.route(stream.column("key"), np.full(stream.num_rows, batch_ms))
                for w, own in enumerate(packets_of(stream, routed, len(self.workers))):
                    packets[w] += own
        self.run(packets, batch_ms, batch_ms if watermark_ms is None else watermark_ms)

    def move(self, watermark_ms: int) -> None:
        """Run a batch without rows, for the watermark alone."""
        self.run([[] for _ in self.workers], watermark_ms, watermark_ms, empty=True)

    def finished(self) -> list[tuple[Any, ...]]:
        """(window, key, n, total) of the states of a ``Tally`` that have left, sorted."""
        return sorted((window, key, n, total) for window, key, kind, n, total in self.results if kind == "finished")

    def settled(self) -> dict[tuple[Any, ...], tuple[int, int]]:
        """(window, key) → n and total as last published by a ``Tally``."""
        return {(window, key): (n, total) for window, key, kind, n, total in self.results if kind == "settled"}
