"""Works on the engine, in memory: streams of batches, on one worker that has all keys or on workers that share them.

A stream is a list of batches. A batch has tuples, each with its key, its time and the worker that the grouping chose.
The engine is that of ``tests.apps.stateful.driver``: the functions that Spark's tasks run.

* **Whole** (each key at one worker): ``update``, whose results are published; then ``settle``.
* **Split**: each worker's ``update`` makes a *fragment* of its tuples, and its results are dropped. At a merge all
  workers send their fragments, and forget them; the merger makes one state (``merge``) of them and the one that it has.
  That state is settled, and kept at the merger.
* A state that is null throughout is none.
* **Expiry**: a key with its last tuple a TTL before the watermark is finished and forgotten; where keys are split, at a
  merge. At the end all are.
"""

import copy
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests.apps.stateful.driver import Engine as Memory
from tests.apps.stateful.driver import packets_of
from unskew.apps.operators.errors import StateFault
from unskew.apps.operators.interface import result_schema
from unskew.apps.worker.stateful.config import KeyedOperatorConfig
from unskew.apps.worker.stateful.store import KEY, MemoryStore
from unskew.apps.worker.stateful.table import StateTable
from unskew.operators import Now

KEYS = ("a", "b", "c", "")
WORKERS = 4
_FOR_EVER = 1 << 40  # ms: after all times of a stream


@dataclass
class Tuple:
    key: str
    time: int
    worker: int = 0
    values: dict = field(default_factory=dict)


@dataclass
class Batch:
    tuples: list[Tuple]
    now: Now
    merged: bool = False  # where keys are split: whether fragments are merged at its end


class Engine:
    """Runs a work over batches.

    Attributes
    ----------
    published : list of (key, result)
        In the order of publication; a result is a dict.

    """

    def __init__(self, work, columns, *, split=False, workers=WORKERS, seed=0):
        self.work, self.columns, self.split = work, columns, split
        self._merges = _Merges()
        ttl_ms = _FOR_EVER if work.ttl_ms is None else work.ttl_ms
        merges, watched = self._merges if split else None, _watched(work, Random(seed))
        config = KeyedOperatorConfig(
            watched, pa.string(), workers if split else 1, split, event=True, ttl_ms=ttl_ms, merge_every=merges
        )
        self._engine = Memory(config)

    def run(self, batches):
        for batch in batches:
            self.batch(batch)
        self.end()
        return self

    def batch(self, batch):
        self._merges.now = batch.merged
        routed = np.array([each.worker * self.split for each in batch.tuples], np.int32)
        assert not len(routed) or routed.max() < len(self._engine.workers)
        packets = packets_of(self._rows(batch.tuples), routed, len(self._engine.workers))
        try:
            self._engine.run(packets, batch.now.batch_ms, batch.now.watermark_ms)
        except StateFault as fault:
            raise (fault.__cause__ or fault) from None

    def end(self):
        """All states are merged, and leave."""
        self.batch(Batch([], Now(2 * _FOR_EVER, 2 * _FOR_EVER), merged=True))

    @property
    def published(self):
        names = self.work.results.names
        return [(key, dict(zip(names, row, strict=True))) for _, key, *row in self._engine.results]

    @property
    def states(self):
        """Key → its state, at its worker or at the merger."""
        store = MemoryStore()
        store.blobs = dict((self._engine.mergers if self.split else self._engine.workers)[0].blobs)
        table = StateTable(store, 0, self.work.state, pa.string(), self._engine.config.ttl_ms)
        rows = [row for window in table.windows for part in table.take(window) for row in part.to_pylist()]
        return {row[KEY]: {name: row[name] for name in self.work.state.names} for row in rows}

    def final(self):
        """(Key, the columns that tell a result from the key's others) → the last one that was published."""
        return {(key, *(row[name] for name in self.work.identity)): row for key, row in self.published}

    def _rows(self, tuples):
        columns = {
            "key": pa.array([each.key for each in tuples], pa.string()),
            "time": pa.array([each.time for each in tuples], pa.timestamp("ms", "UTC")),
        }
        for name in self.work.columns:
            if name != "key":
                columns[name] = pa.array([each.values.get(name) for each in tuples], self.columns[name])
        return pa.RecordBatch.from_pydict(columns)


class _Merges:
    """When fragments are merged: as the batch says."""

    batches, ms, now = 1, 0, False

    def ends(self, before_ms, now_ms, number):
        return self.now


def _watched(work, random):
    """The work, with checks of all that its methods give: schemas must be exactly as declared, not merely castable.

    States come to ``merge`` in random order.
    """
    seen = copy.copy(work)

    def results(batch):
        if batch is not None:
            assert isinstance(batch, pa.RecordBatch)
            assert batch.schema.equals(result_schema(work))
            batch.validate(full=True)
        return batch

    def states(batch, keys):
        assert isinstance(batch, pa.RecordBatch)
        assert batch.schema.equals(work.state)
        assert batch.num_rows == keys
        batch.validate(full=True)
        return batch

    def update(tuples, before, now):
        given, after = work.update(tuples, before, now)
        return results(given), states(after, before.num_rows)

    def merge(before, slots, keys):
        order = pa.array(random.sample(range(len(slots)), len(slots)), pa.int64())
        return states(work.merge(before.take(order), slots.take(order), keys), keys)

    def settle(before, after, now):
        given, kept = work.on_merge(before, after, now)
        return results(given), states(kept, after.num_rows)

    seen.update, seen.on_merge = update, settle
    seen.on_close = lambda before, now: results(work.on_close(before, now))
    if work.mergeable:
        seen.merge = merge
    return seen


def whole(work, columns, batches):
    """One worker that has all keys."""
    return Engine(work, columns).run(batches)


def parts(work, columns, batches, seed=0):
    """Workers that share keys, merged when the batches say so."""
    workers = 1 + max((each.worker for each in tuples_of(batches)), default=0)
    return Engine(work, columns, split=True, workers=workers, seed=seed).run(batches)


@st.composite
def streams(draw, **values):
    """Batches whose tuples are never older than the watermark of the batch before.

    ``values``: column → strategy.
    """
    tuples = st.builds(
        Tuple, st.sampled_from(KEYS), st.integers(0, 40), st.integers(0, WORKERS - 1), st.fixed_dictionaries(values)
    )
    batches, watermark = [], draw(st.integers(0, 5)) * 100
    for drawn in draw(st.lists(st.lists(tuples, max_size=12), max_size=6)):
        for each in drawn:
            each.time += watermark
        now = watermark + draw(st.integers(0, 60))
        batches.append(Batch(drawn, Now(now + 1000, now), draw(st.booleans())))
        watermark = now
    return batches


def tuples_of(batches):
    return [each for batch in batches for each in batch.tuples]


def by_key(batches):
    """Key → its tuples."""
    found = {}
    for each in tuples_of(batches):
        found.setdefault(each.key, []).append(each)
    return found
