"""Keys that change hands: what a worker takes in before a batch's tuples, and hands out after them.

Between two batches nothing is in flight, so a key moves without a tuple that waits. A plan is *pending* first: at the
end of its next batch each worker hands out the states of the keys that it will no longer have. When all have done so
the plan is *active*: routers go by it, and before its first tuple a worker takes in what was handed to it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.feedback.plans import Plans
from unskew.apps.keyed.handed import Handed
from unskew.apps.keyed.note import Note
from unskew.apps.keyed.parcels import by_window, windowed
from unskew.apps.keyed.table import Table
from unskew.apps.topology.router import Routing
from unskew.grouping import Grouping
from unskew.grouping.feedback import Plan
from unskew.grouping.keys import hashed


class Mover:
    """One worker's part in the plans of a run, during one batch.

    Parameters
    ----------
    routing : Routing, optional
        How tuples get to workers; None: there are no plans.
    worker, batch : int
        Whose part, and in which batch.
    note : Note
        What the worker has noted before.

    Attributes
    ----------
    note : Note
        What it is to note.
    seconds : float
        The time that it took.

    """

    def __init__(self, routing: Routing | None, worker: int, batch: int, note: Note) -> None:
        self.note = note
        self.seconds = 0.0
        self._before = note
        self._routing = routing
        self._worker = worker
        self._batch = batch
        self._again = False
        self._keys = self._size = 0
        with self._timed():
            location = routing.checkpoint if routing is not None else None
            self._standing = Plans(location).at(batch) if location is not None else None
            self._handed = Handed(location) if location is not None and self._standing is not None else None

    @property
    def moves(self) -> bool:
        """Whether states come or go in this batch, as far as can be known before."""
        standing = self._standing
        if standing is None:
            return False
        return standing.pending is not None or (
            standing.active is not None and standing.active.number > self.note.taken
        )

    def take_in(self, table: Table) -> None:
        """Put what other workers have handed to this one into its table, of the plans that have become active."""
        if self._standing is None or self._handed is None:
            return
        with self._timed():
            active, pending = self._standing.active, self._standing.pending
            if active is not None and active.number > self.note.taken:
                for plan in self._handed.plans():
                    if self.note.taken < plan <= active.number:
                        _put(table, self._handed.to(self._worker, plan, self._batch))
                self.note = replace(self.note, taken=active.number)
            if pending is not None and pending.number == self.note.released:
                # Some worker wasn't called when this one was: the keys are routed here once more.
                back = self._handed.back(self._worker, pending.number, self._batch)
                self._again = back is not None
                _put(table, back or [])

    def hand_out(self, table: Table, *, split: bool) -> None:
        """Hand out the states of the keys that the pending plan gives to others; where keys are split, none are."""
        if self._standing is None or self._handed is None or self._standing.pending is None:
            return
        with self._timed():
            pending = self._standing.pending
            rows = {} if split else self._leaving(table, pending)
            if rows or self._again:
                schema = windowed(0, table.empty()).schema
                self._keys = sum(part.num_rows for part in rows.values())
                self._size = self._handed.hand(self._worker, pending.number, self._batch, rows, schema)
            self.note = replace(self.note, released=pending.number)

    def _leaving(self, table: Table, pending: Plan) -> dict[int, pa.RecordBatch]:
        """The rows that leave the table, by their receiver."""
        assert self._routing is not None
        assert self._standing is not None
        now = router_by(self._routing, self._standing.active, self._standing.workers)
        then = router_by(self._routing, pending, self._standing.pending_workers)
        named = now.moving(then, table.keys)  # a list of more keys than there are here is dearer than to look at all
        if named is not None:
            named = named[owners(now, named) == self._worker]
        rows: dict[int, list[pa.RecordBatch]] = {}
        for window, part, whose in table.hand_out(lambda hashes: self._others(owners(then, hashes)), named):
            order = np.argsort(whose, kind="stable")
            ordered, receivers = windowed(window, part.take(pa.array(order))), np.unique(whose)
            bounds = np.append(np.searchsorted(whose[order], receivers), len(whose)).tolist()
            for receiver, start, stop in zip(receivers.tolist(), bounds, bounds[1:], strict=False):
                rows.setdefault(receiver, []).append(ordered.slice(start, stop - start))
        return {receiver: pa.concat_batches(parts) for receiver, parts in rows.items()}

    def _others(self, whose: NDArray[np.int32]) -> NDArray[np.int32]:
        """To whom keys go that will be these workers'; −1: they stay."""
        return np.where(whose == self._worker, np.int32(-1), whose)

    def report(self) -> dict[str, Any]:
        """For the driver: ``taken`` as of before the batch, so that no replay asks for it; and what was handed out."""
        return {
            "taken": self._before.taken, "released": self.note.released,
            "moved_keys": self._keys, "moved_bytes": self._size, "moving": self.seconds,
        }  # fmt: skip

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started


def router_by(routing: Routing, plan: Plan | None, workers: int) -> Grouping:
    """A router that goes by a plan."""
    router = routing.router(workers)
    if plan is not None:
        router.adopt(plan)
    return router


def owners(router: Grouping, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The one worker of each key, by its hash: int32[k]."""
    found = router.owners(hashed(hashes))
    assert found is not None, f"{router.name} has no owners"
    return found


def _put(table: Table, parts: list[pa.RecordBatch]) -> None:
    if parts:
        for window, rows in by_window(pa.concat_batches(parts)):
            table.take_in(window, rows)
