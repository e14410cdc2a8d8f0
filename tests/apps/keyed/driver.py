"""Workers and homes without Spark: the engine's own functions over dictionaries, batch by batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.apps.keyed import home as homes
from unskew.apps.keyed import parcels, worker
from unskew.apps.keyed.parcels import OUT, RESULTS, Parcel
from unskew.apps.keyed.program import Beat, Program
from unskew.apps.keyed.store import MemoryStore
from unskew.apps.topology.packets import cut
from unskew.grouping import create
from unskew.works.interface import KeyedWork, Now


class Tally(KeyedWork):
    """Number and sum of a key's values, told whenever they are settled and when they leave."""

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

    def settle(self, before, after, now: Now):
        return self._told("settled", after), after

    def finish(self, states, now: Now):
        return self._told("finished", states)

    def _told(self, kind, states):
        k = states.num_rows
        columns = [pa.array(np.arange(k, dtype=np.int32)), pa.array([kind] * k), *states.columns]
        return pa.record_batch(columns, ["slot", *self.results.names])


@dataclass
class Driver:
    """A run of W workers; each source routes with a grouping."""

    program: Program
    grouping: str
    sources: int = 1
    seed: int = 0
    results: list[tuple[Any, ...]] = field(default_factory=list)
    counts: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        w = self.program.workers
        self.routers = [create(self.grouping, w, seed=self.seed).at_source(s) for s in range(self.sources)]
        self.workers = [MemoryStore() for _ in range(w)]
        self.homes = [MemoryStore() for _ in range(self.program.homes)]
        self.number = 0

    def batch(self, streams: Sequence[pa.RecordBatch], batch_ms: int, watermark_ms: int | None = None) -> None:
        """Run one batch; a stream for each source, with ``key`` and what the program carries."""
        program = self.program
        beat = Beat(self.number, batch_ms, batch_ms if watermark_ms is None else watermark_ms)
        self.number += 1
        packets: list[list[bytes]] = [[] for _ in self.workers]
        for router, stream in zip(self.routers, streams, strict=True):
            if stream.num_rows:
                routed = router.route(stream.column("key"), np.full(stream.num_rows, batch_ms))
                for to, packet in zip(*cut(stream, routed, program.workers).columns, strict=True):
                    packets[to.as_py()].append(packet.as_py())
        sent: list[Parcel] = []
        for w, store in enumerate(self.workers):
            sent += worker.work(program, store, w, packets[w], beat)
        if program.split:
            arrived = [[p for p in sent if p.home == h] for h in range(program.homes)]
            sent = [parcel for parcel in sent if parcel.kind in OUT]
            for h, own in enumerate(arrived):
                store = self.homes[h] if program.lasting else MemoryStore()
                sent += homes.meet(program, store, h, own, beat)
                assert program.lasting or not any(place[2] >= 0 for place in store.blobs)
        for parcel in sent:
            for row in parcels.opened(parcel.blob).to_pylist() if parcel.kind in OUT else []:
                of = tuple(row.values())
                (self.results if parcel.kind == RESULTS else self.counts).append(of)

    def finished(self) -> list[tuple[Any, ...]]:
        """(window, key, n, total) of the states of a ``Tally`` that have left, sorted."""
        return sorted((window, key, n, total) for window, key, kind, n, total in self.results if kind == "finished")

    def settled(self) -> dict[tuple[Any, ...], tuple[int, int]]:
        """(window, key) → n and total as last told of a ``Tally``."""
        return {(window, key): (n, total) for window, key, kind, n, total in self.results if kind == "settled"}
