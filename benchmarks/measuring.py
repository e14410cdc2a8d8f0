"""What several benchmarks measure alike."""

import heapq
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Message, TopicPartition
from pyspark.sql import DataFrame

from benchmarks.processes import spent
from unskew.apps.run.ending import Halted, stop_between_batches
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import end_offsets


def messages(connection: Connection, topic: str, start: Mapping[int, int] | None = None) -> list[Message]:
    """All that a topic has now, from these offsets on; without any from the first message on."""
    begin, ends = start or {}, end_offsets(connection, topic)
    consumer = Consumer(connection.client(**{"group.id": "bench", "enable.auto.commit": False}))
    consumer.assign([TopicPartition(topic, partition, begin.get(partition, 0)) for partition in ends])
    wanted = sum(end - begin.get(partition, 0) for partition, end in ends.items())
    found: list[Message] = []
    while len(found) < wanted:
        found += consumer.consume(10_000, 1.0)
    consumer.close()
    return found


def on_slots(tasks: Iterable[int], slots: int) -> list[int]:
    """The load of each slot, where slots take tasks as they become free, in their order."""
    loads = [0] * slots
    for load in tasks:
        heapq.heapreplace(loads, loads[0] + load)
    return loads


@dataclass
class Batches:
    """A stream's batches: what each gave, and when it was over (wall and CPU, in s)."""

    given: list[object] = field(default_factory=list)
    over: list[tuple[float, float]] = field(default_factory=list)

    def seconds(self, warm: int) -> tuple[float, float]:
        """Wall and CPU seconds of the batches after the first ``warm`` ≥ 1."""
        (wall, spent), (first, before) = self.over[-1], self.over[warm - 1]
        return wall - first, spent - before


def batches(df: DataFrame, checkpoint: str, count: int, sink: Callable[[DataFrame], object]) -> Batches:
    """Run a stream for so many batches, as fast as it can, each given to ``sink``; its source must be capped."""
    found = Batches()

    def batch(rows: DataFrame, _: int) -> None:
        if len(found.over) == count:
            raise Halted
        found.given.append(sink(rows))
        found.over.append((time.monotonic(), spent()))

    query = df.writeStream.option("checkpointLocation", checkpoint).foreachBatch(batch).start()
    while len(found.over) < count:
        if query.awaitTermination(0.05):
            raise RuntimeError("the stream ended by itself")
    stop_between_batches(query)
    return found
