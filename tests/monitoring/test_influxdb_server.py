"""InfluxDB 2 as a process of ours: started, stopped, killed, paused, and what was written is still there."""

import os
import socket
import subprocess
import sys

import pytest
from influxdb_client import InfluxDBClient, Point
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from urllib3.exceptions import ReadTimeoutError

from tests.waiting import gone
from unskew.deploy.servers.influxdb import InfluxDB
from unskew.errors import EnvironmentFault

pytestmark = [pytest.mark.nightly(group="servers"), pytest.mark.usefixtures("influxd_program")]


def client_of(server: InfluxDB, **more) -> InfluxDBClient:
    return InfluxDBClient(server.url, server.token, org=server.org, **more)


def write(server: InfluxDB, value: int) -> None:
    with client_of(server) as client:
        point = Point("thing").field("value", value).time(value, "s")
        client.write_api(write_options=SYNCHRONOUS).write(server.bucket, record=point)


def values(server: InfluxDB) -> list[int]:
    flux = f'from(bucket: "{server.bucket}") |> range(start: 0) |> filter(fn: (r) => r._measurement == "thing")'
    with client_of(server) as client:
        return [record.get_value() for table in client.query_api().query(flux) for record in table.records]


def test_points_survive_restart_kill_and_a_new_server_on_the_directory(tmp_path):
    with InfluxDB(tmp_path, token="chosen", org="ours", bucket="kept") as server:
        url = server.url
        write(server, 1)
        server.restart()
        write(server, 2)
        server.kill()
        assert not server.alive
        server.start()
        assert server.url == url
        write(server, 3)
    with InfluxDB(tmp_path) as again:
        assert (again.token, again.org, again.bucket) == ("chosen", "ours", "kept")
        assert values(again) == [1, 2, 3]


def test_the_token_is_the_key_and_nobody_else_reads_it(influxdb):
    assert (influxdb.directory / "access.json").stat().st_mode & 0o077 == 0
    assert (influxdb.directory / "InfluxDB.address").stat().st_mode & 0o077 == 0
    with InfluxDBClient(influxdb.url, "another", org=influxdb.org) as stranger:
        with pytest.raises(ApiException) as refused:
            stranger.query_api().query("buckets()")
        assert refused.value.status == 401


def test_a_paused_server_is_silent_and_goes_on(tmp_path):
    with InfluxDB(tmp_path) as server:
        server.pause()
        with client_of(server, timeout=500) as client, pytest.raises(ReadTimeoutError):
            client.query_api().query("buckets()")
        server.resume()
        write(server, 1)
        assert values(server) == [1]
        server.pause()  # and a paused one can be stopped
    assert not server.alive


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's parent-death signal")
@pytest.mark.parametrize("paused", [False, True])
def test_it_ends_when_its_parent_is_killed(tmp_path, paused):
    code = (
        "import sys, time; from pathlib import Path; from unskew.deploy.servers.influxdb import InfluxDB;"
        "server = InfluxDB(Path(sys.argv[1])); server.start(); print(server.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    if paused:
        os.kill(pid, 19)  # SIGSTOP
    parent.kill()
    parent.communicate()
    assert gone(pid)


def test_two_servers_cannot_share_a_directory(influxdb):
    with pytest.raises(EnvironmentFault, match=f"another InfluxDB uses {influxdb.directory}"):
        InfluxDB(influxdb.directory).start()
    assert influxdb.alive


def test_a_port_that_something_listens_on_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"port {port} is taken"):
            InfluxDB(tmp_path, port=port).start()


def test_a_port_that_is_taken_after_the_look_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("unskew.deploy.servers.server.is_free", lambda port: True)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"port {port} is taken"):
            InfluxDB(tmp_path, port=port).start()


def test_a_server_that_cannot_start_says_why_in_one_line(tmp_path):
    (tmp_path / "influxd.bolt").write_text("no database of InfluxDB's")
    server = InfluxDB(tmp_path)
    with pytest.raises(EnvironmentFault, match="InfluxDB ended while starting") as fault:
        server.start()
    assert str(server.log) in str(fault.value)
    assert "\n" not in str(fault.value)
