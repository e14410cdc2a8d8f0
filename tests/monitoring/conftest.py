"""Real InfluxDBServer and Prometheus servers, for the tests of metrics and of dashboards.

A test is skipped where it lacks a server's program, with the reason. With `UNSKEW_REQUIRE_SERVERS=1`, as CI has it,
that is a failure.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.programs import found
from unskew.deploy.servers.influxdb import InfluxDBServer, require_influxd
from unskew.deploy.servers.prometheus import PrometheusPrograms, PrometheusServer, require_programs


@pytest.fixture(scope="session")
def influxd_program() -> Path:
    """InfluxDB's program."""
    return found(require_influxd)


@pytest.fixture(scope="session")
def prometheus_program() -> PrometheusPrograms:
    """Prometheus' programs."""
    return found(require_programs)


@pytest.fixture(scope="session")
def promtool(prometheus_program: PrometheusPrograms) -> Callable[..., None]:
    """Calls Prometheus' `promtool` with some arguments, and maybe a page to read: it finds nothing to say."""

    def call(*arguments: object, page: bytes = b"") -> None:
        command = [prometheus_program.promtool, *map(str, arguments)]
        done = subprocess.run(command, input=page, capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    return call


@pytest.fixture(scope="session")
def influxdb(influxd_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InfluxDBServer]:
    """A running InfluxDBServer of this process' tests: write to a bucket of your own, and start your own to kill it."""
    with InfluxDBServer(tmp_path_factory.mktemp("influxdb")) as server:
        yield server


@pytest.fixture
def prometheus(
    prometheus_program: PrometheusPrograms, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., PrometheusServer]]:
    """Starts a Prometheus with the arguments of `PrometheusServer` (all but its directory), stopped after the test."""
    with ExitStack() as stack:
        yield lambda **arguments: stack.enter_context(
            PrometheusServer(tmp_path_factory.mktemp("prometheus"), **arguments)
        )
