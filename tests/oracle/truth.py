"""What a run must publish for the messages of its source topic, and a comparison with what it published.

A plain consumer reads the messages back, and they are counted in plain Python, by window and key.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import orjson
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.oracle.messages import read, reason_of
from unskew.kafka.connection import Connection
from unskew.kafka.topics import end_offsets

_NOTED = 500  # differences of a kind
_NONE: Mapping[str, str] = MappingProxyType({})
_SILENCE = 60  # s without a message, after which reading is given up


class Record(NamedTuple):
    """A message as it is in a topic. The time is in ms."""

    partition: int
    offset: int
    key: str
    value: bytes | None
    time_ms: int


@dataclass
class Truth:
    """What must have been published."""

    #: (window, key) → number of messages. A window is named by its start, as in the results.
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: (window, key, offset) of these messages: what a work publishes that publishes each offset once.
    ids: set[tuple[str, str, int]] = field(default_factory=set)
    #: A rejected message's topic-partition-offset → one of ``tests.oracle.messages.REASONS``, or what a work raised.
    rejected: dict[str, str] = field(default_factory=dict)
    #: The number of valid messages without a window. With windows by batch time, no batch took them.
    uncounted: int = 0


@dataclass
class Published:
    """The contents of a topic of results."""

    last: dict[str, bytes] = field(default_factory=dict)  #: Kafka key → the value of its last record.
    again: Counter[str] = field(default_factory=Counter)  #: Kafka key → number of its records after the first one.
    altered: set[str] = field(default_factory=set)  #: Kafka keys whose records have different values.

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Published":
        """Sum up a topic's records, which are in order within each partition."""
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
    """What was published, compared with the truth. In a run that is exact, only the first six may be non-zero."""

    #: The number of published tuples, the number of ids that a work published, the rejected messages by reason, the
    #: number of published windows, and the number of these that were published more than once.
    tuples: int = 0
    ids: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    windows: int = 0
    windows_again: int = 0
    #: Tuples of windows that were open when their topic was deleted. Nobody can publish them any more.
    abandoned: int = 0
    #: Tuples and ids that are missing from what was published, and those that were published too often.
    lost: int = 0
    doubled: int = 0
    #: Records that were published again with another value.
    altered: int = 0
    #: Rejected messages that are missing, too many, or have another reason.
    rejected_wrongly: int = 0
    #: Messages that the broker acknowledged to the producer and doesn't have.
    acknowledged_missing: int = 0
    #: Descriptions of what is lost, doubled or rejected wrongly, up to 500 of each.
    differences: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.altered or self.rejected_wrongly or self.acknowledged_missing)

    def differ(self, what: str, those: Iterable[object]) -> None:
        """Note in words how these differ from the truth."""
        self.differences += [f"{what}: {one}" for one in sorted(map(str, those))[:_NOTED]]

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(**{part.name: getattr(self, part.name) + getattr(other, part.name) for part in fields(self)})


def truth_of(
    topic: str,
    records: Iterable[Record],
    window_ms: int,
    time_of: Callable[[Record], int | None],
    future_ms: int,
    failed: Mapping[str, str] = _NONE,
) -> Truth:
    """What must be published for a topic's messages.

    Parameters
    ----------
    topic : str
        The topic's name.
    records : iterable of Record
        Its messages.
    window_ms : int
        Length of a window, ms.
    time_of : Record → int or None
        Returns the time that determines a message's window, ms. None: no batch took the message.
    future_ms : int
        A message of this time (ms) or later is from the future, and is rejected.
    failed : mapping
        A valid message's topic-partition-offset → the reason for which the run has rejected it, because its work failed
        on the message. Only the run knows these. The message must be rejected then, and not be counted.

    """
    truth = Truth()
    for record in records:
        key, reason = read(record.value, future=record.time_ms >= future_ms)
        place = f"{topic}-{record.partition}-{record.offset}"
        reason = failed.get(place) if reason is None else reason
        if reason is not None:
            truth.rejected[place] = reason
        elif key is not None:
            time_ms = time_of(record)
            if time_ms is None:
                truth.uncounted += 1
            else:
                window = window_of(time_ms, window_ms)
                truth.counts[window, key] += 1
                truth.ids.add((window, key, record.offset))
    return truth


