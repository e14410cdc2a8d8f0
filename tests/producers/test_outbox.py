"""The producer when the broker is slow, gone for a while, or gone for good."""

import os
import signal
import threading
import time

import psutil
import pytest

from tests.producers.topic_contents import contents, expected
from tests.waiting import awaited
from unskew.deploy.servers.broker import Broker
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.outbox import Outbox
from unskew.kafka.topics import end_offsets, ensure_topic
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.pace import Rate
from unskew.producers.publish import DeliveryFault, publish_dataset

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def broker(own_broker):
    """One of our own, to be killed; it runs again for each test."""
    own_broker.start()
    return own_broker


class Upload(threading.Thread):
    """A publish in the background."""

    def __init__(self, connection, topic, dataset, **options):
        super().__init__(daemon=True)
        self.sent = 0
        self.summary = self.fault = None
        self._run = lambda: publish_dataset(connection, topic, dataset, progress=self._progress, **options)
        self.start()

    def _progress(self, records, size):
        self.sent = records

    def run(self):
        try:
            self.summary = self._run()
        except EnvironmentFault as fault:
            self.fault = fault

    def wait_for(self, records):
        while self.sent < records:
            assert self.is_alive()
            time.sleep(0.002)


def stands_still(upload, seconds=2.0):
    """How much the upload has sent, once that has stayed the same for so long."""
    before = upload.sent
    time.sleep(seconds)
    return before if upload.sent == before else None


def connections(broker):
    """Our connections to the broker. The kernel accepts them, also while the broker is stopped."""
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    there = psutil.Process().net_connections("tcp")
    return {each.laddr for each in there if each.status == psutil.CONN_ESTABLISHED and each.raddr.port == port}


@pytest.mark.ci
def test_a_killed_broker_neither_loses_nor_doubles(broker):
    connection = Connection(broker.bootstrap_servers)
    ensure_topic(connection, "killed", 3)
    dataset = create_dataset("COUNTRY_SKEW_R80", records=1_500_000, seed=1)
    upload = Upload(connection, "killed", dataset, pace=Rate(300_000))
    for records in (200_000, 600_000, 1_000_000):
        upload.wait_for(records)
        broker.kill()
        broker.start()
    upload.join()
    assert upload.summary.records == 1_500_000
    assert contents(connection, "killed") == expected(dataset, 3)


@pytest.mark.nightly(group="documents")
def test_a_stuck_broker_holds_the_upload_back(broker):
    connection = Connection(broker.bootstrap_servers)
    ensure_topic(connection, "stuck", 3)
    before = connections(broker)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        upload = Upload(connection, "stuck", create_dataset("COUNTRY_SKEW_R80", records=3_000_000))
        # It asks for the topic's partitions, and must not go on without an answer.
        awaited(lambda: connections(broker) - before, "a connection of the upload's")
        assert stands_still(upload) == 0
        assert upload.is_alive()
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    upload.wait_for(300_000)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        sent = awaited(lambda: stands_still(upload))
        assert sent < 3_000_000
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    upload.join()
    assert upload.summary.records == 3_000_000
    assert sum(end_offsets(connection, "stuck").values()) == 3_000_000


@pytest.mark.nightly(group="documents")
def test_a_broker_that_stays_away_is_an_error_with_the_number(broker):
    connection, complaints = Connection(broker.bootstrap_servers, {"delivery.timeout.ms": "10000"}), []
    ensure_topic(connection, "away", 3)
    dataset = create_dataset("COUNTRY_SKEW_R80", records=2_000_000)
    upload = Upload(connection, "away", dataset, pace=Rate(200_000), complain=complaints.append)
    upload.wait_for(300_000)
    broker.kill()
    upload.join()
    summary = upload.fault.summary
    assert isinstance(upload.fault, DeliveryFault)
    assert f"{summary.failed:,} records could not be delivered to topic 'away'" in str(upload.fault)
    assert "timed out" in str(upload.fault)
    assert len(complaints) == 1
    assert complaints[0].endswith("; trying on")
    assert "brokers are down" not in complaints[0]
    assert 0 < summary.failed <= Outbox.max_records + 65_536
    broker.start()
    there = sum(end_offsets(connection, "away").values())
    assert (
        summary.records <= there <= summary.records + summary.failed
    )  # some were there, but not acknowledged any more


@pytest.mark.nightly(group="documents")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_user_need_not_wait_for_a_broker_that_is_gone_or_stuck(broker, monkeypatch, how):
    monkeypatch.setattr(Outbox, "grace", 1.0)
    connection = Connection(broker.bootstrap_servers)
    topic = f"stop-{how.name.lower()}"
    ensure_topic(connection, topic, 3)
    stop = threading.Event()
    dataset = create_dataset("COUNTRY_SKEW_R80", records=2_000_000)
    upload = Upload(connection, topic, dataset, pace=Rate(200_000), stopped=stop.is_set)
    upload.wait_for(300_000)
    os.kill(broker.pid, how)
    try:
        upload.wait_for(340_000)
        stop.set()
        upload.join()
    finally:
        if how == signal.SIGSTOP:
            os.kill(broker.pid, signal.SIGCONT)
    summary = upload.fault.summary
    assert summary.interrupted
    assert summary.failed > 0
    assert f"{summary.failed:,} records could not be delivered" in str(upload.fault)
