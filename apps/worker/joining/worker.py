"""A worker's batch of a join: finds each row's partners of the other side, and keeps it for later ones.

A worker to which a plan assigns a key gets the key's new rows from the plan's first batch on, but lacks the copied
side's older rows. Another worker of the key writes these to a file, as they are before that batch. In the next batch
the new worker reads them, pairs them with the split side's rows that have come meanwhile, and keeps them. So each pair
is found once, at one worker (``unskew.grouping.split_join``).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.metrics.balance_observation import WorkerLoad
from unskew.apps.metrics.task_reports import StateReport, WorkerReport
from unskew.apps.router import tuple_packets
from unskew.apps.worker.joining.config import JoinConfig
from unskew.apps.worker.joining.join_state import SIDES, JoinLoad, JoinState
from unskew.apps.worker.joining.row_table import TIME, hash_keys_of, set_matched
from unskew.apps.worker.stateful.config import OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.migration import StateTransfers
from unskew.apps.worker.stateful.operator_output import REPORT, WINDOW, Parcel
from unskew.apps.worker.stateful.store import BufferedStore, Store
from unskew.errors import EnvironmentFault
from unskew.grouping.feedback_loop import MigrationReport
from unskew.grouping.split_join.plan import Copies, JoinTable

_FOLDERS = ("left", "right")


def run_join_batch(
    config: JoinConfig,
    store: Store,
    worker: int,
    packets: Sequence[tuple[int, bytes]],
    batch: WorkerBatch,
    progress: OperatorProgress,
) -> Iterator[Parcel]:
    """Execute a worker's part of a batch. The packets have its rows with their side, in order of execution.

    The other arguments are those of ``unskew.apps.worker.stateful.worker.run_batch``. In ``progress``, ``released`` is
    the newest plan under which the worker has executed a batch, ``wrote`` the first such batch, and ``taken`` the
    newest plan whose copies it has read.

    Raises ``EnvironmentFault`` if the checkpoint lacks the plans or copies that the worker needs; ``StateFault`` if the
    kept rows have other columns, or the pairs' condition raises.
    """
    started = time.perf_counter()
    # 1. The batch's plan. The worker was called in the first batch of each plan, as all are in a batch with rows.
    plan, table = _read_plan(config, batch, progress)
    new = plan > progress.released
    buffered = BufferedStore(store)
    join = JoinState(config, buffered, worker)
    # 2. The rows that others copied here when the previous plan assigned a key to this worker (in a lasting plan's
    #    second batch).
    if progress.taken < progress.released:
        due = table.grow if not new else table.grown
        for side, rows in _take_copies(config, worker, progress, due.where(due.receivers == worker), join):
            yield from join.add(side, rows)
    # 3. The rows that this worker copies to others, as they are before the batch: the batch's own go to all workers.
    #    Then it removes those of keys that it gives up, before it could report one as without a partner here.
    copied = _send_copies(config, worker, plan, batch, table, join) if new else (0, 0)
    if new:
        join.leave(table.leave_keys[table.leave_places == worker])
    # 4. The batch's rows. Late rows are behind the watermark at the batch's start, which is the same for all.
    arrived = _read_rows(packets, config)
    load = JoinLoad()
    for side in SIDES:
        rows = arrived[side]
        late = rows.column(TIME).to_numpy() < batch.watermark_ms * 1000
        load.late[side] = int(late.sum())
        yield from join.add(side, rows.filter(pa.array(~late)) if late.any() else rows, load)
    # 5. The rows that can get no more partners leave, slice by slice. Outer rows without a partner are published. If
    #    they have copies elsewhere, these leave in this batch, too, and a merger decides.
    kept = join.rows
    yield from join.publish_alone(batch.watermark_ms * 1000, table)
    join.drop_over(batch.watermark_ms * 1000)
    empty = join.find_empty(table, worker)
    join.close()
    buffered.flush()
    # 6. The progress, which Spark commits with the rows.
    after = replace(progress, taken=progress.released, released=plan, closed_ms=batch.watermark_ms)
    after = replace(after, wrote=batch.number) if new else after
    if after != progress:
        after.write(store)
    # 7. The report, from which the driver makes future plans.
    tuples = sum(rows.num_rows for rows in arrived)
    report = WorkerReport(
        tuples,
        len(load.keys),
        time.perf_counter() - started,
        late=sum(load.late),
        monitor=None if batch.empty else load.report(table, plan, empty),
        states=StateReport(join.rows, join.size, kept - join.rows, 0),
        migration=MigrationReport(progress.taken, plan, *copied, wrote=bool(copied[1])),
    )
    yield from _send_report(config, worker, batch, report, load)


def _send_report(
    config: JoinConfig, worker: int, batch: WorkerBatch, report: WorkerReport, did: JoinLoad
) -> Iterator[Parcel]:
    """Send the worker's report to the driver, and yield what Spark observes, as the config says."""
    if config.routing.reports is not None:
        config.routing.reports.send(batch.number, worker, report)
    if config.observe is not None and report.states is not None:
        kept, moved = report.states, report.migration.keys
        pairs = int(did.pairs.sum())
        load = WorkerLoad(report.tuples, report.keys, report.busy, kept.states, kept.bytes, moved, pairs, did.late)
        yield Parcel(REPORT, worker, load.text().encode())