def window_of(time_ms: int, window_ms: int) -> str:
    """The start of the window that a time is in, written as in the results."""
    start = time_ms // window_ms * window_ms
    return datetime.fromtimestamp(start // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{start % 1000:03d}Z"


def judge(
    truth: Truth,
    counted: Published,
    rejected: Published,
    others: Iterable[Published] = (),
    told: Published | None = None,
    *,
    abandoned: bool = False,
) -> Verdict:
    """Compare what was published with the truth.

    Parameters
    ----------
    truth : Truth
        What must have been published.
    counted, rejected : Published
        The topic of the counts, and the topic of the rejected messages.
    others : iterable of Published
        More topics. Only records that were published again are compared: they must be the same.
    told : Published, optional
        The topic of a work that publishes each offset once.
    abandoned : bool
        Whether the source topic was deleted during the run. The last published window and later ones may then be
        missing, but must have nothing too many.

    """
    found: Counter[tuple[str, str]] = Counter()
    windows: dict[str, bool] = defaultdict(bool)
    for name, value in counted.last.items():
        result = orjson.loads(value)
        window, key = result["tags"]["window"], result["tags"]["key"]
        found[window, key] = result["fields"]["count"]
        windows[window] |= name in counted.again
    whole_before = max(windows, default="") if abandoned else None  # windows are named in the order of time
    short: Counter[tuple[str, str]] = Counter()
    verdict = Verdict(lost=truth.uncounted)
    for (window, key), missing_here in (truth.counts - found).items():
        if whole_before is None or window < whole_before:
            short[window, key] = missing_here
        else:
            verdict.abandoned += missing_here
    verdict.lost += short.total()
    verdict.doubled = (over := found - truth.counts).total()
    verdict.differ("tuples lost (window, key)", short.items())
    verdict.differ("tuples doubled (window, key)", over.items())
    if told is not None:
        ids = _ids(told)
        lost = {each for each in truth.ids - ids.keys() if whole_before is None or each[0] < whole_before}
        doubled = ids - Counter(truth.ids)
        verdict.ids = ids.total()
        verdict.lost += len(lost)
        verdict.doubled += doubled.total()
        verdict.differ("id lost (window, key, offset)", lost)
        verdict.differ("ids doubled (window, key, offset)", doubled.items())
    verdict.tuples = found.total()
    verdict.windows, verdict.windows_again = len(windows), sum(windows.values())
    published = (counted, rejected, *others, *((told,) if told is not None else ()))
    verdict.altered = sum(len(each.altered) for each in published)
    reasons = {name: reason_of(orjson.loads(value)["reason"]) for name, value in rejected.last.items()}
    verdict.rejected = Counter(reasons.values())
    verdict.rejected_wrongly = len(reasons.items() ^ truth.rejected.items())
    verdict.differ("not rejected", truth.rejected.items() - reasons.items())
    verdict.differ("rejected wrongly", reasons.items() - truth.rejected.items())
    return verdict


def failures(rejected: Iterable[Record]) -> dict[str, str]:
    """The messages that were rejected because a work failed on them: topic-partition-offset → the published reason."""
    reasons = ((record.key, orjson.loads(record.value or b"{}").get("reason", "")) for record in rejected)
    return {place: reason for place, reason in reasons if reason.startswith("work: ")}


def _ids(told: Published) -> Counter[tuple[str, str, int]]:
    results = map(orjson.loads, told.last.values())
    return Counter((result["tags"]["window"], result["key"], result["fields"]["id"]) for result in results)


def noting(records: Iterable[Record], there: MutableMapping[tuple[int, int], str]) -> Iterator[Record]:
    """Yield a topic's records, and note the key at each (partition, offset). The records may be too many to keep."""
    for record in records:
        there[record.partition, record.offset] = record.key
        yield record


def missing(notes: Iterable[Path], there: Mapping[tuple[int, int], str]) -> int:
    """How many messages are missing that the broker had acknowledged, according to the producer's notes.

    A line of the notes has a message's key, partition and offset. The topic must have that key ``there``.
    """
    noted: dict[tuple[int, int], str] = {}
    for path in notes:
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # the producer may have been killed within the last line
                key, partition, offset = line.split()
                noted[int(partition), int(offset)] = key
    return sum(there.get(position) != key for position, key in noted.items())


def topic_records(connection: Connection, topic: str) -> Iterator[Record]:
    """All messages that a topic has now, without those of aborted transactions, read by a plain consumer.

    Raises ``TimeoutError`` if no message has come for a minute, and some that the topic must have are missing.
    """
    ends = end_offsets(connection, topic)
    left = {partition for partition, end in ends.items() if end}
    settings = {"enable.auto.commit": False, "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer(connection.client(**{"group.id": "truth", **settings}))
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    try:
        last = time.monotonic()
        while left:
            messages = consumer.consume(1000, 0.5)
            last = time.monotonic() if messages else last
            if time.monotonic() - last > _SILENCE:
                raise TimeoutError(f"{topic} does not give all of its messages: partitions {sorted(left)} are short")
            for message in messages:
                error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
                if error is None and offset < ends[partition]:
                    key = (message.key() or b"").decode()
                    yield Record(partition, offset, key, message.value(), message.timestamp()[1])
                # A partition's last records may be marks of transactions, or of messages that were aborted.
                if offset >= ends[partition] - (error is None) and _read_so_far(error):
                    left.discard(partition)
    finally:
        consumer.close()


def _read_so_far(error: KafkaError | None) -> bool:
    """Whether all before a message has been read: it is one, or it tells the partition's end."""
    return error is None or error.code() == KafkaError._PARTITION_EOF
