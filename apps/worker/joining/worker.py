"""A worker's batch of a join: each row finds its partners of the other side, and is kept for those that come later.

Where a plan gives a key to a worker anew, the worker has the key's new rows from the plan's first batch on. In that
batch it lacks the copied side's older rows. Another place of the key writes these to a file, as they are before the
batch. In the batch after, the worker reads them. They find the rows of the split side that have come meanwhile, and are
kept. So each pair is found once, at one worker (``unskew.grouping.split_join``).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.metrics.balance_observation import WorkerLoad
from unskew.apps.metrics.task_reports import StateReport, WorkerReport
from unskew.apps.operators.errors import StateFault
from unskew.apps.operators.time_pairs import find_close_pairs, number_by_group
from unskew.apps.router import tuple_packets
from unskew.apps.worker.joining.config import JoinConfig
from unskew.apps.worker.joining.row_table import TIME, RowTable, find_codes
from unskew.apps.worker.stateful.config import OperatorProgress, WorkerBatch
from unskew.apps.worker.stateful.migration import StateTransfers
from unskew.apps.worker.stateful.operator_output import REPORT, RESULTS, WINDOW, Parcel, pack_rows
from unskew.apps.worker.stateful.store import KEY, BufferedStore, Store
from unskew.errors import EnvironmentFault
from unskew.grouping.feedback_loop import MigrationReport
from unskew.grouping.keys import Keys, encode_keys
from unskew.grouping.split_join.controller import make_report
from unskew.grouping.split_join.plan import LEFT, RIGHT, Copies, JoinTable

SIDES = (LEFT, RIGHT)
_FOLDERS = ("left", "right")


def run_join_batch(
    config: JoinConfig,
    store: Store,
    worker: int,
    packets: Sequence[tuple[int, bytes]],
    batch: WorkerBatch,
    progress: OperatorProgress,
) -> Iterator[Parcel]:
    """Execute a worker's part of a batch.

    Parameters
    ----------
    config, store, worker, batch, progress
        As for ``unskew.apps.worker.stateful.worker.run_batch``. Of the progress, ``released`` is the newest plan by
        which the worker has executed a batch, ``wrote`` the first such batch, and ``taken`` the newest plan whose
        copies it has taken in.
    packets : sequence of (int, bytes)
        The worker's rows with their side, in the order in which they are executed.

    Raises
    ------
    EnvironmentFault
        The plans or the copies in the checkpoint aren't those that the worker needs.
    StateFault
        The rows that are kept have other columns, or the condition of the pairs raises.

    """
    started = time.perf_counter()
    # 1. The batch's plan. The worker has been called in the first batch of each plan, as all are in a batch with rows.
    plan, table = _read_plan(config, batch, progress)
    new = plan > progress.released
    buffered = BufferedStore(store)
    join = _Join(config, buffered, worker)
    # 2. The rows that others have copied here when the plan before this one gave a key to this worker. (Of a plan that
    #    lasts, in its second batch.)
    if progress.taken < progress.released:
        due = table.grow if not new else table.grown
        for side, rows in _take_copies(config, worker, progress, due.where(due.receivers == worker), join):
            yield from join.add(side, rows)
    # 3. The rows that this worker copies to others, as they are before the batch: what comes in it goes to all places.
    copied = _send_copies(config, worker, plan, batch, table, join) if new else (0, 0)
    # 4. The batch's rows. Late is what is behind the watermark at the batch's beginning, which is the same for all.
    arrived = _read_rows(packets, config)
    load = _Load()
    for side in SIDES:
        rows = arrived[side]
        late = rows.column(TIME).to_numpy() < batch.watermark_ms * 1000
        load.late[side] = int(late.sum())
        yield from join.add(side, rows.filter(pa.array(~late)) if late.any() else rows, load)
    # 5. The rows for which no partner can come leave, slice by slice, and those of keys that the plan takes away.
    over = join.drop_over(batch.watermark_ms * 1000)
    if new:
        join.leave(table.leave_keys[table.leave_places == worker])
    empty = join.find_empty(table, worker)
    join.close()
    buffered.flush()
    # 6. The progress, which Spark commits together with the rows.
    after = replace(progress, taken=progress.released, released=plan, closed_ms=batch.watermark_ms)
    after = replace(after, wrote=batch.number) if new else after
    if after != progress:
        after.write(store)
    # 7. The report, of which the driver makes the plans to come.
    tuples = sum(rows.num_rows for rows in arrived)
    report = WorkerReport(
        tuples,
        len(load.keys),
        time.perf_counter() - started,
        late=sum(load.late),
        monitor=load.report(table, plan, empty) if tuples else None,
        states=StateReport(join.rows, join.size, over, 0),
        migration=MigrationReport(progress.taken, plan, *copied, wrote=bool(copied[1])),
    )
    if config.routing.reports is not None:
        config.routing.reports.send(batch.number, worker, report)
    if config.observe is not None:
        shown = WorkerLoad(tuples, report.keys, report.busy, join.rows, join.size, copied[0])
        yield Parcel(REPORT, worker, shown.text().encode())


@dataclass
class _Load:
    """What a worker had to do in a batch, by key.

    Attributes
    ----------
    keys : uint64[k]
        The keys' hashes, ascending.
    rows : int64[k, 2]
        The keys' rows of each side.
    pairs : int64[k]
        The pairs that these rows found.
    late : int[2]
        The rows of each side that came too late.

    """

    keys: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), np.int64))
    pairs: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    late: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, side: int, keys: Keys, pairs: NDArray[np.int64]) -> None:
        """Add the rows of a side, by their keys, and the pairs of each distinct key."""
        all_keys, at = np.unique(np.concatenate([self.keys, keys.hashes]), return_inverse=True)
        rows, found = np.zeros((len(all_keys), 2), np.int64), np.zeros(len(all_keys), np.int64)
        old, new = at[: len(self.keys)], at[len(self.keys) :]
        rows[old], found[old] = self.rows, self.pairs
        np.add.at(rows[:, side], new, np.bincount(keys.codes, minlength=len(keys.hashes)))
        np.add.at(found, new, pairs)
        self.keys, self.rows, self.pairs = all_keys, rows, found

    def report(self, table: JoinTable, plan: int, empty: NDArray[np.uint64]) -> dict[str, object]:
        """The report for the driver's plans."""
        return dict(make_report(table, plan, self.keys, self.rows, self.pairs, empty))


