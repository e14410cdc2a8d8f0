"""Migrates keys' states between workers under a plan.

Between batches no tuple is in flight, so none waits when a key moves. A plan is *pending* first: at the end of the next
batch, each worker releases the states of the keys that leave it. When all have done so, the plan is *active*, and
routers follow it. A worker reads the states released to it before it executes a tuple.

The states travel in files next to the checkpoint. A worker writes one file per plan, with a batch of rows for each
receiver, and each receiver reads its rows in all files. The file is written as a whole, at the end of the batch in
which the rows leave the table. If that batch runs again, it finds the old table, and writes the same bytes. Workers
report which files they have written, and the plan state names them. A receiver reads exactly these, whatever a listing
of the folder says.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.apps.checkpoint.folders import list_numbers, read_patiently
from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.router.router import Routing
from unskew.apps.worker.stateful.config import OperatorProgress
from unskew.apps.worker.stateful.operator_output import WINDOW, add_window, split_by_window
from unskew.apps.worker.stateful.store import KEY
from unskew.apps.worker.stateful.table import StateTable
from unskew.errors import EnvironmentFault
from unskew.grouping import Grouping
from unskew.grouping.feedback import Plan
from unskew.grouping.feedback_loop import MigrationReport, PlanState
from unskew.grouping.keys import hash_keys, keys_from_hashes

_RECEIVERS = b"unskew.receivers"


class StateTransfers:
    """The files of states in transit between workers, by plan.

    A plan's files are ``<checkpoint>/unskew/moves/<number>/<sender>-<batch>``, or in another folder than ``moves``. If
    a worker has written its file before others have released their states, it takes its states back in the next batch
    that calls it, and releases them anew at that batch's end. So a sender's valid file is the newest one of earlier
    batches. A plan's valid files are given as sender → batch.
    """

    def __init__(self, checkpoint: Where, *folder: str) -> None:
        self._location = Location.of(checkpoint).below("unskew", *(folder or ("moves",)))

    def plans(self) -> list[int]:
        """The numbers of the plans that have files, ascending."""
        return list_numbers(self._location.folder())

    def to(self, receiver: int, plan: int, files: Mapping[int, int]) -> list[pa.RecordBatch]:
        """The rows, with ``WINDOW``, released to a worker under a plan.

        Raises ``EnvironmentFault`` if a file isn't visible here, although the worker has waited for it.
        """
        return [part for file in sorted(files.items()) for part in self._read(plan, file, receiver)]

    def by(self, sender: int, plan: int, batch: int) -> list[pa.RecordBatch]:
        """All rows that a worker released under a plan in a batch. Raises as ``to``."""
        return self._read(plan, (sender, batch))

    def write(self, sender: int, plan: int, batch: int, rows: Mapping[int, pa.RecordBatch], schema: pa.Schema) -> int:
        """Write a worker's file with the rows for each receiver, of this schema with ``WINDOW``; returns its size."""
        receivers = sorted(rows)
        described = schema.with_metadata({_RECEIVERS: ",".join(map(str, receivers)).encode()})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, described) as writer:
            for receiver in receivers:
                writer.write_batch(_sort_rows(rows[receiver]))
        data = sink.getvalue().to_pybytes()
        self._location.folder(str(plan)).write(_format_name(sender, batch), data)
        return len(data)

    def forget(self, taken: Sequence[int]) -> None:
        """Remove the files that no replay reads.

        ``taken`` has the newest plan whose states each worker had received before the finished batch.
        """
        if min(taken):
            for plan in self.plans():
                if plan <= min(taken):
                    self._location.folder(str(plan)).clear()

    def _read(self, plan: int, written: tuple[int, int], receiver: int | None = None) -> list[pa.RecordBatch]:
        """The rows of a file (sender, batch), of one receiver or of all."""
        with self._open(plan, *written) as file, pa.ipc.open_file(file) as reader:
            wanted = [n for n, of in enumerate(_read_receivers(reader.schema)) if receiver is None or of == receiver]
            return [reader.get_batch(number).replace_schema_metadata() for number in wanted]

    def _open(self, plan: int, sender: int, batch: int) -> pa.NativeFile:
        """Open a file. It may not be visible yet if this machine has just looked for it in vain."""
        folder = self._location.folder(str(plan))
        try:
            return read_patiently(lambda: folder.open(_format_name(sender, batch)))
        except FileNotFoundError as error:
            raise EnvironmentFault(
                f"the states that worker {sender} released in batch {batch} are not in "
                f"{self._location.below(str(plan), _format_name(sender, batch))}: does every machine "
                "see the checkpoint?"
            ) from error


def _format_name(sender: int, batch: int) -> str:
    return f"{sender}-{batch}"


def _read_receivers(schema: pa.Schema) -> list[int]:
    return [int(number) for number in (schema.metadata or {})[_RECEIVERS].decode().split(",") if number]


