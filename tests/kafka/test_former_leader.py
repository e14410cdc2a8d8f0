"""Exactly once though a broker takes itself for the leader of the numbers, and another one leads them by now."""

import threading
from collections import Counter

import pytest
from confluent_kafka.admin import NewTopic

from evidence.faults.leaders import REPLICATED
from evidence.faults.transactions.protocol import commits_of
from tests.kafka.attempt import RECORDS, write
from tests.waiting import awaited
from unskew.deploy.servers.broker import Broker
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets
from unskew.kafka.transactions import COMMITS, TransactionalWriter

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CUT = 5.0  # s that the former leader is the only broker that answers


@pytest.fixture
def brokers(tmp_path):
    """Two brokers, the first of which is the controller."""
    with (
        Broker(tmp_path / "first", properties=REPLICATED) as first,
        Broker(tmp_path / "second", properties=REPLICATED, beside=first) as second,
    ):
        yield first, second


def only(*brokers: Broker) -> Connection:
    return Connection(",".join(broker.bootstrap_servers for broker in brokers))


def leaders(broker: Broker) -> set[int]:
    """The nodes that lead any partition, as this broker has it."""
    admin = only(broker).admin()
    found = admin.list_topics(timeout=10).topics.values()
    return {partition.leader for topic in found for partition in topic.partitions.values()}


class Late(TransactionalWriter):
    """Takes the part by the new leader. Then the former one goes on, and for a while no other broker answers."""

    brokers: tuple[Broker, Broker]

    def _mark(self) -> int:
        first, second = self.brokers
        first.pause()
        second.resume()
        threading.Timer(CUT, first.resume).start()
        self._connection = only(second)
        return super()._mark()


@pytest.mark.ci
def test_a_number_is_found_that_the_former_leader_lacks(brokers, topic):
    first, second = brokers
    made = [
        NewTopic(topic, 1, replica_assignment=[[second.node_id, first.node_id]]),
        NewTopic(commits_of(topic), 1, replica_assignment=[[second.node_id, first.node_id]], config=COMMITS),
    ]
    admin = only(first).admin()
    for done in admin.create_topics(made).values():
        done.result()
    of = f"{topic}-0", commits_of(topic), 0
    assert write(TransactionalWriter(only(first, second), *of), topic, 0)
    numbers = commits_of(topic)
    awaited(lambda: len({*map(str, (end_offsets(only(first), numbers, committed=c) for c in (True, False)))}) == 1)
    second.pause()
    awaited(lambda: leaders(first) == {first.node_id}, "the first broker leads", 0.2)
    assert write(TransactionalWriter(only(first), *of), topic, 1)
    Late.brokers = brokers
    again = write(Late(only(first), *of), topic, 1)
    with TopicReader(only(first), topic) as reader:
        found = Counter((message.value() or b"").decode() for message in reader.to_end())
    assert found == Counter(f"{batch}-{i}" for batch in range(2) for i in range(RECORDS))
    assert not again
