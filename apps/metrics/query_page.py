"""Prometheus' page of a user's query, with the metrics of ``catalogue``."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Self

from unskew.apps.metrics import catalogue
from unskew.apps.metrics.balance_observation import BatchBalance, read_batches
from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.metrics_reporter import sample_loads, sample_progress, sample_worker_states
from unskew.apps.metrics.outputs import Exporter
from unskew.apps.metrics.partition_arrivals import ArrivalMeter
from unskew.apps.metrics.query_progress import add_held_back, list_taken_offsets
from unskew.apps.metrics.write_reports import BatchWrite, read_writes
from unskew.deploy.servers.stack import registered_target
from unskew.errors import UsageError
from unskew.grouping import measures
from unskew.kafka.connection import Connection
from unskew.kafka.reader import EndOffsets

log = logging.getLogger(__name__)


def sample_balance(batch: BatchBalance, total: int, rejected: int, late: int, closed: list[int]) -> Iterator[Sample]:
    """Samples of a batch, which is a window, too: a user's query has no other for its tuples.

    ``total`` and ``closed`` are the tuples so far, of all workers and of each; ``rejected`` and ``late`` are the rows
    that were left out so far.
    """
    time = round(1000 * batch.time.timestamp())
    yield from sample_loads(batch.loads, batch.busy, time)
    yield from sample_worker_states(batch.states, batch.size, time)
    yield Sample(catalogue.RUN, time, {"tuples": total, "rejected": rejected, "late": late})
    window = {
        "std_dev": measures.std_dev(batch.loads),
        "dist_cost": batch.replication,
        "total_tuples": total,
        "imbalance": batch.imbalance,
        "imbalance_fraction": measures.imbalance_fraction(batch.loads),
        "tuples": batch.tuples,
        "idle_workers": measures.count_idle(batch.loads),
    }
    yield Sample(catalogue.WINDOW, time, window)
    for worker, share in enumerate(measures.load_shares(batch.loads).tolist()):
        values = {"tuples": batch.loads[worker], "share": share, "closed": closed[worker]}
        yield Sample(catalogue.WORKER, time, values, {"worker": str(worker)})


class MetricsPage:
    """A query's page ``/metrics``, until ``close``. It is a context manager.

    It asks the query when Prometheus asks it. So it needs no thread and no listener, and works through Spark Connect.
    Counters begin with the oldest batch that Spark has when the page is asked first. A gauge has its newest value, so
    that a batch that ends between two questions is counted, and not seen.

    Parameters
    ----------
    query : StreamingQuery
        The query.
    name : str
        The observation's name.
    port, host
        As for ``Exporter``.
    connection : Connection, optional
        The cluster that the query reads. Without it, what open transactions hold back isn't measured.
    run, grouping : str
        The labels ``run``, by default the query's name or id, and ``grouping``, where batches don't name theirs.

    Attributes
    ----------
    port : int
        Its port.
    url : str
        Its address.

    Raises
    ------
    UsageError
        The port is taken or invalid, or the address isn't this machine's.

    """

    def __init__(
        self,
        query: Any,
        name: str,
        port: int,
        host: str,
        connection: Connection | None = None,
        run: str | None = None,
        grouping: str = "",
    ) -> None:
        if not 0 <= port < 1 << 16:
            raise UsageError(f"port is {port}; valid: 0 (any free one) to 65535")
        self._query, self._name, self._grouping = query, name, grouping
        self._run = run or query.name or str(query.id)
        self._lock = threading.Lock()
        self._newest = -1
        self._total = self._rejected = self._late = 0
        self._newest_write, self._files, self._rows = datetime.min.replace(tzinfo=UTC), 0, 0
        self._closed: list[int] = []
        self._common: dict[str, str] = {}
        self._failed = False
        self._arrivals = ArrivalMeter()
        self._connection, self._ends = connection, dict[str, EndOffsets]()
        self._stack = ExitStack()
        self._exporter = self._stack.enter_context(_open_exporter(port, host, self._refresh))
        self._stack.enter_context(registered_target(self._exporter.port))
        self.port, self.url = self._exporter.port, self._exporter.url

    def __enter__(self) -> Self:
        """The page itself: it is there already."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the page."""
        self._stack.close()

    def _refresh(self) -> None:
        """Take in the batches since the last time. If Spark doesn't answer, the page stays as it is."""
        with self._lock:
            writes = read_writes(str(self._query.id))
            for write in writes:
                if write.time > self._newest_write:
                    self._take_write(write)
            try:
                progresses = self._query.recentProgress
                batches = read_batches(progresses, self._name)
            except Exception as error:  # noqa: BLE001  classic and Connect raise different ones, and the session may have ended
                if not self._failed and not (writes and isinstance(error, UsageError)):  # a query may only write
                    log.warning("the page of the query stays as it is: %s", error)
                self._failed = True
                return
            self._failed = False
            for batch in batches:
                if batch.batch > self._newest:
                    self._take(batch)
            if batches:
                self._show(progresses, batches[-1])

    def _show(self, progresses: list[Any], newest: BatchBalance) -> None:
        """Show Spark's own progress of the newest batch. (While a query idles, there are newer ones, of no batch.)"""
        begun = round(1000 * newest.time.timestamp())
        found = [each for each in progresses if each.batchId == newest.batch and self._name in each.observedMetrics]
        progress = json.loads(found[-1].json)
        if self._connection is not None and self._connection.reads_committed:
            self._add_held_back(progress, self._connection)
        self._exporter.write(sample_progress(progress, begun, self._arrivals.add(progress)), self._common)
        watermark = progress.get("eventTime", {}).get("watermark")
        if watermark is not None:
            moment = {"watermark": datetime.fromisoformat(watermark).timestamp()}
            self._exporter.write([Sample(catalogue.QUERY, begun, moment)], self._common)

    def _take_write(self, write: BatchWrite) -> None:
        report, self._newest_write = write.report, write.time
        self._files += report.files
        self._rows += report.rows
        values = {
            "files": self._files,
            "rows": self._rows,
            "partitions": report.partitions,
            "divided": report.divided,
            "writers": report.writers,
            "fullest": report.fullest,
            "duration": write.seconds,
        }
        sample = Sample(catalogue.WRITE, round(1000 * write.time.timestamp()), values)
        self._exporter.write([sample], self._make_labels("PLANNED", write.workers))

    def _make_labels(self, grouping: str, workers: int) -> dict[str, str]:
        return {"run": self._run, "source_type": "QUERY", "grouping": grouping, "workers": str(workers)}

    def _add_held_back(self, progress: dict[str, Any], connection: Connection) -> None:
        topic = next((topic for topic, _ in list_taken_offsets(progress)), None)  # the metrics are of the first
        if topic is not None:
            if topic not in self._ends:
                self._ends[topic] = EndOffsets(connection, topic)
            add_held_back(progress, self._ends[topic], lambda: False)

    def _take(self, batch: BatchBalance) -> None:
        self._newest = batch.batch
        self._total += batch.tuples
        self._rejected += batch.rejected
        self._late += sum(batch.late)
        before = self._closed or [0] * len(batch.loads)
        self._closed = [closed + load for closed, load in zip(before, batch.loads, strict=True)]
        self._common = self._make_labels(batch.grouping or self._grouping, len(batch.loads))
        self._exporter.write(sample_balance(batch, self._total, self._rejected, self._late, self._closed), self._common)


def _open_exporter(port: int, host: str, refresh: Callable[[], None]) -> Exporter:
    """The page. Its own error names options of a command."""
    try:
        return Exporter(port, host, refresh)
    except UsageError as error:
        raise UsageError(
            f"port {port} isn't free at {host} ({error.__cause__}); valid: a free port (0: any), and as host an "
            "address of this machine, or 0.0.0.0 for all"
        ) from error.__cause__
