"""The truth of a run, from what its topic holds, and what the run published beside it."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import orjson
from confluent_kafka import Consumer, TopicPartition

from benchmarks.faults.oracle import read, reason_of
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import end_offsets

_SILENCE = 60  # s without a message at which reading is given up


class Record(NamedTuple):
    """A message as it lies in a topic; the time is in ms."""

    partition: int
    offset: int
    key: str
    value: bytes | None
    time_ms: int


@dataclass
class Truth:
    """What must have been published.

    Attributes
    ----------
    counts : Counter
        (window, key) → messages; a window is its start as results spell it.
    rejected : dict
        topic-partition-offset → why.
    uncounted : int
        Messages that no batch took, by batch time.

    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    rejected: dict[str, str] = field(default_factory=dict)
    uncounted: int = 0


@dataclass
class Published:
    """The last record of each Kafka key in a result topic, and what of them came more than once."""

    last: dict[str, bytes] = field(default_factory=dict)
    again: Counter[str] = field(default_factory=Counter)
    altered: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Published":
        """Take the records in the order in which they lie in each partition."""
        found = cls()
        for record in records:
            value = record.value or b""
            if record.key in found.last:
                found.again[record.key] += 1
                if found.last[record.key] != value:
                    found.altered.add(record.key)
            found.last[record.key] = value
        return found


@dataclass
class Verdict:
    """Published against true, in tuples and messages; all but the first four are 0 in a run that is exact."""

    tuples: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    windows: int = 0
    windows_again: int = 0
    lost: int = 0
    doubled: int = 0
    altered: int = 0
    rejected_wrongly: int = 0
    acknowledged_missing: int = 0

    @property
    def exact(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.altered or self.rejected_wrongly or self.acknowledged_missing)


def truth_of(
    topic: str, records: Iterable[Record], window_ms: int, time_of: Callable[[Record], int | None], future_ms: int
) -> Truth:
    """What must be published of these messages; ``time_of`` a message is its window's, ``future_ms`` bounds it."""
    truth = Truth()
    for record in records:
        key, reason = read(record.value, future=record.time_ms >= future_ms)
        if reason is not None:
            truth.rejected[f"{topic}-{record.partition}-{record.offset}"] = reason
        elif key is not None:
            time_ms = time_of(record)
            if time_ms is None:
                truth.uncounted += 1
            else:
                truth.counts[window_of(time_ms, window_ms), key] += 1
    return truth


def window_of(time_ms: int, window_ms: int) -> str:
    """The window of a moment, as results spell it."""
    start = time_ms // window_ms * window_ms
    return datetime.fromtimestamp(start // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{start % 1000:03d}Z"


def judge(truth: Truth, counted: Published, rejected: Published, others: Iterable[Published] = ()) -> Verdict:
    """Hold what was published against the truth; of ``others`` only that they say the same again."""
    verdict = Verdict(lost=truth.uncounted)
    found: dict[tuple[str, str], int] = {}
    windows: dict[str, bool] = defaultdict(bool)
    for name, value in counted.last.items():
        said = orjson.loads(value)
        place = said["tags"]["window"], said["tags"]["key"]
        found[place] = said["fields"]["count"]
        windows[place[0]] |= name in counted.again
    for place in truth.counts.keys() | found.keys():
        more = found.get(place, 0) - truth.counts[place]
        verdict.lost += max(0, -more)
        verdict.doubled += max(0, more)
    verdict.tuples = sum(found.values())
    verdict.windows, verdict.windows_again = len(windows), sum(windows.values())
    verdict.altered = sum(len(published.altered) for published in (counted, rejected, *others))
    said = {name: reason_of(orjson.loads(value)["reason"]) for name, value in rejected.last.items()}
    verdict.rejected = Counter(said.values())
    verdict.rejected_wrongly = len(said.items() ^ truth.rejected.items())
    return verdict


def missing(notes: Iterable[Path], records: Iterable[Record]) -> int:
    """How many of the messages that were noted as acknowledged aren't where they must be."""
    noted: dict[tuple[int, int], str] = {}
    for path in notes:
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # the last one may be cut
                key, partition, offset = line.split()
                noted[int(partition), int(offset)] = key
    there = sum(noted.get((record.partition, record.offset)) == record.key for record in records)
    return len(noted) - there


def topic_records(connection: Connection, topic: str) -> Iterator[Record]:
    """All that a topic holds now, by a plain consumer.

    Raises
    ------
    TimeoutError
        Messages that must be there don't come.

    """
    ends = end_offsets(connection, topic)
    left = {partition for partition, end in ends.items() if end}
    consumer = Consumer(connection.client(**{"group.id": "truth", "enable.auto.commit": False}))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    try:
        heard = time.monotonic()
        while left:
            messages = consumer.consume(10_000, 0.5)
            heard = time.monotonic() if messages else heard
            if time.monotonic() - heard > _SILENCE:
                raise TimeoutError(f"{topic} does not give all of its messages: partitions {sorted(left)} are short")
            for message in messages:
                if message.error() is not None:
                    continue
                partition, offset = message.partition() or 0, message.offset() or 0
                if offset < ends[partition]:
                    key = (message.key() or b"").decode()
                    yield Record(partition, offset, key, message.value(), message.timestamp()[1])
                if offset >= ends[partition] - 1:
                    left.discard(partition)
    finally:
        consumer.close()