def _read_plan(config: JoinConfig, batch: WorkerBatch, progress: OperatorProgress) -> tuple[int, JoinTable]:
    """The number of the batch's plan, 0 if none, and its table.

    Raises ``EnvironmentFault`` if it is neither the plan that the worker followed last, nor the next one.
    """
    state = None if config.checkpoint is None else PlanStateLog(config.checkpoint).at(batch.number)
    active = state.active if state is not None else None
    number = active.number if active is not None else 0
    if number not in (progress.released, progress.released + 1):
        plans = Location.of(_get_checkpoint(config)).below("unskew", "plans")
        raise EnvironmentFault(
            f"the rows of the join lie as plan {progress.released} has it, but batch {batch.number} goes by plan "
            f"{number} in {plans}: the checkpoint isn't whole (was it copied during a run?)"
        )
    return number, JoinTable.of(active)


def open_copies(checkpoint: Where, side: int) -> StateTransfers:
    """Open the transfers of one side's rows to new workers."""
    return StateTransfers(checkpoint, "copies", _FOLDERS[side])


def _get_checkpoint(config: JoinConfig) -> Where:
    """The query's checkpoint location, without which there are no plans."""
    assert config.checkpoint is not None
    return config.checkpoint


def _take_copies(
    config: JoinConfig, worker: int, progress: OperatorProgress, due: Copies, join: JoinState
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows that others copied to this worker under the newest plan that it followed, with their side.

    Those that had expired in the batch in which they were copied are left out. Whether a row has a partner at another
    worker is known there.
    """
    for side in np.unique(due.sides).tolist():
        files = dict.fromkeys(np.unique(due.senders[due.sides == side]).tolist(), progress.wrote)
        parts = open_copies(_get_checkpoint(config), side).to(worker, progress.released, files)
        found = pa.concat_batches([join.tables[side].empty(), *(part.drop_columns(WINDOW) for part in parts)])
        live = join.select_live(side, found, 1000 * progress.closed_ms)
        yield side, set_matched(live, np.zeros(live.num_rows, np.bool_)) if config.outer[side] else live


def _send_copies(
    config: JoinConfig, worker: int, plan: int, batch: WorkerBatch, table: JoinTable, join: JoinState
) -> tuple[int, int]:
    """Write the rows that this worker copies to a plan's new workers, and return the number of rows and bytes."""
    number = size = 0
    grow = table.grow.where(table.grow.senders == worker)
    for side in np.unique(grow.sides).tolist():
        own = grow.where(grow.sides == side)
        found = join.tables[side].read_keys(np.unique(own.keys))
        hashes = hash_keys_of(found)
        rows = {
            receiver: found.filter(pa.array(np.isin(hashes, own.keys[own.receivers == receiver])))
            for receiver in np.unique(own.receivers).tolist()
        }
        number += sum(part.num_rows for part in rows.values())
        size += open_copies(_get_checkpoint(config), side).write(worker, plan, batch.number, rows, found.schema)
    return number, size


def _read_rows(packets: Sequence[tuple[int, bytes]], config: JoinConfig) -> list[pa.RecordBatch]:
    """The packets' rows of each side, in order, with the columns of a ``RowTable``."""
    found = []
    for side in SIDES:
        schema = config.row_schema(side)
        parts = [tuple_packets.read_packet(pa.scalar(blob, pa.binary())) for of, blob in packets if of == side]
        batches = [_read_packet(part, schema, outer=config.outer[side]) for part in parts]
        found.append(pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema))
    return found


def _read_packet(packet: pa.RecordBatch, schema: pa.Schema, *, outer: bool) -> pa.RecordBatch:
    key, moment, *others = packet.columns
    plain = key.dictionary_decode() if pa.types.is_dictionary(key.type) else key
    times = moment.cast(pa.timestamp("us", moment.type.tz), safe=False).cast(pa.int64())
    if outer:  # after the two columns with which the router identifies the row
        others.insert(2, pa.array(np.zeros(len(key), np.bool_)))
    columns = [plain, times, *others]
    return pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
