"""The stream is exact and comes to its end, whatever InfluxDBServer does meanwhile; what is lost is counted."""

from collections import Counter
from itertools import count

import pytest

from tests.apps.conftest import by_key, countries, final_counts, publish, settings, spark  # noqa: F401
from tests.monitoring.monitored import monitored, points
from unskew.apps.metrics.outputs import Destinations, Outputs
from unskew.deploy.servers.influxdb import InfluxDBServer

pytestmark = [pytest.mark.nightly(group="servers"), pytest.mark.slow]
KEYS = ["Turkey", "Turkey", "Turkey", "Peru", "Chad"] * 700


@pytest.fixture(scope="module")
def to_be_harmed(influxd_program, tmp_path_factory):
    with InfluxDBServer(tmp_path_factory.mktemp("influxdb")) as started:
        yield started


@pytest.fixture
def server(to_be_harmed):
    """One of our own; well again afterwards."""
    yield to_be_harmed
    if to_be_harmed.alive:
        to_be_harmed.resume()
    else:
        to_be_harmed.start()


HARMS = {
    "killed": lambda server: server.kill(),
    "started again": lambda server: (server.kill(), server.start()),
    "paused": lambda server: server.pause(),
    "refuses": lambda _: None,
}


def at_second_batch(harm, server):
    """Does it when there are points already, and more to come."""
    batches = count(1)
    return lambda _: next(batches) == 2 and HARMS[harm](server)


@pytest.mark.parametrize("harm", HARMS)
def test_influxdb_in_trouble(harm, spark, settings, connection, topic, server):
    publish(connection, topic, 2, countries(KEYS))
    run = settings("PARTIAL_KEY", max_tuples=500)
    token = "refused" if harm == "refuses" else server.token
    with Outputs(Destinations.of(server.url, token, server.org, topic, None)) as outputs:
        outcome = monitored(spark, run, outputs, at_second_batch(harm, server))
    assert outcome.drained
    assert by_key(final_counts(connection, f"{run.name}-aggregator")) == Counter(KEYS)
    if harm == "started again":
        assert outputs.influx.lost == 0
        found = points(server, topic)
        assert len({series for series in found if series[0] == "batch"}) == outcome.batches
    else:
        assert outputs.influx.lost > 0
        assert f"{outputs.influx.lost:,} points for InfluxDB lost" in outputs.balance
