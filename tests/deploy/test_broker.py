"""The embedded broker, started, stopped and killed for real."""

import os
import signal
import socket

import pytest
from confluent_kafka import ElectionType, Producer

from tests.producers.topic_contents import contents
from tests.waiting import PATIENCE, awaited
from unskew.deploy.servers import server
from unskew.deploy.servers.broker import Broker
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic

pytestmark = pytest.mark.kafka


def port_of(broker: Broker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def publish(connection: Connection, topic: str, values: list[bytes], partition: int = 0) -> None:
    failures = []
    producer = Producer(connection.client(acks="all"))
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(PATIENCE) == 0
    assert not failures


@pytest.mark.ci
@pytest.mark.slow
def test_acknowledged_records_survive_stop_restart_and_kill(tmp_path, topic):
    values = [b"%d" % number for number in range(1000)]
    with Broker(tmp_path / "data") as broker:
        connection = Connection(broker.bootstrap_servers)
        ensure_topic(connection, topic, 1)
        for part, interrupt in enumerate((broker.restart, broker.kill, broker.stop)):
            publish(connection, topic, values[part * 250 : part * 250 + 250])
            interrupt()
            broker.start()
            assert connection.bootstrap_servers == broker.bootstrap_servers
        publish(connection, topic, values[750:])
        identity = broker.cluster_id
        os.kill(broker.pid, signal.SIGKILL)  # as a crash, behind our back
    with Broker(tmp_path / "data") as again:
        connection = Connection(again.bootstrap_servers)
        assert again.cluster_id == identity
        assert contents(connection, topic) == {0: values}


@pytest.mark.nightly(group="clusters")
@pytest.mark.slow
def test_leaders_move_to_another_broker_and_back(tmp_path, topic):
    values = [b"%d" % number for number in range(1000)]
    replicated = {"default.replication.factor": "2"}
    with (
        Broker(tmp_path / "first", properties=replicated) as first,
        Broker(tmp_path / "second", properties=replicated, beside=first) as second,
    ):
        assert second.cluster_id == first.cluster_id
        connection = Connection(f"{first.bootstrap_servers},{second.bootstrap_servers}")
        admin = connection.admin()

        def partitions():
            return admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions

        def in_sync():
            return all({*each.isrs} == {1, 2} for each in partitions().values())

        ensure_topic(connection, topic, 2)
        awaited(in_sync, "both brokers")
        assert {each.leader for each in partitions().values()} == {1, 2}
        moves = next(number for number, each in partitions().items() if each.leader == 2)
        publish(connection, topic, values[:250], moves)
        second.kill()
        publish(connection, topic, values[250:500], moves)
        assert partitions()[moves].leader == 1
        port = first.controller_port
        first.kill()
        first.start()  # alone: the other one isn't in sync, and mustn't lead
        assert first.controller_port == port
        second.start()
        publish(connection, topic, values[500:750], moves)
        awaited(in_sync, "the second broker")
        admin.elect_leaders(ElectionType.PREFERRED, None).result()
        awaited(lambda: partitions()[moves].leader == 2, "the election")
        first.restart()  # its controller is found again by the second broker
        publish(connection, topic, values[750:], moves)
        awaited(in_sync, "the first broker")
        assert contents(connection, topic)[moves] == values


@pytest.mark.nightly(group="clusters")
def test_a_foreign_broker_on_the_port_is_not_taken_for_ours(kafka, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "is_free", lambda port: True)  # taken after we looked
    mine = Broker(tmp_path, port=port_of(kafka))
    with pytest.raises(EnvironmentFault, match=f"port {port_of(kafka)} is taken"):
        mine.start()
    assert not mine.alive
    assert kafka.alive


def test_what_kafka_refuses_is_one_line_with_the_log(tmp_path):
    broker = Broker(tmp_path, properties={"num.io.threads": "none"})
    with pytest.raises(EnvironmentFault, match=r"num\.io\.threads") as fault:
        broker.start()
    assert str(broker.log) in str(fault.value)
    assert "\n" not in str(fault.value)


def test_the_broker_is_ours_alone(kafka):
    assert kafka.bootstrap_servers.startswith("127.0.0.1:")
    with socket.socket() as outside:
        outside.settimeout(2)
        address = socket.gethostbyname(socket.gethostname())
        if not address.startswith("127."):
            with pytest.raises(OSError, match="refused"):
                outside.connect((address, port_of(kafka)))
