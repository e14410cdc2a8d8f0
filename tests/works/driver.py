"""The protocol of keyed works in memory: what an engine does with a work, and nothing else.

A stream is a list of batches. A batch has tuples, each with its key, its time and the worker that the grouping chose.

* **Kept whole** (each key at one worker): ``update``, whose results are published; then ``settle``.
* **Split**: each worker's ``update`` makes a *fragment* of what it got, and its results are dropped. At a merge all
  workers hand out their fragments, and forget them; with the state that the merger has they make one (``merge``), which
  is settled, and kept at the merger.
* A state that is null throughout is none: it is dropped.
* **Expiry**: a key whose last tuple is a TTL before the watermark is finished and forgotten; where keys are split,
  after a merge. At the end (a window's close) all are.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from unskew.works import Now


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
    merged: bool = False  # where keys are split: whether a merge follows


class Engine:
    """Runs a work over batches.

    Attributes
    ----------
    published : list of (key, result)
        In the order of publication; a result is a dict.

    """

    def __init__(self, work, columns, *, split=False, seed=0):
        self.work, self.columns, self.split = work, columns, split
        self.published = []
        self.fragments = defaultdict(list)  # key → its states at the workers; only if keys are split
        self.states = {}  # key → its state, at its worker or at the merger
        self.last = {}  # key → the greatest time of its tuples
        self.random = Random(seed)

    def run(self, batches):
        for batch in batches:
            self.batch(batch)
        self.end(batches[-1].now if batches else Now(0, 0))
        return self

    def batch(self, batch):
        for each in batch.tuples:
            self.last[each.key] = max(each.time, self.last.get(each.key, each.time))
        for worker in sorted({each.worker for each in batch.tuples}):
            self.work_on([each for each in batch.tuples if each.worker == worker or not self.split], batch.now, worker)
            if not self.split:
                break
        if self.split and batch.merged:
            self.merge(batch.now)
        self.expire(batch.now)

    def work_on(self, tuples, now, worker):
        """One worker's tuples of a batch."""
        keys = list(dict.fromkeys(each.key for each in tuples))
        own = {key: dict(self.fragments[key]).get(worker) for key in keys} if self.split else self.states
        before = self.rows([own.get(key) for key in keys])
        results, after = self.work.update(self.arrow(tuples, keys), before, now)
        self.check(after, len(keys))
        if self.split:
            for key, row in zip(keys, after.to_pylist(), strict=True):
                others = [(who, state) for who, state in self.fragments[key] if who != worker]
                self.fragments[key] = [*others, (worker, row)] if there(row) else others
        else:
            self.publish(keys, results)
            self.settle(keys, before, after, now)

    def merge(self, now):
        """All fragments of all keys that have one."""
        keys = sorted(key for key, fragments in self.fragments.items() if fragments)
        if not keys:
            return
        before = self.rows([self.states.get(key) for key in keys])
        rows = [(slot, state) for slot, key in enumerate(keys) for _, state in self.fragments[key]]
        rows += [(slot, self.states[key]) for slot, key in enumerate(keys) if key in self.states]
        self.random.shuffle(rows)
        self.fragments.clear()
        slots = pa.array([slot for slot, _ in rows], pa.int32())
        after = self.work.merge(self.rows([state for _, state in rows]), slots, len(keys))
        self.check(after, len(keys))
        self.settle(keys, before, after, now)

    def settle(self, keys, before, after, now):
        results, kept = self.work.settle(before, after, now)
        self.check(kept, len(keys))
        self.publish(keys, results)
        for key, row in zip(keys, kept.to_pylist(), strict=True):
            self.states[key] = row
            if not there(row):
                del self.states[key]

    def expire(self, now):
        if self.work.ttl_ms is None:
            return
        gone = [
            key
            for key in sorted(self.states)
            if self.last[key] + self.work.ttl_ms <= now.watermark_ms and not self.fragments.get(key)
        ]
        self.finish(gone, now)

    def end(self, now):
        """The window closes."""
        if self.split:
            self.merge(now)
        self.finish(sorted(self.states), now)

    def finish(self, keys, now):
        if keys:
            self.publish(keys, self.work.finish(self.rows([self.states.pop(key) for key in keys]), now))

    def publish(self, keys, results):
        if results is None:
            return
        assert isinstance(results, pa.RecordBatch)
        assert results.schema.equals(pa.schema([pa.field("slot", pa.int32()), *self.work.results]))
        results.validate(full=True)
        for row in results.to_pylist():
            self.published.append((keys[row.pop("slot")], row))

    def final(self):
        """(Key, what tells a result from the key's others) → the last one that was published."""
        return {(key, *(row[name] for name in self.work.identity)): row for key, row in self.published}

    def rows(self, states):
        empty = dict.fromkeys(self.work.state.names)
        return pa.RecordBatch.from_pylist([state or empty for state in states], schema=self.work.state)

    def arrow(self, tuples, keys):
        slots = {key: slot for slot, key in enumerate(keys)}
        columns = {
            "slot": pa.array([slots[each.key] for each in tuples], pa.int32()),
            "time": pa.array([each.time for each in tuples], pa.int64()),
        }
        for name in self.work.columns:
            if name == "key":
                columns["key"] = pa.array([each.key for each in tuples]).dictionary_encode()
            else:
                columns[name] = pa.array([each.values.get(name) for each in tuples], self.columns[name])
        return pa.RecordBatch.from_pydict(columns)

    def check(self, states, keys):
        assert isinstance(states, pa.RecordBatch)
        assert states.schema.equals(self.work.state)
        assert states.num_rows == keys
        states.validate(full=True)


def there(row):
    return any(value is not None for value in row.values())


def whole(work, columns, batches):
    """One process that keeps all keys."""
    return Engine(work, columns).run(batches)


def parts(work, columns, batches, seed=0):
    """Workers that share keys, merged when the batches say so."""
    return Engine(work, columns, split=True, seed=seed).run(batches)