def _sort_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Sort rows by window, hash and key, so that the same rows in any order give the same bytes."""
    by = pa.table({"window": rows.column(WINDOW), "hash": hash_keys(rows.column(KEY)), "key": rows.column(KEY)})
    order = pc.call_function("sort_indices", [by], pc.SortOptions([(name, "ascending") for name in by.column_names]))
    return rows.take(order)


class Migration:
    """One worker's part in a run's plans, if there are any, in one batch.

    ``progress`` is given as the worker's after the previous batch, and is afterwards that after this batch, with the
    changes by plans. ``seconds`` is the time that the migration took.
    """

    def __init__(self, routing: Routing | None, worker: int, batch: int, progress: OperatorProgress) -> None:
        self.progress = progress
        self.seconds = 0.0
        self._before = progress
        self._routing = routing
        self._worker = worker
        self._batch = batch
        self._again = self._wrote = False
        self._keys = self._size = 0
        with self._measure_time():
            location = routing.checkpoint if routing is not None else None
            self._plans = PlanStateLog(location).at(batch) if location is not None else None
            self._transfers = StateTransfers(location) if location is not None and self._plans is not None else None
        if location is not None:
            self._require_plans(Location.of(location))

    def _require_plans(self, checkpoint: Location) -> None:
        """Refuse plans older than the worker's states, because routers and states would differ.

        Raises ``EnvironmentFault`` if the worker has received or released states under a plan that the checkpoint no
        longer has.
        """
        plans = self._plans or PlanState(0)
        active, pending = (plan.number if plan is not None else 0 for plan in (plans.active, plans.pending))
        if self.progress.taken > active or self.progress.released > max(active, pending):
            newest = max(self.progress.taken, self.progress.released)
            raise EnvironmentFault(
                f"the states of worker {self._worker} lie as plan {newest} has it, which isn't in "
                f"{checkpoint.below('unskew', 'plans')}: the checkpoint isn't whole (was it copied during a run?)"
            )

    @property
    def may_move(self) -> bool:
        """Whether states may arrive or leave in this batch."""
        plans = self._plans
        if plans is None:
            return False
        return plans.pending is not None or (plans.active is not None and plans.active.number > self.progress.taken)

    def take_in(self, table: StateTable) -> None:
        """Add the states that others have released to this worker under now active plans to the table."""
        if self._plans is None or self._transfers is None:
            return
        with self._measure_time():
            active, pending = self._plans.active, self._plans.pending
            if active is not None and active.number > self.progress.taken:
                # A plan becomes active only after all its workers, and the previous plan's, were called. So earlier
                # plans that this worker hasn't received have no states for it: it had no part in them. If it isn't in
                # this plan either, the plan's files may be gone, because the workers that need them have read them.
                if self._worker < self._plans.workers:
                    _store_rows(table, self._transfers.to(self._worker, active.number, self._plans.files))
                self.progress = replace(self.progress, taken=active.number)
            if pending is not None and pending.number == self.progress.released:
                # Some worker wasn't called in the batch in which this one released its states: the plan is still
                # pending, and the keys are routed here again.
                written = self._own_file()
                if written >= 0:
                    self._again = True
                    _store_rows(table, self._transfers.by(self._worker, pending.number, written))

    def _own_file(self) -> int:
        """The batch in which the worker wrote its file for the pending plan; −1 if it wrote none.

        Only the worker's progress, stored with its states, is reliable. Reports, from which plan states are made, may
        be lost with a driver.
        """
        return self.progress.wrote

    def release(self, table: StateTable, *, split: bool) -> None:
        """Release the states of keys that the pending plan gives to other workers. Split keys have none here."""
        if self._plans is None or self._transfers is None or self._plans.pending is None:
            return
        with self._measure_time():
            pending = self._plans.pending
            rows = {} if split else self._select_leaving(table, pending)
            if rows or self._again:
                schema = add_window(0, table.empty()).schema
                self._keys = sum(part.num_rows for part in rows.values())
                self._size = self._transfers.write(self._worker, pending.number, self._batch, rows, schema)
                self._wrote = True
            self.progress = replace(self.progress, released=pending.number, wrote=self._batch if self._wrote else -1)

    def _select_leaving(self, table: StateTable, pending: Plan) -> dict[int, pa.RecordBatch]:
        """The rows that leave the table, by receiver."""
        assert self._routing is not None
        assert self._plans is not None
        now = make_router(self._routing, self._plans.active, self._plans.workers)
        then = make_router(self._routing, pending, self._plans.pending_workers)
        named = now.moving_keys(then, table.keys)  # None if the list would be longer than the table
        if named is not None:
            named = named[find_owners(now, named) == self._worker]
        rows: dict[int, list[pa.RecordBatch]] = {}
        for window, part, receiver_of_row in table.release(
            lambda hashes: self._receivers(find_owners(then, hashes)), named
        ):
            order = np.argsort(receiver_of_row, kind="stable")
            ordered, receivers = add_window(window, part.take(pa.array(order))), np.unique(receiver_of_row)
            bounds = np.append(np.searchsorted(receiver_of_row[order], receivers), len(receiver_of_row)).tolist()
            for receiver, start, stop in zip(receivers.tolist(), bounds, bounds[1:], strict=False):
                rows.setdefault(receiver, []).append(ordered.slice(start, stop - start))
        return {receiver: pa.concat_batches(parts) for receiver, parts in rows.items()}

    def _receivers(self, owner: NDArray[np.int32]) -> NDArray[np.int32]:
        """The receivers of keys with these new owners, int32[k]; −1 if the key stays here."""
        return np.where(owner == self._worker, np.int32(-1), owner)

    def report(self) -> MigrationReport:
        """The report to the driver."""
        return MigrationReport(self._before.taken, self.progress.released, self._keys, self._size, self._wrote)

    @contextmanager
    def _measure_time(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started


def make_router(routing: Routing, plan: Plan | None, workers: int) -> Grouping:
    """A router that follows a plan."""
    router = routing.router(workers)
    if plan is not None:
        router.adopt(plan)
    return router


def find_owners(router: Grouping, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The only worker of each key, from its hash: int32[k]."""
    found = router.owners(keys_from_hashes(hashes))
    assert found is not None, f"{router.name} has no owners"
    return found


def _store_rows(table: StateTable, parts: list[pa.RecordBatch]) -> None:
    alike: dict[pa.Schema, list[pa.RecordBatch]] = {}  # an older operator may have released some
    for part in parts:
        alike.setdefault(part.schema, []).append(part)
    for some in alike.values():
        for window, rows in split_by_window(pa.concat_batches(some)):
            table.take_in(window, rows)
