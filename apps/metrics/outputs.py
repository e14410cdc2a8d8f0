"""Where metrics go: to InfluxDB, to Prometheus, to an OpenTelemetry collector, to several of them, or nowhere."""

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import COMMON, METRICS, UNITS, Metric, Sample
from unskew.deploy.servers import stack
from unskew.deploy.servers.stack import registered_target
from unskew.errors import EnvironmentFault, UsageError
from unskew.loopback import LOOPBACK

QUEUE = 100_000  # points; some 50 MB
_CHUNK = 5_000  # points a request, as InfluxDB advises
_AT_THE_END = 5.0  # s
_EVERYWHERE = "0.0.0.0"  # noqa: S104  only compared with

Labels = tuple[tuple[str, str], ...]


class Exporter:
    """Prometheus' page ``/metrics`` on its own port, with the newest value of each series. It is a context manager.

    It has its own registry, so that it doesn't disturb an application that exports metrics too. Times of samples are
    left out, because Prometheus takes a value as the value now. Port 0 is any free one. By default only this machine
    can read the page; with ``0.0.0.0`` all machines can. ``refresh`` is called before each answer, to write what is
    new.

    Raises ``UsageError`` if the port is taken, or the address isn't this machine's.
    """

    def __init__(self, port: int, host: str = LOOPBACK, refresh: Callable[[], None] | None = None) -> None:
        self._refresh = refresh
        self._values: dict[tuple[str, Labels], dict[str, float]] = {}
        self._ranked: dict[str, int] = {}  # subject → time of the ranking
        self._lock = threading.Lock()
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise UsageError(
                f"--metrics prometheus://{host}:{port}: the port isn't free there ({error.strerror}); valid: a free "
                "port (0: any), at an address of this machine, or 0.0.0.0 for all"
            ) from error
        self.port = self._server.server_port
        self._host = socket.gethostname() if host == _EVERYWHERE else host

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}/metrics"

    def __enter__(self) -> Self:
        """The exporter itself: it listens already."""
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def write(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        """Set the values of the samples' series. A new ranking removes the ranks of the one before."""
        with self._lock:
            for sample in samples:
                if sample.subject.is_ranking:
                    self._begin_ranking(sample)
                labels = tuple({**common, **sample.labels}.items())
                numbers = {name: float(value) for name, value in sample.values.items() if not isinstance(value, str)}
                if numbers:
                    self._values.setdefault((sample.subject.name, labels), {}).update(numbers)

    def _begin_ranking(self, sample: Sample) -> None:
        """Remove the ranking of another time: the new one may have fewer ranks."""
        name = sample.subject.name
        if self._ranked.get(name) != sample.time_ms:
            self._values = {series: numbers for series, numbers in self._values.items() if series[0] != name}
            self._ranked[name] = sample.time_ms

    def forget(self) -> None:
        """Remove all series, because another run's series follow."""
        with self._lock:
            self._values.clear()

    def collect(self) -> Iterator[Any]:
        """The families of series, in the form that ``prometheus_client``'s registry needs."""
        if self._refresh is not None:
            self._refresh()
        with self._lock:
            values = {series: dict(numbers) for series, numbers in self._values.items()}
        by_subject: dict[str, list[tuple[Labels, dict[str, float]]]] = {}
        for (subject, labels), numbers in values.items():
            by_subject.setdefault(subject, []).append((labels, numbers))
        for metric in METRICS:
            series = [
                (labels, n[metric.name]) for labels, n in by_subject.get(metric.subject.name, []) if metric.name in n
            ]
            if series:
                yield _make_family(metric, series)


def _make_family(metric: Metric, series: Iterable[tuple[Labels, float]]) -> Any:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    labels = [*COMMON, *metric.subject.labels]
    text = f"{metric.subject.meaning}: {metric.meaning}" + ("" if UNITS[metric.unit] else f" ({metric.unit})")
    family = kind(metric.prometheus_name, text, labels=labels)
    for own, value in series:
        values = dict(own)
        family.add_metric([values.get(label, "") for label in labels], metric.in_prometheus(value))
    return family


class Client(Protocol):
    """A connection to a server that takes samples."""

    def close(self) -> None: ...

    def write(self, samples: Sequence[tuple[Sample, Mapping[str, str]]]) -> str:
        """Write samples, each with its run's labels. Return why they couldn't be written; empty: they were."""
        ...


class QueuedWriter:
    """Sends samples to a server from its own thread, and never delays the stream. It is a context manager.

    The clients' own batching writers keep an unbounded queue, or don't say how many points a failure cost. Here points
    wait in a bounded queue, one thread sends them, and every point is counted as ``written`` or ``lost``, the last ones
    for a ``reason``. Messages have the server's name and address, and where in it points go. The thread connects.
    """

    def __init__(self, name: str, url: str, where: str, connect: Callable[[], Client]) -> None:
        self._name, self._url, self._where, self._connect = name, url, where, connect
        self.written = 0
        self.lost = 0
        self.reason = ""
        self._queue: queue.Queue[tuple[Sample, Mapping[str, str]] | None] = queue.Queue(QUEUE)
        self._count = threading.Lock()
        # A daemon thread: a server that doesn't answer can't keep the process from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait a moment for the points in the queue; give up the rest."""
        deadline = time.monotonic() + _AT_THE_END
        ends = 0  # the entries of the queue that are no points
        with suppress(queue.Full):
            self._queue.put(None, timeout=_AT_THE_END)
            ends = 1
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            waiting = self._queue.unfinished_tasks - ends
            self._give_up(waiting, f"{self._url} did not take them in {_AT_THE_END:.0f} s at the end")

    def write(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        """Put samples in the queue, or count them as lost if it is full. It never waits."""
        for sample in samples:
            try:
                self._queue.put_nowait((sample, common))
            except queue.Full:
                self._give_up(1, f"the queue is full: {self._url} is too slow or down")

    def _work(self) -> None:
        with closing(self._connect()) as client:
            more = True
            while more:
                chunk, more = self._chunk()
                if chunk:
                    reason = client.write(chunk)
                    if reason:
                        self._give_up(len(chunk), reason)
                    else:
                        with self._count:
                            self.written += len(chunk)
                for _ in range(len(chunk) + (not more)):
                    self._queue.task_done()

    def _chunk(self) -> tuple[list[tuple[Sample, Mapping[str, str]]], bool]:
        """The points that wait, at least one; and whether more will come."""
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

    def _give_up(self, points: int, reason: str) -> None:
        with self._count:
            self.lost += points
            self.reason = reason

    @property
    def losses(self) -> str:
        """How many points were lost, and why. Empty: none were."""
        return f"{self.lost:,} points for {self._name} lost ({self.reason})" if self.lost else ""

    @property
    def balance(self) -> str:
        """How many points were written, and how many were lost."""
        return f"{self._name}: {self.written:,} points written to {self._where}, {self.losses or 'none lost'}"


def require_http(option: str, url: str) -> None:
    """Check that a URL is a server's http or https address.

    Raises ``UsageError`` if it isn't.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{option} {url}: no address; valid: http://HOST:PORT or https://HOST:PORT")


@dataclass(frozen=True)
class InfluxTarget:
    """A bucket of an InfluxDB."""

    url: str  #: InfluxDB's URL, token, organisation and bucket.
    token: str
    org: str
    bucket: str

    def __post_init__(self) -> None:
        """Check what can be checked without a server.

        Raises ``UsageError`` if the URL isn't one, or there is no token.
        """
        require_http("InfluxDB's URL", self.url)
        if not self.token:
            raise UsageError(f"InfluxDB at {self.url} needs a token: INFLUXDB_V2_TOKEN")

    @classmethod
    def of(cls, url: str | None, token: str | None, org: str | None, bucket: str | None) -> Self | None:
        """The target that the options name, or else the running stack's. None if there is neither.

        Raises ``UsageError`` if the URL is invalid, or there is no token for it.
        """
        if url is not None:
            return cls(url, token or "", org or "unskew", bucket or "unskew")
        found = stack.find_server("influxdb")
        if found is None:
            return None
        return cls(found.url, found.access["token"], found.access["org"], bucket or found.access["bucket"])


def make_influx_writer(target: InfluxTarget) -> QueuedWriter:
    """What sends samples to a bucket of InfluxDB."""

    def connect() -> Client:
        # Its client takes 0.7 s to import: here, while the JVM starts, and only where there is an InfluxDB.
        from unskew.apps.metrics.influx import Bucket

        return Bucket(target)

    return QueuedWriter("InfluxDB", target.url, f"bucket {target.bucket}", connect)


def make_otlp_writer(url: str) -> QueuedWriter:
    """What sends samples to an OpenTelemetry collector.

    Raises ``EnvironmentFault`` if the packages of the extra aren't installed.
    """
    try:
        from unskew.apps.metrics.otlp import Collector
    except ModuleNotFoundError as error:
        raise EnvironmentFault(f"--metrics {url} needs {error.name}: pip install 'unskew[otlp]'") from error
    return QueuedWriter("OpenTelemetry", url, url, lambda: Collector(url))


@dataclass(frozen=True)
class Destinations:
    """The destinations of metrics that the user wants."""

    influx: InfluxTarget | None = None  #: InfluxDB. None: no points are sent.
    prometheus_port: int | None = None  #: The port of Prometheus' page. 0: any free port. None: there is no page.
    prometheus_host: str = LOOPBACK  #: The address of the page.
    #: An OpenTelemetry collector: otlp://HOST:PORT, or otlps:// with TLS. None: it gets nothing.
    otlp: str | None = None

    @classmethod
    def of(
        cls,
        url: str | None = None,
        token: str | None = None,
        org: str | None = None,
        bucket: str | None = None,
        prometheus_port: int | None = None,
        prometheus_host: str = LOOPBACK,
        otlp: str | None = None,
    ) -> Self:
        """The destinations that a command's options name. For others it takes those of the running `unskew stack`.

        Raises ``UsageError`` if the URL or the port is invalid, or there is a URL but no token.
        """
        if prometheus_port is None and stack.find_server("prometheus"):
            prometheus_port = 0
        if prometheus_port is not None and not 0 <= prometheus_port < 1 << 16:
            raise UsageError(f"the port of Prometheus' page is {prometheus_port}; valid: 0 (any free one) to 65535")
        return cls(InfluxTarget.of(url, token, org, bucket), prometheus_port, prometheus_host, otlp)


class Outputs:
    """The outputs for all runs of this process, open while in use. It is a context manager."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self._stack = ExitStack()
        self.influx: QueuedWriter | None = None
        self.exporter: Exporter | None = None
        self._writers: list[QueuedWriter] = []

    def __enter__(self) -> Self:
        """Open the outputs.

        Raises ``UsageError`` if the exporter's port is taken; ``EnvironmentFault`` if a package is missing.
        """
        to = self._destinations
        if to.prometheus_port is not None:
            self.exporter = self._stack.enter_context(Exporter(to.prometheus_port, to.prometheus_host))
            self._stack.enter_context(registered_target(self.exporter.port))
        if to.influx is not None:
            self.influx = self._stack.enter_context(make_influx_writer(to.influx))
            self._writers.append(self.influx)
        if to.otlp is not None:
            self._writers.append(self._stack.enter_context(make_otlp_writer(to.otlp)))
        return self

    def __exit__(self, *_: object) -> None:
        """Close the outputs, after a moment for the points that are still on their way."""
        self._stack.close()

    def begin(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        """Begin a run. Prometheus' page then has the series of this run only, at first these samples."""
        if self.exporter is not None:
            self.exporter.forget()
        self._show(samples, common)

    def write(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        """Give samples, with the labels that they have in common, to every output. It never waits."""
        given = list(samples)
        for writer in self._writers:
            writer.write(given, common)
        self._show(given, common)

    def _show(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        if self.exporter is not None:
            self.exporter.write(samples, common)
            if self.influx is not None:
                points = {"written": self.influx.written, "lost": self.influx.lost}
                self.exporter.write([Sample(catalogue.METRICS_OUT, 0, points)], common)

    @property
    def losses(self) -> str:
        """How many points were lost, and why. Empty: none were."""
        return ", ".join(filter(None, (writer.losses for writer in self._writers)))

    @property
    def balance(self) -> str:
        """A line for each server, with the points that it has got, and those that were lost. Empty without one."""
        return "\n".join(writer.balance for writer in self._writers)
