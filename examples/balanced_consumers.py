"""A consumer group whose members share a skewed stream evenly, without Spark.

    python examples/balanced_consumers.py [GROUPING ...]

A producer lets a grouping choose the partition of each record, and four plain consumers of one group, a partition each,
count their records' keys. By KEY, one of them gets half of all; by PARTIAL_KEY, two share the hot key and the sum of
their counts is still exact. The price is that a key's total is the sum of two consumers' counts instead of one's.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer
from rich.console import Console
from rich.table import Table

from unskew.deploy.servers.broker import Broker
from unskew.kafka.connection import Connection
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.registry import create_dataset as dataset
from unskew.producers.partitioning import Partitioner
from unskew.producers.publish import publish_dataset

RECORDS, CONSUMERS = 200_000, 4


def join(connection: Connection, topic: str) -> list[Consumer]:
    """A group of consumers, each of which has got its partition."""
    settings = connection.client(
        **{"group.id": f"{topic}-counters", "auto.offset.reset": "earliest", "fetch.queue.backoff.ms": 10}
    )
    consumers = [Consumer(settings) for _ in range(CONSUMERS)]
    for consumer in consumers:
        consumer.subscribe([topic])
    while any(len(consumer.assignment()) != 1 for consumer in consumers):
        for consumer in consumers:
            consumer.poll(0.1)
    return consumers


def count(consumers: list[Consumer], records: int) -> list[Counter[bytes]]:
    """Each consumer's count of each key."""
    counts: list[Counter[bytes]] = [Counter() for _ in consumers]
    while sum(each.total() for each in counts) < records:
        for consumer, each in zip(consumers, counts, strict=True):
            each.update(message.key() for message in consumer.consume(10_000, timeout=0.1) if not message.error())
    return counts


def main(schemes: list[str]) -> None:
    table = Table("grouping", "records of each consumer", "largest / mean", "consumers a key")
    with tempfile.TemporaryDirectory() as data, Broker(Path(data)) as broker:
        connection = Connection(broker.bootstrap_servers)
        for scheme in schemes:
            topic = scheme.lower()
            ensure_topic(connection, topic, CONSUMERS)
            consumers = join(connection, topic)
            stream = dataset("COUNTRY_SKEW_R40", records=RECORDS)
            sent = publish_dataset(connection, topic, stream, placement=Partitioner(scheme, CONSUMERS))
            counts = count(consumers, RECORDS)
            for consumer in consumers:
                consumer.close()
            merged = sum(counts, Counter())
            assert {key.decode(): n for key, n in merged.items()} == sent.keys.tuples()
            loads = sorted((each.total() for each in counts), reverse=True)
            copies = sum(len(each) for each in counts) / len(merged)
            table.add_row(scheme, str(loads), f"{loads[0] * CONSUMERS / RECORDS:.2f}", f"{copies:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:] or ["KEY", "PARTIAL_KEY", "W_CHOICES", "SHUFFLE"])