class _Join:
    """A worker's rows of both sides.

    Parameters
    ----------
    config : JoinConfig
        What the workers do.
    store : Store
        The worker's store.
    worker : int
        The worker's number.

    """

    def __init__(self, config: JoinConfig, store: Store, worker: int) -> None:
        self._config, self._worker = config, worker
        self.tables = tuple(RowTable(store, side, config.key, config.columns[side], config.slice_us) for side in SIDES)

    @property
    def rows(self) -> int:
        """The number of rows that are kept."""
        return sum(table.rows for table in self.tables)

    @property
    def size(self) -> int:
        """Their size in bytes."""
        return sum(table.size for table in self.tables)

    def add(self, side: int, rows: pa.RecordBatch, load: _Load | None = None) -> Iterator[Parcel]:
        """Yield the pairs of these rows with the rows of the other side that are kept, and keep these rows, too."""
        if not rows.num_rows:
            return
        keys = encode_keys(rows.column(KEY))
        pairs = np.zeros(len(keys.hashes), np.int64)
        for mine, others, theirs in self._find_partners(side, rows, keys):
            found = self._select(side, rows, mine, others, theirs)
            if found is not None:
                batch, counted = found
                pairs += np.bincount(keys.codes[counted], minlength=len(pairs))
                yield from pack_rows(RESULTS, self._worker, [(0, batch)])
        self.tables[side].add(rows)
        if load is not None:
            load.add(side, keys, pairs)

    def _find_partners(
        self, side: int, rows: pa.RecordBatch, keys: Keys
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch, NDArray[np.int64]]]:
        """The positions of rows, and those of their partners among other rows, slice by slice."""
        config, times = self._config, rows.column(TIME).to_numpy()
        back, ahead = (config.before_us, config.after_us) if side == LEFT else (config.after_us, config.before_us)
        kept = self.tables[1 - side]
        for start, others in kept.find(keys.hashes, int(times.min()) - back, int(times.max()) + ahead):
            codes = find_codes(others, keys.distinct)
            theirs = np.flatnonzero(codes >= 0)
            mine = np.flatnonzero((times + ahead >= start) & (times - back < start + config.slice_us))
            if not len(theirs) or not len(mine):
                continue
            groups = np.concatenate([keys.codes[mine].astype(np.int64), codes[theirs]])
            moments = np.concatenate([times[mine], others.column(TIME).to_numpy()[theirs]])
            lines = number_by_group(groups, moments, back + ahead)
            for i, j in find_close_pairs(lines[: len(mine)], lines[len(mine) :], back, ahead):
                yield mine[i], others, theirs[j]

    def _select(
        self,
        side: int,
        rows: pa.RecordBatch,
        mine: NDArray[np.int64],
        others: pa.RecordBatch,
        theirs: NDArray[np.int64],
    ) -> tuple[pa.RecordBatch, NDArray[np.int64]] | None:
        """The pairs that count, and their positions among ``rows``. None: there is none."""
        own, partners = rows.take(pa.array(mine)), others.take(pa.array(theirs))
        left, right = (own, partners) if side == LEFT else (partners, own)
        if self._config.where is not None:
            counts = self._ask(left, right)
            left, right, mine = left.filter(counts), right.filter(counts), mine[counts.to_numpy(zero_copy_only=False)]
        if not len(mine):
            return None
        columns = [left.column(KEY), *left.columns[2:], *right.columns[2:]]
        return pa.RecordBatch.from_arrays(columns, [KEY, *(f"c{n}" for n in range(1, len(columns)))]), mine

    def _ask(self, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.BooleanArray:
        """Which pairs the user's condition counts."""
        assert self._config.where is not None
        try:
            found = self._config.where(*(self._show(each, side) for each, side in ((left, LEFT), (right, RIGHT))))
            counts = pa.array(found, pa.bool_()).fill_null(False)
            if len(counts) != left.num_rows:
                raise ValueError(f"{len(counts)} answers for {left.num_rows} pairs")  # noqa: TRY301
        except Exception as error:
            raise StateFault(f"where failed: {type(error).__name__}: {error}") from error
        return counts

    def _show(self, rows: pa.RecordBatch, side: int) -> pa.RecordBatch:
        """Rows of a side as the user's condition gets them."""
        return pa.RecordBatch.from_arrays(rows.columns[2:], self._config.names[side])

    def drop_over(self, watermark_us: int) -> int:
        """Remove the rows for which no partner can come, and return their number."""
        bounds = self._config.after_us, self._config.before_us
        return sum(table.drop_before(watermark_us - bound) for table, bound in zip(self.tables, bounds, strict=True))

    def leave(self, hashes: NDArray[np.uint64]) -> None:
        """Remove all rows of the keys with these hashes."""
        if len(hashes):
            for table in self.tables:
                table.remove_keys(hashes)

    def find_empty(self, table: JoinTable, worker: int) -> NDArray[np.uint64]:
        """The keys that get no rows of their split side here, and have none: their hashes."""
        entries = np.repeat(np.arange(len(table.keys)), np.diff(table.starts))
        found = []
        for entry in entries[(table.places == worker) & (table.weights == 0)].tolist():
            hashes = table.keys[entry : entry + 1]
            kept = self.tables[int(table.split[entry])]
            if not kept.read_keys(hashes).num_rows:
                found.append(table.keys[entry])
        return np.array(found, np.uint64)

    def close(self) -> None:
        """Store what is known about the rows."""
        for table in self.tables:
            table.close()


def _read_plan(config: JoinConfig, batch: WorkerBatch, progress: OperatorProgress) -> tuple[int, JoinTable]:
    """The number of the batch's plan, 0 if there is none, and its table.

    Raises
    ------
    EnvironmentFault
        It isn't the plan that the worker has followed last, nor the one after that.

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
    """The copies of one side's rows on their way to new places."""
    return StateTransfers(checkpoint, "copies", _FOLDERS[side])


def _get_checkpoint(config: JoinConfig) -> Where:
    """The query's checkpoint location, without which there are no plans."""
    assert config.checkpoint is not None
    return config.checkpoint


def _take_copies(
    config: JoinConfig, worker: int, progress: OperatorProgress, due: Copies, join: _Join
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows that others have copied to this worker under the newest plan that it has followed, by side."""
    for side in np.unique(due.sides).tolist():
        files = dict.fromkeys(np.unique(due.senders[due.sides == side]).tolist(), progress.wrote)
        parts = open_copies(_get_checkpoint(config), side).to(worker, progress.released, files)
        yield side, pa.concat_batches([join.tables[side].empty(), *(part.drop_columns(WINDOW) for part in parts)])


def _send_copies(
    config: JoinConfig, worker: int, plan: int, batch: WorkerBatch, table: JoinTable, join: _Join
) -> tuple[int, int]:
    """Write the rows that this worker copies to a plan's new places. How many rows and bytes were written."""
    number = size = 0
    grow = table.grow.where(table.grow.senders == worker)
    for side in np.unique(grow.sides).tolist():
        own = grow.where(grow.sides == side)
        rows = {
            receiver: join.tables[side].read_keys(own.keys[own.receivers == receiver])
            for receiver in np.unique(own.receivers).tolist()
        }
        number += sum(part.num_rows for part in rows.values())
        schema = next(iter(rows.values())).schema
        size += open_copies(_get_checkpoint(config), side).write(worker, plan, batch.number, rows, schema)
    return number, size


def _read_rows(packets: Sequence[tuple[int, bytes]], config: JoinConfig) -> list[pa.RecordBatch]:
    """The packets' rows of each side, in their order, in the columns of a ``RowTable``."""
    found = []
    for side in SIDES:
        schema = pa.schema([pa.field(KEY, config.key), pa.field(TIME, pa.int64()), *config.columns[side]])
        parts = [tuple_packets.read_packet(pa.scalar(blob, pa.binary())) for of, blob in packets if of == side]
        batches = [_read_packet(part, schema) for part in parts]
        found.append(pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema))
    return found


def _read_packet(packet: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    key, moment, *others = packet.columns
    plain = key.dictionary_decode() if pa.types.is_dictionary(key.type) else key
    times = moment.cast(pa.timestamp("us", moment.type.tz), safe=False).cast(pa.int64())
    columns = [plain, times, *others]
    return pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
