"""What is in a topic, read by a consumer that shares nothing with the producer."""

from confluent_kafka import Consumer, TopicPartition

from tests.waiting import PATIENCE
from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.topics import end_offsets


def contents(connection, topic):
    """All values of each partition, in order."""
    ends = end_offsets(connection, topic)
    consumer = Consumer(connection.client(**{"group.id": "test", "fetch.queue.backoff.ms": 10}))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    values = {partition: [] for partition in ends}
    while missing := sum(ends.values()) - sum(map(len, values.values())):
        batch = consumer.consume(min(missing, 10_000), timeout=PATIENCE)
        assert batch, "the broker has fewer records than its offsets say"
        for message in batch:
            assert not message.error()
            values[message.partition()].append(message.value())
    consumer.close()
    return values


def expected(dataset, partitions):
    """Record i belongs to partition i mod P."""
    values = [v for block in dataset.blocks() for v in block.messages.to_pylist()]
    return {p: values[p::partitions] for p in range(partitions)}


def size(connection, topic):
    """How many records the topic has; none if it doesn't exist yet or only just."""
    try:
        return sum(end_offsets(connection, topic).values())
    except (UsageError, EnvironmentFault):
        return 0
