"""The stream is exact and comes to its end, whatever InfluxDB does meanwhile; what is lost is counted."""

import threading
from collections import Counter

import pytest

from tests.apps.conftest import (  # noqa: F401
    by_key,
    connection,
    countries,
    final_counts,
    publish,
    settings,
    spark,
)
from tests.monitoring.test_run_metrics import monitored, points
from unskew.apps.monitoring.outputs import Destinations, Outputs
from unskew.deploy.servers.influxdb import InfluxDB

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]
KEYS = ["Turkey", "Turkey", "Turkey", "Peru", "Chad"] * 2_000


@pytest.fixture
def server(influxd_program, tmp_path):
    with InfluxDB(tmp_path / "influxdb") as started:
        yield started


def kill(server):
    server.kill()


def kill_and_start(server):
    server.kill()
    server.start()


def pause(server):
    server.pause()


@pytest.mark.parametrize("harm", [kill, kill_and_start, pause, None])
def test_influxdb_in_trouble(harm, spark, settings, connection, topic, server):
    publish(connection, topic, 2, countries(KEYS))
    run = settings("PARTIAL_KEY", max_tuples=500)
    token = "refused" if harm is None else server.token
    with Outputs(Destinations.of(server.url, token, server.org, server.bucket, None)) as outputs:
        trouble = threading.Timer(3.0, harm or (lambda *_: None), [server])
        trouble.start()
        outcome = monitored(spark, run, outputs)
        trouble.join()
    assert outcome.drained
    assert by_key(final_counts(connection, f"{run.name}-aggregator")) == Counter(KEYS)
    if harm is kill_and_start:
        assert outputs.influx.lost == 0
        found = points(server, server.bucket)
        assert len({place for place in found if place[0] == "batch"}) == outcome.batches
    else:
        assert outputs.influx.lost > 0
        assert f"{outputs.influx.lost:,} points for InfluxDB lost" in outputs.balance
