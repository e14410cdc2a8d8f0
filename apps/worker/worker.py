"""The worker: it runs the user's code on each tuple, then makes one partial for each (window, key, worker)."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from unskew.apps.metrics.task_reports import Reports, WorkerReport
from unskew.apps.operators.errors import StateFault, UserCodeFault, find_cause, locate_error
from unskew.apps.router import tuple_packets
from unskew.apps.splitter.splitter import POSITION
from unskew.apps.worker.failures import MOST_RAISED, FailedTuples, FailureLog, TuplePosition
from unskew.apps.worker.monitors import WorkerMonitors, share_costs
from unskew.grouping import encode_keys
from unskew.grouping.feedback import Monitor
from unskew.grouping.keys import sum_by_key
from unskew.grouping.simulated_cost import FREE, Cost
from unskew.shown_keys import quote_key
from unskew.spark.micro_batches import get_batch_number, split_by_window, to_milliseconds

#: The user's work: tuples in (columns ``key``, ``count`` where the source has one, and the run's ``work_columns``),
#: results out (columns ``key``, ``count``): any number of rows. The results may have a column ``cost`` (ms), the cost
#: of their key's tuples; else the time that the work takes is measured, and divided evenly among the tuples.
Work: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

_COSTS = ["key", "cost"]


@dataclass(frozen=True)
class WorkResult:
    """The work's results for some tuples."""

    counts: pa.Table  #: The counts of the results, as ``count_keys`` makes them.
    costs: pa.Table | None  #: The columns ``key`` and ``cost`` (ms) of the results, if they have a cost.


def apply_function(
    work: Work, tuples: pa.RecordBatch, raised: Callable[[Exception], None] = lambda _: None
) -> Iterator[tuple[pa.RecordBatch, WorkResult | Exception]]:
    """Parts of the tuples, each with the work's result, or a single tuple with the error that the work raised.

    If the work raises, it is run again on each half of the tuples, until the tuples are found on which it fails. If it
    fails on k of n tuples, this takes O(k log n) more calls. ``raised`` is called with each error before the next call
    of the work, and may raise in order to end the search.
    """
    seen = tuples.select([name for name in tuples.schema.names if name not in POSITION])
    try:
        given = work(seen)
        costs = pa.Table.from_batches([given.select(_COSTS)]) if "cost" in given.schema.names else None
        result = WorkResult(count_keys(given, load=False), costs)
    except Exception as error:  # noqa: BLE001  whatever the user's code may raise
        raised(error)
        if tuples.num_rows == 1:
            yield tuples, error
            return
        half = tuples.num_rows // 2
        yield from apply_function(work, tuples.slice(0, half), raised)
        yield from apply_function(work, tuples.slice(half), raised)
    else:
        yield tuples, result


def describe_error(work: Work, error: Exception) -> str:
    """An error of the work in one line, with the line of the user's code that raised it."""
    file = getattr(getattr(work, "__code__", None), "co_filename", None)
    return locate_error(error, {file}, getattr(work, "__name__", str(work)))


# Rows gathered before they are merged: memory is bounded by the distinct keys, not by the tuples.
_MERGE_ROWS = 262_144
_SCHEMA = pa.schema([("key", pa.string()), ("tuples", pa.int64()), ("count", pa.int64())])
_OF_PANES = _SCHEMA.append(pa.field("pane", pa.int64())).append(pa.field("ms", pa.int64()))


def count_keys(batch: pa.RecordBatch, *, load: bool = True, results: bool = True) -> pa.Table:
    """One row for each distinct key of the batch.

    ``tuples`` is the key's number of tuples, or 0 unless ``load``. ``count`` is the sum of their ``count`` column, or
    their number if there is no such column, or 0 unless ``results``.
    """
    key = batch.column("key")
    if pa.types.is_dictionary(key.type) and len(key.dictionary) > len(key):
        key = key.dictionary_decode()  # of a small part of a batch, in which most keys of the dictionary don't occur
    keys = key if pa.types.is_dictionary(key.type) else key.dictionary_encode()
    codes = keys.indices.to_numpy(zero_copy_only=False)
    number = np.bincount(codes, minlength=len(keys.dictionary))
    total = number
    if "count" in batch.schema.names:
        total = sum_by_key(codes, batch.column("count").to_numpy(zero_copy_only=False), len(number))
    seen = np.flatnonzero(number)
    columns = [
        keys.dictionary.take(pa.array(seen)).cast(pa.string()),
        pa.array(number[seen] * load, pa.int64()),
        pa.array(total[seen] * results, pa.int64()),
    ]
    return pa.table(columns, schema=_SCHEMA)


