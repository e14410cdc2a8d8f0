"""Where metrics go: to InfluxDB, to Prometheus, to both, or nowhere."""

import itertools
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from unskew.apps.monitoring import catalogue
from unskew.apps.monitoring.exporter import Exporter
from unskew.apps.monitoring.influx import InfluxWriter
from unskew.apps.monitoring.samples import Sample
from unskew.deploy.client.influx_target import Target
from unskew.deploy.servers import stack
from unskew.deploy.servers.ports import LOOPBACK
from unskew.deploy.servers.scraping import scraped
from unskew.errors import UsageError


@dataclass(frozen=True)
class Destinations:
    """What the user asked for.

    Attributes
    ----------
    influx : Target or None
        None: nothing is pushed.
    prometheus_port : int or None
        0: any free port; None: no page.
    prometheus_host : str
        The address that the page is at.

    """

    influx: Target | None = None
    prometheus_port: int | None = None
    prometheus_host: str = LOOPBACK

    @classmethod
    def of(
        cls,
        url: str | None = None,
        token: str | None = None,
        org: str | None = None,
        bucket: str | None = None,
        prometheus_port: int | None = None,
        prometheus_host: str = LOOPBACK,
    ) -> Self:
        """What the command's options say; what they leave open, the running `unskew stack` has.

        Raises
        ------
        UsageError
            The URL isn't one, there is a URL but no token, or the port can't be one.

        """
        if prometheus_port is None and stack.running("prometheus"):
            prometheus_port = 0
        if prometheus_port is not None and not 0 <= prometheus_port < 1 << 16:
            raise UsageError(f"--prometheus-port is {prometheus_port}; valid: 0 (any free one) to 65535")
        return cls(Target.of(url, token, org, bucket), prometheus_port, prometheus_host)


class Outputs:
    """The open outputs, for all runs of this process; a context manager."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self._stack = ExitStack()
        self.influx: InfluxWriter | None = None
        self.exporter: Exporter | None = None

    def __enter__(self) -> Self:
        """Open them.

        Raises
        ------
        UsageError
            The exporter's port is taken.

        """
        asked = self._destinations
        if asked.prometheus_port is not None:
            self.exporter = self._stack.enter_context(Exporter(asked.prometheus_port, asked.prometheus_host))
            self._stack.enter_context(scraped(self.exporter.port))
        if asked.influx is not None:
            self.influx = self._stack.enter_context(InfluxWriter(asked.influx))
        return self

    def __exit__(self, *_: object) -> None:
        """Close them; what is still on its way gets a moment."""
        self._stack.close()

    def begin(self, standing: Iterable[Sample], common: Mapping[str, str]) -> None:
        """Begin with a run: the page has that run's series alone, at first where it stands."""
        if self.exporter is not None:
            self.exporter.forget()
        self._show(standing, common)

    def write(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        """Hand samples to all of them, with their common labels; never waits for anyone."""
        ours, theirs = itertools.tee(samples)
        if self.influx is not None:
            self.influx.write(ours, common)
        self._show(theirs, common)

    def _show(self, samples: Iterable[Sample], common: Mapping[str, str]) -> None:
        if self.exporter is not None:
            self.exporter.write(samples, common)
            if self.influx is not None:
                sent = {"written": self.influx.written, "lost": self.influx.lost}
                self.exporter.write([Sample(catalogue.METRICS_OUT, 0, sent)], common)

    @property
    def losses(self) -> str:
        """How many points InfluxDB has lost, and why; empty if none."""
        if self.influx is None or not self.influx.lost:
            return ""
        return f"{self.influx.lost:,} points for InfluxDB lost ({self.influx.reason})"

    @property
    def balance(self) -> str:
        """What became of the points, in words; empty without InfluxDB."""
        if self.influx is None:
            return ""
        lost = self.losses or "none lost"
        return f"InfluxDB: {self.influx.written:,} points written to bucket {self.influx.target.bucket}, {lost}"
