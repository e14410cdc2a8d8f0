"""The loads: how many messages each worker of a contestant got, as its engine shows them, and how uneven that is.

Workers without a message may be missing in what an engine shows. So may be the newest messages: it is read again until
it has all.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import orjson
from confluent_kafka import Consumer, TopicPartition
from numpy.typing import ArrayLike, NDArray

from evidence.engines.jobs import LATENESS_MS
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets

#: Where a contestant's engine writes its own account, in the contestant's folder.
ACCOUNT = "account"
_PATIENCE = 15.0  # s, after which an engine has shown what it will
_LOOK_EVERY = 0.2  # s


def data_skew(loads: ArrayLike) -> float:
    """Flink's data skew in %: mean absolute deviation ÷ mean of the loads, at most 100. It is 0 if there is no load.

    After FLIP-418, and ``DoubleAccumulator.DoubleDataSkew`` of Flink's sources.

    >>> data_skew([4, 5, 5, 5, 5])
    6.666666666666667
    """
    array = np.asarray(loads, dtype=np.float64)
    mean = float(array.mean())
    return min(100 * float(np.abs(array - mean).mean()) / mean, 100.0) if mean else 0.0


def whole(shown: Callable[[], list[int]], messages: int, workers: int) -> NDArray[np.int64] | None:
    """The loads, int64[W], as soon as an engine shows so many messages. None: it doesn't, and that is printed."""
    until = time.monotonic() + _PATIENCE
    while sum(found := shown()) != messages:
        if time.monotonic() > until:
            print(f"loads: {sum(found):,} of {messages:,} messages are shown: {found}")
            return None
        time.sleep(_LOOK_EVERY)
    busy = [each for each in found if each]
    return np.pad(np.array(busy, np.int64), (0, workers - len(busy)))


def of_members(connection: Connection, group: str, topic: str) -> list[int]:
    """The messages in the partitions of a topic that each member of a consumer group has.

    They are what offsets say, because Kafka Streams deletes what it has read. The messages of ``send_last``, which are
    at the end, don't count.
    """
    admin = connection.admin()  # it must outlive the answer
    members = admin.describe_consumer_groups([group])[group].result().members
    owned = [
        [each.partition for each in member.assignment.topic_partitions if each.topic == topic] for member in members
    ]
    ends = end_offsets(connection, topic)
    later = round(time.time() * 1000) + LATENESS_MS
    consumer = Consumer(connection.client(**{"group.id": "loads"}))
    try:
        last = consumer.offsets_for_times([TopicPartition(topic, each, later) for each in ends], timeout=5.0)
    finally:
        consumer.close()
    messages = {each.partition: ends[each.partition] if each.offset < 0 else each.offset for each in last}
    return [sum(messages[each] for each in partitions) for partitions in owned]


def of_distribution(connection: Connection, topic: str) -> list[int]:
    """The tuples of each worker in all windows of ours, by its topic of distributions."""
    with TopicReader(connection, topic) as reader:
        return of_windows({message.key() or b"": message.value() or b"" for message in reader.to_end()}.values())


def of_windows(records: Iterable[bytes]) -> list[int]:
    """The tuples of each worker in the records of a topic of distributions."""
    tuples: Counter[str] = Counter()
    for record in map(orjson.loads, records):
        if record["key"] == "WORKER":
            tuples[record["tags"]["worker"]] += record["fields"]["tuples"]
    return [*tuples.values()]


def of_spark(folder: Path) -> list[int]:
    """The records that the tasks of each partition have read for ``mapInArrow``, by Spark's event log."""
    of_work: set[int] = set()
    read: Counter[int] = Counter()
    for log in folder.glob("*"):
        for line in log.read_bytes().rpartition(b"\n")[0].splitlines():
            event = orjson.loads(line)
            if event["Event"] == "SparkListenerStageSubmitted":
                stage = event["Stage Info"]
                if any('"MapInArrow"' in rdd.get("Scope", "") for rdd in stage["RDD Info"]):
                    of_work.add(stage["Stage ID"])
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in of_work:
                shuffled = event["Task Metrics"]["Shuffle Read Metrics"]
                read[event["Task Info"]["Partition ID"]] += shuffled["Total Records Read"]
    return [*read.values()]


def of_flink(folder: Path) -> list[int]:
    """The records that each subtask of the windows has read, by Flink's archive, which it writes at its end."""
    for archive in folder.glob("*"):
        try:
            pages = orjson.loads(archive.read_bytes())["archive"]
        except orjson.JSONDecodeError:  # it is being written
            continue
        for page in pages:
            if re.fullmatch(r"/jobs/\w+/vertices/\w+", page["path"]):
                vertex = orjson.loads(page["json"])
                if "Window" in vertex["name"]:
                    return [subtask["metrics"]["read-records"] for subtask in vertex["subtasks"]]
    return []


def of_storm(folder: Path) -> list[int]:
    """The tuples that each task of the bolt ``count`` has executed, by Storm's reports."""
    reports = folder.glob("*.count.*-__execute-count-messages:default*")
    return [int(line[-1].split(",")[1]) for line in (path.read_text().splitlines() for path in reports) if line[1:]]


def of_processes(folder: Path) -> list[int]:
    """What each process has written at its end, a number in a file."""
    return [int(path.read_text() or 0) for path in folder.glob("*")]
