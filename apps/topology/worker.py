"""The worker: the user's work on each tuple, then one partial per (window, key, worker)."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from unskew.apps.feedback.monitors import Monitors, WorkerMonitor, told_by
from unskew.apps.topology import packets
from unskew.apps.topology.cost import FREE, Cost
from unskew.apps.topology.partials import Partials, count
from unskew.apps.topology.reports import Reports
from unskew.apps.topology.router import batch_number, milliseconds
from unskew.apps.topology.work import PLACE, Work, WorkFault, described, results
from unskew.grouping import encode

#: (partition, offset) of a message → why it is rejected after all.
Failures: TypeAlias = dict[tuple[int, int], str]
#: Tuples, and what the work's results say that they cost, if they do.
_Executed: TypeAlias = tuple[pa.RecordBatch, pa.Table | None]


@dataclass
class _Share:
    """What one worker has done of a batch: its partials, tuples, time at work (s), what failed, what is observed."""

    partials: Partials = field(default_factory=Partials)
    tuples: int = 0
    busy: float = 0.0
    failures: Failures = field(default_factory=dict)
    monitor: WorkerMonitor | None = None


@dataclass(frozen=True)
class Worker:
    """All workers' program; a task runs it for the workers whose packets it gets: one, or several that share it.

    Parameters
    ----------
    work : Work, optional
        Default: count the tuples (sum their ``count`` where they carry one).
    cost : Cost
        Simulated, spent asleep, so that W workers wait side by side on however few cores.
    window_ms : int, optional
        Tuples carry their own ``time`` and are counted by tumbling windows of this length. None: the whole batch
        belongs to one window, assigned later.
    reports : Reports, optional
        Told each worker's tuples, distinct keys and busy seconds.
    work_errors : str
        ``fail``, or ``reject`` the messages on whose tuples the work raises; the tuples then carry ``PLACE``.
    monitors : Monitors, optional
        What is observed of the tuples for the grouping's controller.

    """

    work: Work | None = None
    cost: Cost = FREE
    window_ms: int | None = None
    reports: Reports | None = None
    work_errors: str = "fail"
    monitors: Monitors | None = None

    @property
    def ddl(self) -> str:
        """The schema of the partials."""
        return "worker int, key string, tuples long, count long" + (", time timestamp" if self.window_ms else "")

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Packets in, the partials of each worker that has any out (for ``DataFrame.mapInArrow``)."""
        shares: dict[int, _Share] = {}
        for batch in batches:
            for worker, packet in zip(batch.column("worker").to_pylist(), batch.column("packet"), strict=True):
                if worker not in shares:
                    shares[worker] = _Share(monitor=self._monitor(worker))
                self._packet(packet, shares[worker])
        for worker, share in shares.items():
            table = share.partials.table()
            self._report(worker, table, share)
            yield from self._rows(worker, table)

    def _packet(self, packet: pa.BinaryScalar, share: _Share) -> None:
        """Execute the tuples of a packet, and note what they cost."""
        started = time.perf_counter()
        arrived = packets.read(packet)
        executed = [
            done
            for window, latest, part in self._by_window(arrived)
            for done in self._execute(part, share, window, latest)
        ]
        simulated = self.cost.total(arrived.column("key"))
        time.sleep(simulated)
        seconds = time.perf_counter() - started
        share.busy += seconds
        tuples = sum(part.num_rows for part, _ in executed)
        share.tuples += tuples
        if share.monitor is not None:
            for part, told in executed:
                keys = encode(part.column("key"))
                rest = 1000 * max(0.0, seconds - simulated) / tuples
                share.monitor.observe(keys, self.cost.of(keys) + rest if told is None else told_by(keys, told))

    def _by_window(self, tuples: pa.RecordBatch) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """(window number, latest time in ms, its tuples) for each window that the tuples fall into."""
        if self.window_ms is None:
            yield 0, 0, tuples
            return
        times = milliseconds(tuples.column("time"))
        windows = times // self.window_ms
        if (windows == windows[0]).all():
            yield int(windows[0]), int(times.max()), tuples
            return
        order = np.argsort(windows, kind="stable")
        ordered, times, windows = tuples.take(pa.array(order)), times[order], windows[order]
        starts = np.flatnonzero(np.diff(windows, prepend=windows[0] - 1))
        for start, stop, latest in zip(
            starts, [*starts[1:], len(times)], np.maximum.reduceat(times, starts), strict=True
        ):
            yield int(windows[start]), int(latest), ordered.slice(start, stop - start)

    def _execute(self, tuples: pa.RecordBatch, share: _Share, window: int, latest: int) -> Iterator[_Executed]:
        """Work on the tuples of one window; those that are counted, which are all but the failures."""
        if self.work is None:
            share.partials.add(count(tuples), window, latest)
            yield tuples, None
            return
        for part, result in results(self.work, tuples):
            if isinstance(result, Exception):
                said = described(self.work, result)
                if self.work_errors == "fail":
                    raise WorkFault(f"the work failed on key {part.column('key')[0].as_py()!r} ({said})") from result
                partition, offset = (part.column(name)[0].as_py() for name in PLACE)
                share.failures[partition, offset] = f"work: {said}"
            else:
                share.partials.add(count(part, results=False), window, latest)
                share.partials.add(result.counts, window, latest)
                yield part, result.costs

    def _monitor(self, worker: int) -> WorkerMonitor | None:
        batch = batch_number()
        return None if self.monitors is None or batch is None else self.monitors.open(worker, batch)

    def _report(self, worker: int, table: pa.Table, share: "_Share") -> None:
        batch = batch_number()
        if self.reports is None or batch is None:
            return
        told = {"tuples": share.tuples, "busy": share.busy, "failures": share.failures}
        report: dict[str, Any] = {"keys": table.num_rows, **told}
        if share.monitor is not None:
            report["monitor"] = share.monitor.close()
        if self.window_ms is not None:
            loads = table.group_by("window").aggregate([("tuples", "sum")])
            report["windows"] = dict(zip(loads["window"].to_pylist(), loads["tuples_sum"].to_pylist(), strict=True))
        self.reports.send(batch, "worker", worker, report)

    def _rows(self, worker: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
        n = table.num_rows
        columns = {
            "worker": pa.array(np.full(n, worker, np.int32)),
            **{c: table[c] for c in ("key", "tuples", "count")},
        }
        if self.window_ms is not None:
            columns["time"] = table["ms"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        yield from pa.table(columns).combine_chunks().to_batches()
