"""The page that Prometheus scrapes."""

import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from unskew.apps.monitoring.catalogue import COMMON, METRICS, UNITS, Metric
from unskew.apps.monitoring.samples import Sample
from unskew.deploy.servers.ports import LOOPBACK
from unskew.errors import UsageError

_EVERYWHERE = "0.0.0.0"  # noqa: S104  only compared with

Labels = tuple[tuple[str, str], ...]


class Exporter:
    """``/metrics`` on a port of its own: the newest value of each series; a context manager.

    It has a registry of its own: an application that exports metrics too isn't disturbed. What a sample's value
    was at its own time is InfluxDB's matter; here it is the value now.

    Parameters
    ----------
    port : int
        0: any that is free.
    host : str
        The address to listen at. Nobody but this machine sees the page unless told otherwise; ``0.0.0.0``: all do.

    Raises
    ------
    UsageError
        The port is taken, or the address isn't this machine's.

    """

    def __init__(self, port: int, host: str = LOOPBACK) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        self._values: dict[tuple[str, Labels], dict[str, float]] = {}
        self._lock = threading.Lock()
        registry = CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise UsageError(
                f"--prometheus-port {port} can't be had at {host} ({error.strerror}); valid: a free port (0: any), "
                "and as --prometheus-host an address of this machine, or 0.0.0.0 for all"
            ) from error
        self.port = self._server.server_port
        self._host = socket.gethostname() if host == _EVERYWHERE else host

    @property
    def url(self) -> str:
        """The page."""
        return f"http://{self._host}:{self.port}/metrics"

    def __enter__(self) -> Self:
        """It listens already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the page."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def write(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        """Take the samples' values for now's."""
        with self._lock:
            for sample in samples:
                if sample.subject.prometheus:
                    labels = tuple({**common, **sample.labels}.items())
                    numbers = {name: float(value) for name, value in sample.values.items()}
                    self._values.setdefault((sample.subject.name, labels), {}).update(numbers)

    def forget(self) -> None:
        """Leave all series behind: what follows is another run's."""
        with self._lock:
            self._values.clear()

    def collect(self) -> Iterator[Any]:
        """The families of series, as ``prometheus_client``'s registry asks for them."""
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
                yield _family(metric, series)


def _family(metric: Metric, series: Iterable[tuple[Labels, float]]) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    labels = [*COMMON, *metric.subject.labels]
    said = f"{metric.subject.meaning}: {metric.meaning}" + ("" if UNITS[metric.unit] else f" ({metric.unit})")
    family = kind(metric.prometheus_name, said, labels=labels)
    for own, value in series:
        known = dict(own)
        family.add_metric([known.get(label, "") for label in labels], value)
    return family
