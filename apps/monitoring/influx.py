"""The way to InfluxDB: never in the stream's way.

The client's own batching writer keeps an unbounded queue, and tells of a failure without saying how many points it
cost. Here points wait in a bounded queue; one thread sends them, and every one is counted as written or lost.
"""

import queue
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Self

from unskew.apps.monitoring.samples import Sample
from unskew.deploy.client.influx_target import Target

QUEUE = 100_000  # points; some 50 MB
_CHUNK = 5_000  # points a request, as InfluxDB advises
_TIMEOUT = 5_000  # ms a request
_RETRIES = 3
_AT_THE_END = 5.0  # s


class InfluxWriter:
    """Sends samples to InfluxDB from a thread of its own; a context manager.

    Attributes
    ----------
    written, lost : int
        Points so far.
    reason : str
        Why the last ones were lost; empty if none were.

    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.written = 0
        self.lost = 0
        self.reason = ""
        self._queue: queue.Queue[tuple[Sample, Mapping[str, str]] | None] = queue.Queue(QUEUE)
        self._count = threading.Lock()
        self._bucket_seen = False
        # A daemon: a server that doesn't answer can't keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="influxdb", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait a moment for what is left; give up the rest."""
        deadline = time.monotonic() + _AT_THE_END
        with suppress(queue.Full):
            self._queue.put(None, timeout=_AT_THE_END)
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            waiting = self._queue.unfinished_tasks
            self._give_up(waiting, f"{self.target.url} did not take them in {_AT_THE_END:.0f} s at the end")

    def write(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        """Put samples in the queue, or count them as lost; never waits."""
        for sample in samples:
            try:
                self._queue.put_nowait((sample, common))
            except queue.Full:
                self._give_up(1, f"the queue is full: {self.target.url} is too slow or down")

    def _work(self) -> None:
        from influxdb_client.client.influxdb_client import InfluxDBClient
        from influxdb_client.client.write_api import SYNCHRONOUS
        from urllib3 import Retry

        retries = Retry(_RETRIES, backoff_factor=0.5, status_forcelist=[429, 502, 503, 504], allowed_methods=None)
        target = self.target
        with InfluxDBClient(target.url, target.token, org=target.org, timeout=_TIMEOUT, retries=retries) as client:
            writer = client.write_api(SYNCHRONOUS)
            more = True
            while more:
                chunk, more = self._chunk()
                if chunk:
                    self._send(client, writer, chunk)
                for _ in range(len(chunk) + (not more)):
                    self._queue.task_done()

    def _chunk(self) -> tuple[list[tuple[Sample, Mapping[str, str]]], bool]:
        """What waits, at least one; and whether there will be more."""
        chunk: list[tuple[Sample, Mapping[str, str]]] = []
        item = self._queue.get()
        while item is not None:
            chunk.append(item)
            if len(chunk) == _CHUNK:
                return chunk, True
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return chunk, True
        return chunk, False

    def _send(self, client: Any, writer: Any, chunk: list[tuple[Sample, Mapping[str, str]]]) -> None:
        from influxdb_client.rest import ApiException
        from urllib3.exceptions import HTTPError

        try:
            if not self._bucket_seen:
                self._make_bucket(client)
            writer.write(self.target.bucket, record=[_point(*item) for item in chunk], write_precision="ms")
        except (ApiException, HTTPError, OSError) as error:
            self._give_up(len(chunk), _why(error))
        else:
            with self._count:
                self.written += len(chunk)

    def _make_bucket(self, client: Any) -> None:
        """Make the bucket if it is missing; a token that may write needn't have the right to look."""
        from influxdb_client.rest import ApiException

        buckets = client.buckets_api()
        with suppress(ApiException):
            if buckets.find_bucket_by_name(self.target.bucket) is None:
                buckets.create_bucket(bucket_name=self.target.bucket, org=self.target.org)
        self._bucket_seen = True

    def _give_up(self, points: int, reason: str) -> None:
        with self._count:
            self.lost += points
            self.reason = reason


def _point(sample: Sample, common: Mapping[str, str]) -> Any:
    from influxdb_client.client.write.point import Point

    point = Point(sample.subject.name).time(sample.time_ms, write_precision="ms")  # type: ignore[arg-type]
    for name, value in {**common, **sample.labels}.items():
        point.tag(name, value)
    for name, value in sample.values.items():
        # One type a field, for ever: InfluxDB refuses an integer where there was a float.
        point.field(name, value if isinstance(value, str) else float(value))
    return point


def _why(error: Exception) -> str:
    status = getattr(error, "status", None)
    said = getattr(error, "message", None) or getattr(error, "reason", None) or error
    return f"HTTP {status}: {said}" if status else f"{type(error).__name__}: {said}"
