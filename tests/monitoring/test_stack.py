"""`unskew stack` as its user meets it."""

import subprocess
import time

import pytest
from influxdb_client import InfluxDBClient

from tests.commands import UNSKEW, unskew
from tests.waiting import PATIENCE, awaited
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.deploy.servers import stack
from unskew.loopback import fetch_response

pytestmark = [pytest.mark.nightly(group="servers"), pytest.mark.usefixtures("influxd_program", "prometheus_program")]

COMMON = {"run": "test", "source_type": "T", "grouping": "KEY", "workers": "2"}


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSKEW_HOME", str(tmp_path))
    for name in ("URL", "TOKEN", "ORG", "BUCKET"):
        monkeypatch.delenv(f"INFLUXDB_V2_{name}", raising=False)
    yield tmp_path
    for part in stack.PARTS:
        stack.stop_server(part)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return unskew("stack", *arguments)


def test_it_outlives_the_command_is_found_again_and_keeps_its_data(own_home):
    first = [*UNSKEW, "stack", "start"]  # a process of its own, that ends
    started = subprocess.run(first, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert started.returncode == 0, started.stderr
    influxdb, prometheus = (stack.find_server(part) for part in stack.PARTS)
    assert influxdb
    assert prometheus
    assert f"InfluxDB is ready at {influxdb.url}" in started.stdout
    assert f"INFLUXDB_V2_TOKEN={influxdb.access['token']}" in started.stdout

    again = command("start")
    assert "InfluxDB runs already" in again.stdout
    assert stack.find_server("influxdb") == influxdb
    assert f"Prometheus runs at {prometheus.url}" in command("status").stdout
    other = command("start", "--prometheus-port", "1")
    assert (other.returncode, other.stderr.count("\n")) == (1, 1)

    assert "stopped InfluxDB" in command("stop", "influxdb").stdout
    assert stack.find_server("influxdb") is None
    assert stack.find_server("prometheus") == prometheus
    kept = stack.start_server("influxdb")
    assert (kept.access, kept.url, kept.moved_from) == (influxdb.access, influxdb.url, None)
    assert command("stop").returncode == 0
    silent = command("status")
    assert (silent.returncode, silent.stdout, silent.stderr.count("\n")) == (1, "", 1)
    assert "nothing of the stack is running" in command("stop").stdout


def test_an_unknown_part_is_a_usage_error(own_home):
    done = command("start", "kafka")
    assert done.returncode == 2
    assert "influxdb, prometheus" in done.stderr


def test_metrics_find_their_way_without_options(own_home):
    assert Destinations.of(None, None, None, None, None) == Destinations(None, None)
    influxdb, prometheus = (stack.start_server(part) for part in stack.PARTS)
    with Outputs(Destinations.of(None, None, None, None, None)) as outputs:
        assert outputs.exporter
        sample = Sample(catalogue.WINDOW, int(time.time() * 1000), {"std_dev": 12.5})
        outputs.write([sample], COMMON)
        page = f"127.0.0.1:{outputs.exporter.port}"

        def exported():
            url = f"{prometheus.url}/api/v1/query?query=unskew_window_std_dev_ratio"
            return fetch_response(url)["data"]["result"]

        (series,) = awaited(exported, "the series in Prometheus")
        assert (series["metric"]["instance"], series["metric"]["job"]) == (page, "unskew")
        assert series["value"][1] == "0.125"
        assert page in command("status").stdout
    access = influxdb.access
    with InfluxDBClient(influxdb.url, access["token"], org=access["org"]) as client:
        flux = f'from(bucket: "{access["bucket"]}") |> range(start: -1h)'
        (table,) = awaited(lambda: client.query_api().query(flux), "the point in InfluxDB")
        assert [record.get_value() for record in table.records] == [12.5]
    assert list(stack.targets_directory().glob("*.json")) == []
