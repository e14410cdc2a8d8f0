"""The writer against a real InfluxDBServer that is well, refuses, hangs or dies."""

import time

import pytest

from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.outputs import QUEUE, InfluxTarget, make_influx_writer
from unskew.deploy.servers.influxdb import InfluxDBServer
from unskew.errors import UsageError

COMMON = {"run": "r", "source_type": "T", "grouping": "KEY", "workers": "2"}
START = int(time.time() * 1000) - 600_000


def samples(n):
    return [Sample(catalogue.WORKER, START + i // 2, {"tuples": i}, {"worker": str(i % 2)}) for i in range(n)]


def target(server, **changes):
    given = {"url": server.url, "token": server.token, "org": server.org, "bucket": server.bucket}
    return InfluxTarget(**(given | changes))


def values(server, bucket):
    from influxdb_client.client.influxdb_client import InfluxDBClient

    query = f'from(bucket: "{bucket}") |> range(start: -1h) |> filter(fn: (r) => r._measurement == "worker")'
    with InfluxDBClient(server.url, server.token, org=server.org) as client:
        return sorted(record.get_value() for table in client.query_api().query(query) for record in table.records)


@pytest.fixture
def server(influxdb, tmp_path):
    """One of our own, to be killed."""
    with InfluxDBServer(tmp_path / "influxdb") as started:
        yield started


def test_every_point_arrives_in_a_bucket_that_is_made(influxdb):
    with make_influx_writer(target(influxdb, bucket="made-here")) as writer:
        writer.write(samples(12_000), COMMON)
    assert (writer.written, writer.lost, writer.reason) == (12_000, 0, "")
    assert values(influxdb, "made-here") == list(range(12_000))


def test_a_replay_overwrites(influxdb):
    for _ in range(2):
        with make_influx_writer(target(influxdb, bucket="replayed")) as writer:
            writer.write(samples(100), COMMON)
    assert values(influxdb, "replayed") == list(range(100))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"token": "wrong"}, "401"), ({"org": "nobody"}, "404"), ({"url": "http://127.0.0.1:1"}, "refused")],
)
def test_what_is_refused_is_counted(influxdb, changes, reason):
    with make_influx_writer(target(influxdb, **changes)) as writer:
        writer.write(samples(100), COMMON)
    assert (writer.written, writer.lost) == (0, 100)
    assert reason in writer.reason or "at the end" in writer.reason


@pytest.mark.nightly(group="servers")
def test_a_server_that_comes_back_soon_costs_nothing(server):
    with make_influx_writer(target(server)) as writer:
        writer.write(samples(100), COMMON)
        server.kill()
        writer.write(samples(200), COMMON)
        server.start()
    assert (writer.written, writer.lost) == (300, 0)
    assert values(server, server.bucket) == list(range(200))


@pytest.mark.nightly(group="servers")
def test_a_server_that_hangs_is_not_waited_for(server):
    server.pause()
    with make_influx_writer(target(server)) as writer:
        writer.write(samples(QUEUE + 20_000), COMMON)
        assert writer.lost >= 10_000  # there is no room for them, and nobody waits for it
        assert "queue is full" in writer.reason
    server.resume()
    assert writer.written + writer.lost == QUEUE + 20_000


def test_no_url():
    with pytest.raises(UsageError, match=r"localhost:8086.*valid: http"):
        InfluxTarget("localhost:8086", "t", "o", "b")
