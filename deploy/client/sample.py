"""Some messages of a topic, to see what they are like."""

import logging
import time

from unskew.deploy.client.connection import Connection

log = logging.getLogger(__name__)

_PATIENCE = 2.0  # s
_MOST_PARTITIONS = 16  # each is asked for its offsets


def newest(connection: Connection, topic: str, count: int) -> list[bytes]:
    """The values of some ``count`` of a topic's newest messages; fewer if they don't come."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    deadline = time.monotonic() + _PATIENCE
    quick = {"fetch.queue.backoff.ms": 10, "fetch.wait.max.ms": 10}
    consumer = Consumer(connection.client(**{"group.id": "unskew", "enable.auto.commit": False, **quick}))
    values: list[bytes] = []
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions)[:_MOST_PARTITIONS]
        each = -(-count // max(len(partitions), 1))
        starts, due = [], 0
        for number in partitions:
            place = TopicPartition(topic, number)
            first, end = consumer.get_watermark_offsets(place, timeout=_PATIENCE)
            place.offset = max(first, end - each)
            due += end - place.offset
            starts.append(place)
        consumer.assign(starts)
        while due > 0 and (left := deadline - time.monotonic()) > 0:
            messages = consumer.consume(due, min(left, 0.1))
            due -= len(messages)
            values += [value for m in messages if m.error() is None and (value := m.value()) is not None]
    except KafkaException as error:
        log.info("no sample of topic %s: %s", topic, error)
    finally:
        consumer.close()
    return values
