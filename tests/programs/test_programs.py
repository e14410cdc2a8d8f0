"""Finding the servers' programs, which are scripts here. `make servers` in CI shows how they are got."""

from pathlib import Path

import pytest

from tests.programs.influxd import influxd
from tests.programs.prometheus import prometheus_programs
from tests.programs.stand_ins import SAYS_VERSION, tools  # noqa: F401
from unskew.deploy.servers import influxdb as stack_influxdb
from unskew.deploy.servers import prometheus as stack_prometheus
from unskew.errors import EnvironmentFault


def test_influxd_of_version_2_is_found_and_of_version_1_is_not(tools, monkeypatch):
    old = tools("influxd", SAYS_VERSION.format("v1.8.10"))
    with pytest.raises(EnvironmentFault, match=r"Go 1\.24 or later and Rust's cargo and a C compiler"):
        influxd()
    monkeypatch.setenv("UNSKEW_INFLUXD", str(old))
    with pytest.raises(EnvironmentFault, match="no influxd of InfluxDB 2"):
        influxd()
    monkeypatch.delenv("UNSKEW_INFLUXD")
    new = tools("influxd", SAYS_VERSION.format("v2.7.12"))
    assert influxd() == new
    elsewhere = new.rename(new.with_name("other"))
    monkeypatch.setenv("UNSKEW_INFLUXD", str(elsewhere))
    assert influxd() == elsewhere


def test_what_the_stack_lacks_is_said_and_not_made(tools, tmp_path):
    for name in ("go", "cargo", "cc", "apt-get", "dpkg-deb"):
        tools(name, 'touch "$TMPDIR/runs"')
    with pytest.raises(EnvironmentFault, match=r"an influxd of InfluxDB 2\.7 on the PATH .*`make servers` makes one"):
        stack_influxdb.require_influxd()
    with pytest.raises(EnvironmentFault, match=r"`sudo apt-get install prometheus`.*`make servers` fetches it"):
        stack_prometheus.require_programs()
    assert not (tmp_path / "runs").exists()


def test_what_is_built_is_what_the_stack_looks_for():
    description = Path(__file__).with_name("go.mod").read_text()
    assert f"require github.com/influxdata/influxdb/v2 v{stack_influxdb.VERSION}\n" in description


def test_prometheus_is_found(tools, monkeypatch):
    server = tools("prometheus")
    with pytest.raises(EnvironmentFault, match="no apt-get to fetch it; install Prometheus"):
        prometheus_programs()  # promtool is missing
    tool = tools("promtool")
    found = prometheus_programs()
    assert (found.prometheus, found.promtool, found.pages) == (server, tool, None)
    monkeypatch.setenv("UNSKEW_PROMETHEUS", str(server.with_name("nothing")))
    with pytest.raises(EnvironmentFault, match="UNSKEW_PROMETHEUS"):
        prometheus_programs()
