import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from tests.waiting import awaited
from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.connection import Connection
from unskew.kafka.topics import count_partitions, end_offsets, ensure_topic, list_topics, require_reachable, topic_id
from unskew.loopback import free_port

pytestmark = pytest.mark.kafka


def test_a_missing_topic_is_made_once(connection, topic):
    assert count_partitions(connection, topic) is None
    assert ensure_topic(connection, topic, 3, {"retention.ms": "3600000"})
    assert not ensure_topic(connection, topic, 3)
    assert count_partitions(connection, topic) == 3
    assert list_topics(connection)[topic] == 3


def test_many_make_one_topic_at_once(connection, topic):
    with ThreadPoolExecutor(8) as pool:
        for number in range(10):  # the controller has a topic before the broker's metadata has
            made = list(pool.map(lambda _, name=f"{topic}-{number}": ensure_topic(connection, name, 2), range(8)))
            assert made.count(True) == 1


def test_another_number_of_partitions_is_refused(connection, topic):
    ensure_topic(connection, topic, 2)
    with pytest.raises(UsageError, match=f"{topic} has 2 partitions, not the 5 asked for"):
        ensure_topic(connection, topic, 5)
    assert not ensure_topic(connection, topic, 5, any_number=True)


def test_a_topic_that_is_made_again_has_another_id(connection, topic):
    admin = connection.admin()
    assert topic_id(admin, topic) is None
    ensure_topic(connection, topic, 1)
    first = topic_id(admin, topic)
    assert first is not None
    assert topic_id(admin, topic) == first
    admin.delete_topics([topic])[topic].result()
    awaited(lambda: count_partitions(connection, topic) is None, "the topic is gone")
    ensure_topic(connection, topic, 1)
    assert topic_id(admin, topic) not in (None, first)


def test_what_kafka_refuses_is_the_users_mistake(connection):
    for name, partitions, config, message in (
        ("a b", 1, {}, "invalid"),
        ("fine", 1, {"nonsense": "1"}, "nonsense"),
        ("fine", -3, {}, "partitions"),
    ):
        with pytest.raises(UsageError, match=rf"(?i)topic {name} cannot be made: .*{message}"):
            ensure_topic(connection, name, partitions, config)


def test_end_offsets_count_what_was_published(connection, topic):
    with pytest.raises(UsageError, match=f"no topic {topic}"):
        end_offsets(connection, topic)
    ensure_topic(connection, topic, 3)
    producer = Producer(connection.client())
    for number in range(10):
        producer.produce(topic, b"x", partition=number % 2)
    producer.flush()
    assert end_offsets(connection, topic) == {0: 5, 1: 5, 2: 0}


@pytest.mark.usefixtures("impatient")
def test_an_unreachable_broker_is_one_line():
    server = f"127.0.0.1:{free_port()}"
    with pytest.raises(EnvironmentFault, match=rf"no Kafka broker answers at {server} .*refused.*bootstrap") as fault:
        require_reachable(Connection(server))
    assert "\n" not in str(fault.value)


def test_asking_for_an_id_leaves_nothing_behind(connection, topic):
    ensure_topic(connection, topic, 1)
    admin = connection.admin()
    for _ in range(200):  # warm
        topic_id(admin, topic)
    before = sys.getallocatedblocks()
    for _ in range(1000):
        topic_id(admin, topic)
    assert sys.getallocatedblocks() - before < 500
