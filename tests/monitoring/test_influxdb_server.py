"""InfluxDB 2 as a process of ours: started, stopped, killed, paused, and what was written is still there."""

import pytest
from influxdb_client import InfluxDBClient, Point
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from urllib3.exceptions import ReadTimeoutError

from unskew.deploy.servers.influxdb import InfluxDBServer

pytestmark = [pytest.mark.nightly(group="servers"), pytest.mark.usefixtures("influxd_program")]


def client_of(server: InfluxDBServer, **more) -> InfluxDBClient:
    return InfluxDBClient(server.url, server.token, org=server.org, **more)


def write(server: InfluxDBServer, value: int) -> None:
    with client_of(server) as client:
        point = Point("thing").field("value", value).time(value, "s")
        client.write_api(write_options=SYNCHRONOUS).write(server.bucket, record=point)


def values(server: InfluxDBServer) -> list[int]:
    flux = f'from(bucket: "{server.bucket}") |> range(start: 0) |> filter(fn: (r) => r._measurement == "thing")'
    with client_of(server) as client:
        return [record.get_value() for table in client.query_api().query(flux) for record in table.records]


def test_points_survive_restart_kill_and_a_new_server_on_the_directory(tmp_path):
    with InfluxDBServer(tmp_path) as server:
        url, token = server.url, server.token
        write(server, 1)
        server.restart()
        write(server, 2)
        server.kill()
        assert not server.alive
        server.start()
        assert server.url == url
        write(server, 3)
    with InfluxDBServer(tmp_path) as again:
        assert (again.token, again.org, again.bucket) == (token, "unskew", "unskew")
        assert values(again) == [1, 2, 3]


def test_the_token_is_the_key_and_nobody_else_reads_it(influxdb):
    assert (influxdb.directory / "access.json").stat().st_mode & 0o077 == 0
    assert (influxdb.directory / "InfluxDB.address").stat().st_mode & 0o077 == 0
    with InfluxDBClient(influxdb.url, "another", org=influxdb.org) as stranger:
        with pytest.raises(ApiException) as refused:
            stranger.query_api().query("buckets()")
        assert refused.value.status == 401


def test_a_paused_server_is_silent_and_goes_on(tmp_path):
    with InfluxDBServer(tmp_path) as server:
        server.pause()
        with client_of(server, timeout=500) as client, pytest.raises(ReadTimeoutError):
            client.query_api().query("buckets()")
        server.resume()
        write(server, 1)
        assert values(server) == [1]
        server.pause()  # and a paused one can be stopped
    assert not server.alive