class Partials:
    """Gathers the tables that ``count_keys`` makes, and merges them."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._limit = _MERGE_ROWS

    def add(self, counts: pa.Table, pane: int = 0, latest_ms: int = 0) -> None:
        """Add counts of one pane. The time of its latest tuple is ``latest_ms``."""
        n = counts.num_rows
        self._tables.append(
            pa.table([*counts.columns, pa.array(np.full(n, pane)), pa.array(np.full(n, latest_ms))], schema=_OF_PANES)
        )
        self._rows += n
        if self._rows > self._limit:
            merged = self.table()
            self._tables, self._rows = [merged], merged.num_rows
            self._limit = max(_MERGE_ROWS, 2 * self._rows)

    def table(self) -> pa.Table:
        """One row for each (pane, key): key, tuples, count, pane, ms."""
        if not self._tables:
            return _OF_PANES.empty_table()
        grouped = pa.concat_tables(self._tables).group_by(["pane", "key"])
        sums = grouped.aggregate([("tuples", "sum"), ("count", "sum"), ("ms", "max")])
        return sums.rename_columns(["pane", "key", "tuples", "count", "ms"]).select(_OF_PANES.names)


#: Tuples, and their costs by the work's results, if those have any.
_Executed: TypeAlias = tuple[pa.RecordBatch, pa.Table | None]


@dataclass
class _Share:
    """One worker's share of a batch: partials, tuples, time at work (s), tuples that failed, and the monitor.

    If an attempt before this one has finished, ``before`` is what failed in it, and ``due`` is how many of these tuples
    haven't come yet, by their place.
    """

    partials: Partials = field(default_factory=Partials)
    tuples: int = 0
    busy: float = 0.0
    failed: FailedTuples = field(default_factory=FailedTuples)
    monitor: Monitor | None = None
    before: FailedTuples | None = None
    due: dict[TuplePosition, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Worker:
    """The program of all workers. A task runs it for each worker whose packets it gets.

    Without ``work`` it counts the tuples, or sums their ``count`` if they have one. Workers spend the simulated
    ``cost`` of tuples asleep, so W workers wait side by side on any number of cores. Tuples carry their own ``time``,
    and are counted in panes of ``pane_ms``, of which windows consist; None: the whole batch belongs to one pane,
    according to the batch's time.

    Errors of the work ``fail`` the task (``work_errors``), or ``reject`` the message. Tuples then carry ``POSITION``,
    and each attempt finds in the ``failure_log`` what the first one rejected; without it, each attempt rejects what
    fails in it. The ``monitors`` observe the tuples for the grouping's controller. If it ``gives_loads``, the partials
    say the ``batch``, and there is a partial without a key for each pane: the worker's load.
    """

    work: Work | None = None
    cost: Cost = FREE
    pane_ms: int | None = None
    reports: Reports | None = None
    work_errors: str = "fail"
    failure_log: FailureLog | None = None
    monitors: WorkerMonitors | None = None
    gives_loads: bool = False

    @property
    def ddl(self) -> str:
        """The schema of the partials."""
        kinds = "worker int, key string, tuples long, count long"
        kinds += ", batch long" if self.gives_loads else ""
        return kinds + (", time timestamp" if self.pane_ms else "")

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Packets go in, and the partials of each worker that has any come out (for ``DataFrame.mapInArrow``)."""
        if self.monitors is not None:
            self.monitors.routing.require_visible()  # also while no tuples come, and no router is opened
        shares: dict[int, _Share] = {}
        for batch in batches:
            for worker, packet in zip(batch.column("worker").to_pylist(), batch.column("packet"), strict=True):
                if worker not in shares:
                    shares[worker] = self._share(worker)
                self._packet(packet, shares[worker])
        for worker, share in shares.items():
            table = share.partials.table()
            self._log(worker, share)
            self._report(worker, table, share)
            yield from self._rows(worker, table)

    def _packet(self, packet: pa.BinaryScalar, share: _Share) -> None:
        """Execute the tuples of a packet; the worker's monitor observes their costs."""
        started = time.perf_counter()
        arrived = tuple_packets.read_packet(packet)
        executed = [
            each for pane, latest, part in self._by_pane(arrived) for each in self._execute(part, share, pane, latest)
        ]
        simulated = self.cost.total(arrived.column("key"))
        time.sleep(simulated)
        seconds = time.perf_counter() - started
        share.busy += seconds
        tuples = sum(part.num_rows for part, _ in executed)
        share.tuples += tuples
        if share.monitor is not None:
            for part, costs in executed:
                keys = encode_keys(part.column("key"))
                rest = 1000 * max(0.0, seconds - simulated) / tuples
                share.monitor.observe(keys, self.cost.of(keys) + rest if costs is None else share_costs(keys, costs))

    def _by_pane(self, tuples: pa.RecordBatch) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """(number of the pane, latest time in ms, its tuples) for each pane that the tuples fall into."""
        if self.pane_ms is None:
            yield 0, 0, tuples
            return
        for start, part, latest in split_by_window(tuples, to_milliseconds(tuples.column("time")), self.pane_ms):
            yield start // self.pane_ms, latest, part

    def _execute(self, tuples: pa.RecordBatch, share: _Share, pane: int, latest: int) -> Iterator[_Executed]:
        """Execute the tuples of one pane; yield those that are counted, which are all but the failures."""
        if self.work is None:
            share.partials.add(count_keys(tuples), pane, latest)
            yield tuples, None
            return
        tuples = self._drop_rejected(tuples, share)
        if not tuples.num_rows:
            return
        for part, result in apply_function(self.work, tuples, partial(self._count_raise, share)):
            if isinstance(result, Exception):
                self._fail(part, result, share)
            else:
                share.partials.add(count_keys(part, results=False), pane, latest)
                share.partials.add(result.counts, pane, latest)
                yield part, result.costs

    def _drop_rejected(self, tuples: pa.RecordBatch, share: _Share) -> pa.RecordBatch:
        """The tuples without those that an attempt before this one has rejected."""
        if not share.due:
            return tuples
        kept = []
        for place in zip(*(tuples.column(name).to_pylist() for name in (*POSITION, "key")), strict=True):
            rejected = share.due.get(place, 0)
            kept.append(not rejected)
            if rejected:
                share.due[place] = rejected - 1
        return tuples.filter(pa.array(kept, pa.bool_()))

    def _count_raise(self, share: _Share, error: Exception) -> None:
        """Count a call that raised. Too many of them end the search for the tuples that fail."""
        assert self.work is not None
        share.failed.raised += 1
        if share.failed.raised > MOST_RAISED:
            raise StateFault(
                f"the work raised more than {MOST_RAISED:,} times in one batch of a worker, at last: "
                f"{describe_error(self.work, error)}"
            ) from find_cause(error)

    def _fail(self, part: pa.RecordBatch, error: Exception, share: _Share) -> None:
        """Reject a tuple, or raise an error that names it."""
        assert self.work is not None
        reason, key = describe_error(self.work, error), part.column("key")[0].as_py()
        failed = f"the work failed on key {quote_key(key)} ({reason})"
        if self.work_errors == "fail":
            raise UserCodeFault(failed) from find_cause(error)
        if share.before is not None:
            raise StateFault(
                f"{failed}, but didn't when the batch ran before: the message may be counted already, so it can't be "
                "rejected"
            ) from find_cause(error)
        partition, offset = (part.column(name)[0].as_py() for name in POSITION)
        share.failed.add((partition, offset, key), reason)

    def _share(self, worker: int) -> _Share:
        batch, before = get_batch_number(), None
        if self.failure_log is not None and batch is not None:
            before = self.failure_log.read(worker, batch)
        due = {} if before is None else dict(before.positions())
        monitor = self.monitors.open(worker, batch) if self.monitors is not None and batch is not None else None
        return _Share(monitor=monitor, before=before, due=due)

    def _log(self, worker: int, share: _Share) -> None:
        """Write what failed for later attempts, before anything of this one can be seen."""
        batch = get_batch_number()
        if self.failure_log is not None and batch is not None and share.before is None:
            self.failure_log.write(worker, batch, share.failed)

    def _report(self, worker: int, table: pa.Table, share: _Share) -> None:
        batch = get_batch_number()
        if self.reports is None or batch is None:
            return
        panes: dict[int, int] = {}
        if self.pane_ms is not None:
            loads = table.group_by("pane").aggregate([("tuples", "sum")])
            panes = dict(zip(loads["pane"].to_pylist(), loads["tuples_sum"].to_pylist(), strict=True))
        observed = None
        if self.monitors is not None and share.monitor is not None:
            observed = self.monitors.close(share.monitor, worker, batch)
        failures = (share.before or share.failed).messages()
        report = WorkerReport(share.tuples, table.num_rows, share.busy, failures, panes, monitor=observed)
        self.reports.send(batch, worker, report)

    def _rows(self, worker: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if self.gives_loads:
            loads = table.group_by("pane").aggregate([("tuples", "sum"), ("count", "sum"), ("ms", "max")])
            loads = loads.rename_columns(["pane", "tuples", "count", "ms"])
            loads = loads.append_column("key", pa.nulls(loads.num_rows, pa.string()))
            table = pa.concat_tables([table, loads.select(table.column_names)])
        n = table.num_rows
        columns = {
            "worker": pa.array(np.full(n, worker, np.int32)),
            **{c: table[c] for c in ("key", "tuples", "count")},
        }
        if self.gives_loads:
            columns["batch"] = pa.array(np.full(n, get_batch_number() or 0, np.int64))
        if self.pane_ms is not None:
            columns["time"] = table["ms"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        yield from pa.table(columns).combine_chunks().to_batches()
