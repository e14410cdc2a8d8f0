"""The jobs: a topic of messages, what must come of it, and how it is told that it has.

Most jobs count messages by key and window: windows of ``WINDOW_MS``, or sessions. The message's time is that of
Kafka's record. A contestant may write a window's count several times, as it grows: the last one counts. The job
``distinct`` publishes each key once, when it is first seen: its window is 0, and its count is 1. A key that is written
twice is wrong.

The jobs ``shuffle`` are after ShuffleBench: a record of random bytes goes to each consumer whose rule matches it, and a
consumer publishes an event at each tenth of its records. The window of an event is the number of records until then,
its key the consumer, and its count is 1. An event that is written twice is wrong.

Three jobs are queries of NEXMark over its bids, by their ``dateTime``:

* ``last-bids`` (q18) is the last bid of each bidder and auction. Its window is 0, its key ``BIDDER/AUCTION``. In place
  of a count it has the bid's time in ms, because bids of the same time are equally good.
* ``hot-items`` (q5) is the auction with the most bids in each window of ``HOT_MS``, which begins each ``HOT_EVERY_MS``,
  and their number. Of auctions with the same number it is the one with the greatest id. A contestant may write a
  window's auction several times: the last one counts.
* ``channels`` (q16) counts bids, distinct bidders and distinct auctions of each channel and day, all of them and those
  of each rank of price. Its window is the number of the statistic in ``STATISTICS``, its key the day and the channel.
  What is 0 has no place.

The job ``orders`` counts messages that all differ, which `unskew produce` hasn't: those of ``evidence.speed.messages``.

The job ``join`` pairs the rows of two topics of which a key has half of the larger one (``joins``). Its window is 0 for
the number of a key's pairs, and 1 for the sum of what their ids make. A pair that is written twice is wrong.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import Message, Producer
from numpy.typing import NDArray

from evidence.engines.joins import draw_sides, read_side, sum_pairs
from evidence.engines.matcher import CIRCLE, EVERY
from evidence.engines.shufflebench import Rules, drawn, events, zipf
from evidence.speed.messages import Orders
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import ensure_topic, list_topics
from unskew.producers.datasets.interface import Block, Dataset, GeneratedDataset
from unskew.producers.datasets.registry import create_dataset, parse_parameters
from unskew.producers.publish import publish_dataset

WINDOW_MS = 5_000
#: The windows of the job ``hot-items``: how long each is, and how far apart they begin.
HOT_MS, HOT_EVERY_MS = 10_000, 2_000
#: How late a message may be: an engine that reads one partition after the other must not drop the second's.
LATENESS_MS = 2_400_000
#: The key of a message that isn't counted, but is later than all others (`send_last`).
LAST = "~last"
#: The auction of such a bid: ids begin at 1000.
NO_AUCTION = 0
_TICK_MS, _SPAN_MS = 5, 1_500_000
#: The source type of the jobs after ShuffleBench. `unskew produce` has none: it knows no keys of random bytes.
SHUFFLEBENCH = "SHUFFLEBENCH"
_RECORD = 1024  # bytes
_LATER_MS = 3_300_000  # a broker takes no message that is more than an hour ahead
#: The columns of NEXMark's query 16.
STATISTICS = tuple(
    f"{rank}_{of}" for of in ("bids", "bidders", "auctions") for rank in ("total", "rank1", "rank2", "rank3")
)

#: (start of the window in ms, key)
Place = tuple[int, str]


class Bid(NamedTuple):
    """A bid of NEXMark: the auction, the bidder, and the time in ms since the epoch."""

    auction: int
    bidder: int
    at_ms: int


@dataclass(frozen=True)
class Job:
    """What is to be done.

    ``name``, ``what``: Its name, and what it is in words. ``source_type``, ``field``: The dataset (of the job ``join``
    none), and the field of its messages that is the key. Its dots lead to nested objects. ``options``: The dataset's
    parameters that differ from its defaults, each as ``NAME=VALUE``. Of ShuffleBench: the exponent ``s``, the number of
    ``rules``, and their ``selectivity`` together, the mean number of matches a record. ``records``, ``partitions``,
    ``workers``: The messages (of the job ``join`` those of both topics), a topic's partitions, and W, the number of
    workers that an engine has for it. ``cost_ms``: How long a worker takes for each message. ``cost``: What it does all
    that time: ``sleep``, or ``cpu``: it computes. ``gap_ms``: Sessions: how far apart a key's messages may be. 0:
    windows. No two messages are just this far apart, because engines differ in whether they are of one session then:
    all are multiples of ``_TICK_MS`` apart. ``distinct``: Whether each key is published once, when it is first seen,
    and nothing is counted. ``query``: The query of NEXMark that is answered, and nothing is counted: ``q5``, ``q16`` or
    ``q18``; or ``join``. ``late_ms``: How late a message may be, in ms of event time, where a window's count is
    published when the window is closed, or the rows of a join are removed. ``rate``: Messages/s of a stream that goes
    on. 0: all messages are there before, and the topic ends. ``aim``: What a program's settings are for:
    ``throughput``, ``latency``, or ``recovery``: latency, and right counts after a kill.
    """

    name: str
    what: str
    source_type: str
    field: str
    records: int
    partitions: int
    workers: int
    cost_ms: float = 0.0
    cost: str = "sleep"
    gap_ms: int = 0
    distinct: bool = False
    options: tuple[str, ...] = ()
    query: str = ""
    late_ms: int = LATENESS_MS
    rate: float = 0.0
    aim: str = "throughput"

    @property
    def early_late_ms(self) -> int:
        """How late a message may be, in ms, where a window's count is published as it grows.

        It costs nothing there. What starts again after a kill has a backlog, and reads partitions unevenly.
        """
        return LATENESS_MS if self.aim == "recovery" else self.late_ms

    @property
    def path(self) -> list[str]:
        """The names of the fields that lead to the key."""
        return self.field.split(".")

    @property
    def stateful(self) -> bool:
        """Whether a key has a state, rather than a count in each window."""
        return bool(self.gap_ms) or self.distinct

    @property
    def shuffles(self) -> bool:
        """Whether it is after ShuffleBench."""
        return self.source_type == SHUFFLEBENCH

    @property
    def joins(self) -> bool:
        """Whether it is a join of two topics."""
        return self.query == "join"

    def topics(self, topic: str) -> list[str]:
        """The topics that are read: this one, and of a join that of the right rows."""
        return [topic, f"{topic}-right"] if self.joins else [topic]

    @property
    def kind(self) -> str:
        """Which program does it: a query's name, ``shuffle``, ``distinct``, ``sessions``, ``work`` or ``count``."""
        kinds = {"shuffle": self.shuffles, "distinct": self.distinct, "sessions": self.gap_ms, "work": self.cost_ms}
        return self.query or next((kind for kind, of in kinds.items() if of), "count")

    @property
    def closes(self) -> bool:
        """Whether results may wait for a message that is later than all others."""
        return bool(self.gap_ms) or self.query == "q5"

    @property
    def once(self) -> bool:
        """Whether each result must be written once."""
        return self.distinct or self.shuffles or self.joins

    @property
    def rules(self) -> Rules:
        """ShuffleBench's rules."""
        s, rules, selectivity = (float(dict(option.split("=") for option in self.options)[name]) for name in _RULES)
        return drawn(zipf(int(rules), selectivity, s), np.random.default_rng(0))


_MILLION = ("keys=1000000",)  # ZIPF's possible keys
_AFTER = "count by key and 5 s, after"
_RULES = ("s", "rules", "selectivity")
_BENCH = ("rules=1000000", "selectivity=0.2")
_MATCHED = 2_000_000, 4, 2

#: The jobs by name. ``--records`` gives another number.
JOBS = {
    job.name: job
    for job in (
        Job("count", "count by key and 5 s", "COUNTRY_SKEW_R80", "country", 10_000_000, 4, 2),
        Job("orders", "count of orders by user and 5 s", Orders.name, "user.id", 4_000_000, 4, 2),
        Job("sessions", "sessions of 100,000 keys, Zipf 1", "ZIPF", "key", 1_000_000, 4, 2, gap_ms=30_001),
        Job("bids", "sessions of NEXMark's bids by bidder", "NEXMARK", "bid.bidder", 1_000_000, 4, 2, gap_ms=2_001),
        Job("bidders", "count of NEXMark's bids by bidder and 5 s", "NEXMARK", "bid.bidder", 2_000_000, 4, 2),
        Job("last-bids", "NEXMark's q18: last bids", "NEXMARK", "bid.bidder", 1_000_000, 4, 2, query="q18"),
        Job("hot-items", "NEXMark's q5: hot items", "NEXMARK", "bid.auction", 1_000_000, 4, 2, query="q5"),
        Job("channels", "NEXMark's q16: channels", "NEXMARK", "bid.channel", 2_000_000, 4, 2, query="q16"),
        Job("distinct", "distinct keys, Zipf 1", "ZIPF", "key", 1_000_000, 4, 2, distinct=True, options=_MILLION),
        Job("join", "join within 1 s, half in one key", "", "key", 1_100_000, 4, 2, query="join", late_ms=10_000),
        Job("work", f"{_AFTER} 1 ms a message", "COUNTRY_SKEW_R80", "country", 60_000, 10, 10, 1.0),
        Job("work-zipf", f"{_AFTER} 1 ms a message, Zipf 1.2", "ZIPF", "key", 60_000, 10, 10, 1.0, options=("z=1.2",)),
        Job("cpu", f"{_AFTER} 0.1 ms of CPU a message", "COUNTRY_SKEW_R80", "country", 300_000, 10, 10, 0.1, "cpu"),
        Job("shuffle", "after ShuffleBench, s = 1", SHUFFLEBENCH, "", *_MATCHED, options=("s=1", *_BENCH)),
        Job("shuffle-steep", "after ShuffleBench, s = 1.5", SHUFFLEBENCH, "", *_MATCHED, options=("s=1.5", *_BENCH)),
    )
}


class Records(GeneratedDataset):
    """ShuffleBench's records: random bytes. They have no keys."""

    name, summary, chunk = SHUFFLEBENCH, "random bytes", 1 << 13

    def _draw(self, rng: np.random.Generator, first: int) -> Block:
        content = pa.py_buffer(rng.bytes(self.chunk * _RECORD))
        messages = pa.Array.from_buffers(pa.binary(_RECORD), self.chunk, [None, content]).cast(pa.binary())
        return Block(messages, pa.array([], pa.string()), np.empty(0, np.int32))


#: The datasets of these jobs alone.
_OWN = {SHUFFLEBENCH: Records, Orders.name: Orders}


@dataclass
class Truth:
    """What must come of a topic.

    ``counts``: (window, key) → messages; of the job ``distinct``, (0, key) → 1; after ShuffleBench, (records, consumer)
    → 1; of ``last-bids``, (0, bidder/auction) → ms since the epoch; of ``hot-items``, (window, auction) → bids; of
    ``channels``, (statistic, day and channel) → its value. ``total``: Their sum. ``last_ms``: (window, key) → the time
    of its last message. ``messages``: All messages of the topic. ``newest_ms``: The time of the newest message.
    """

    counts: dict[Place, int] = field(default_factory=dict)
    total: int = 0
    last_ms: dict[Place, int] = field(default_factory=dict)
    messages: int = 0
    newest_ms: int = 0

    def between(self, first_ms: int, stop_ms: int) -> "Truth":
        """That of the windows that begin at ``first_ms`` or later, and before ``stop_ms``."""
        counts = {place: n for place, n in self.counts.items() if first_ms <= place[0] < stop_ms}
        total = sum(counts.values())
        return Truth(counts, total, {place: self.last_ms[place] for place in counts}, total)


def published(connection: Connection, topic: str, job: Job) -> Truth:
    """Make the topic, publish the job's messages, and count them as a plain consumer reads them back.

    Messages of sessions span ``_SPAN_MS`` at most, and the first one is that old. It is less than the lateness, so none
    is late, in whatever order an engine reads partitions. A million of NEXMark's bids span 109 s. If results may wait
    for a last message, the topic ``ended(topic)`` has the messages, too.
    """
    if job.joins:
        _publish_sides(connection, job.topics(topic), job)
        return counted(connection, topic, job)
    if own := _OWN.get(job.source_type):
        dataset: Dataset = own(job.records)
    else:
        dataset = create_dataset(job.source_type, records=job.records, **parse_parameters(job.source_type, job.options))
    first = int(time.time() * 1000) - _SPAN_MS
    for name in (topic, ended(topic)) if job.closes else (topic,):
        ensure_topic(connection, name, job.partitions)
        if not job.gap_ms:
            publish_dataset(connection, name, dataset)
            continue
        _send(connection, name, job, ((value, first + at) for value, at in _timed(dataset, job)))
    truth = counted(connection, topic, job)
    if job.closes:
        send_last(connection, ended(topic), job, truth)
    return truth


def _publish_sides(connection: Connection, topics: Sequence[str], job: Job) -> None:
    """Make the topics of a join, and publish its rows. The first ones are ``_SPAN_MS`` old."""
    first = int(time.time() * 1000) - _SPAN_MS
    for name, side in zip(topics, draw_sides(job.records), strict=True):
        ensure_topic(connection, name, job.partitions)
        _send(connection, name, job, ((value, first + at) for value, at in side.messages()))


def _send(connection: Connection, topic: str, job: Job, messages: Iterable[tuple[bytes, int]]) -> None:
    """Send messages, each with its time (ms since the epoch), to the partitions in turns."""
    producer = Producer(connection.client(**{"queue.buffering.max.messages": 2 * job.records}))
    for number, (value, at) in enumerate(messages):
        producer.produce(topic, value, partition=number % job.partitions, timestamp=at)
    producer.flush()


def _timed(dataset: Dataset, job: Job) -> Iterator[tuple[bytes, int]]:
    """All messages, each with its time after the first (ms): the dataset's own, or spread over ``_SPAN_MS``."""
    number, began = 0, None
    for block in dataset.blocks():
        at = np.arange(number, number + len(block)) * _SPAN_MS // job.records if block.times is None else block.times
        began = at[0] if began is None else began
        yield from zip(block.messages.to_pylist(), ((at - began) // _TICK_MS * _TICK_MS).tolist(), strict=True)
        number += len(block)


def ended(topic: str) -> str:
    """The topic of the same messages, and a last one in each partition."""
    return f"{topic}-ended"


def send_last(connection: Connection, topic: str, job: Job, truth: Truth) -> None:
    """Send each partition a message that is much later than all others, so that the windows before it are over."""
    producer = Producer(connection.client())
    later = truth.newest_ms + _LATER_MS
    key = NO_AUCTION if job.query else LAST
    last: Any = reduce(lambda value, name: {name: value}, reversed(job.path), key)
    if job.query:
        last["bid"]["dateTime"] = f"{datetime.fromtimestamp(later / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    for partition in range(list_topics(connection)[topic]):
        producer.produce(topic, orjson.dumps(last), orjson.dumps(key), partition, timestamp=later)
    producer.flush()


def counted(connection: Connection, topic: str, job: Job) -> Truth:
    """A plain count of a topic's messages, or of the pairs of two topics."""
    if job.joins:
        left, right = (read_side(connection, name) for name in job.topics(topic))
        sums = sum_pairs(left, right)
        return Truth(sums, sum(sums.values()), messages=len(left.id) + len(right.id))
    names: dict[str, int] = {}
    read: dict[bytes, int] = {}  # most jobs have few different messages
    codes, times = [], []
    with TopicReader(connection, topic) as reader:
        messages = reader.to_end()
        if job.shuffles:
            heads = np.frombuffer(b"".join((message.value() or b"")[:8] for message in messages), ">u8")
            return truth_of_events(job.rules, heads.astype(np.uint64) % np.uint64(CIRCLE))
        if job.query == "q16":
            return channels(orjson.loads(message.value() or b"")["bid"] for message in messages)
        if job.query:
            return (last_bids if job.query == "q18" else hot_items)([*_bids(messages)])
        for message in messages:
            value = message.value() or b""
            if value not in read:
                read[value] = names.setdefault(str(reduce(getitem, job.path, orjson.loads(value))), len(names))
            codes.append(read[value])
            times.append(message.timestamp()[1])
    code, at = np.array(codes, np.int64), np.array(times, np.int64)
    return truth_of([*names], code, at, job.gap_ms, distinct=job.distinct)


def truth_of(
    names: list[str], code: NDArray[np.int64], at: NDArray[np.int64], gap_ms: int = 0, *, distinct: bool = False
) -> Truth:
    """The count of messages whose keys are ``names[code]`` and whose times are ``at`` (ms), both int64[n]."""
    windows = np.zeros_like(at) if distinct else at // WINDOW_MS * WINDOW_MS
    starts = sessions_of(code, at, gap_ms) if gap_ms else windows
    pairs, which, numbers = np.unique(np.stack([starts, code]), axis=1, return_inverse=True, return_counts=True)
    last = np.zeros(len(numbers), np.int64)
    np.maximum.at(last, which.ravel(), at)  # NumPy 2.0 gives it another shape
    places = [(int(start), names[code]) for start, code in pairs.T]
    numbers = np.ones_like(numbers) if distinct else numbers
    counts = dict(zip(places, numbers.tolist(), strict=True))
    lasts = dict(zip(places, last.tolist(), strict=True))
    return Truth(counts, int(numbers.sum()), lasts, len(at), int(at.max(initial=0)))


def milliseconds(time: str) -> int:
    """The ms since the epoch of a date and time, which is UTC unless it says otherwise."""
    at = datetime.fromisoformat(time)
    return round(1000 * (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def _bids(messages: Iterable[Message]) -> Iterator[Bid]:
    for message in messages:
        bid = orjson.loads(message.value() or b"")["bid"]
        yield Bid(bid["auction"], bid["bidder"], milliseconds(bid["dateTime"]))


def last_bids(bids: Sequence[Bid]) -> Truth:
    """The time of the last bid of each bidder and auction. The bids may be in any order."""
    lasts: dict[Place, int] = {}
    for auction, bidder, at in bids:
        place = (0, f"{bidder}/{auction}")
        lasts[place] = max(at, lasts.get(place, at))
    return Truth(lasts, sum(lasts.values()), messages=len(bids), newest_ms=max(bid.at_ms for bid in bids))


def hot_items(bids: Sequence[Bid]) -> Truth:
    """The auction with the most bids of each window, and their number. The bids may be in any order."""
    numbers: dict[int, Counter[int]] = defaultdict(Counter)  # a window's start → the bids of each auction
    for auction, _, at in bids:
        start = at // HOT_EVERY_MS * HOT_EVERY_MS  # of the last window that has it
        while at < start + HOT_MS:
            numbers[start][auction] += 1
            start -= HOT_EVERY_MS
    counts: dict[Place, int] = {}
    for start, of_each in numbers.items():
        n, hottest = max((n, auction) for auction, n in of_each.items())
        counts[start, str(hottest)] = n
    return Truth(counts, sum(counts.values()), messages=len(bids), newest_ms=max(bid.at_ms for bid in bids))


def channels(bids: Iterable[Mapping[str, Any]]) -> Truth:
    """The statistics of the bids' channels, of each day."""
    ids: defaultdict[Place, set[int]] = defaultdict(set)
    n = 0
    for n, bid in enumerate(bids, 1):
        key = f"{bid['dateTime'][:10]} {bid['channel']}"
        rank = 1 if bid["price"] < 10_000 else 2 if bid["price"] < 1_000_000 else 3
        for first, of in ((0, n), (4, bid["bidder"]), (8, bid["auction"])):
            ids[first, key].add(of)
            ids[first + rank, key].add(of)
    counts = {place: len(which) for place, which in ids.items()}
    return Truth(counts, sum(counts.values()), messages=n)


def truth_of_events(rules: Rules, hashes: NDArray[np.uint64]) -> Truth:
    """The events of consumers with these rules, of records with these hashes (uint64[n], below 2⁶³).

    Raises ValueError: There is none, so that a program which does nothing would be right.
    """
    of_each = events(rules.received(hashes))
    names = {consumer: f"consumer_{consumer}" for consumer in np.flatnonzero(of_each).tolist()}
    counts = {(EVERY * n, name): 1 for consumer, name in names.items() for n in range(1, of_each[consumer] + 1)}
    if not counts:
        raise ValueError(f"{len(hashes):,} records make no event; valid: more records")
    return Truth(counts, len(counts), messages=len(hashes))


def sessions_of(code: NDArray[np.int64], at: NDArray[np.int64], gap_ms: int) -> NDArray[np.int64]:
    """The time of the first message of each message's session."""
    order = np.lexsort((at, code))
    first = np.ones(len(at), bool)
    first[1:] = (np.diff(code[order]) != 0) | (np.diff(at[order]) > gap_ms)
    starts = np.empty_like(at)
    starts[order] = at[order][first][np.cumsum(first) - 1]
    return starts


@dataclass
class Found:
    """What a contestant has written so far.

    ``once``: Whether a contestant must write each place once. Then its counts add up, so a second one makes it wrong.
    ``query``: That of the job. Of q5 each window has one place: the last one. ``counts``:
    (window, key) → the last count, or the sum of all. ``total``: Their sum. ``last_ms``: When the broker appended the
    newest record.
    """

    once: bool = False
    query: str = ""
    counts: dict[Place, int] = field(default_factory=dict)
    total: int = 0
    last_ms: int = 0
    _hottest: dict[int, Place] = field(default_factory=dict)

    def add(self, results: Iterable[tuple[Place, int]], appended_ms: int) -> None:
        """Take in the results of a record. A negative count takes back that count, unless there is a later one."""
        for place, n in results:
            before = self.counts.get(place, 0)
            if place[1] == LAST or (n < 0 and -n != before):
                continue
            if self.query == "q5":
                replaced = self._hottest.get(place[0], place)
                self._hottest[place[0]] = place
                if replaced != place:
                    self.total -= self.counts.pop(replaced)
            after = before + n if self.once else max(n, 0)
            self.total += after - before
            if n < 0:
                del self.counts[place]
            else:
                self.counts[place] = after
            self.last_ms = max(self.last_ms, appended_ms)

    def all_of(self, truth: Truth) -> bool:
        """Whether it equals the truth. Until all is taken back that will be, the total alone may be right too early."""
        return self.total == truth.total and self.counts == truth.counts

    def wrong(self, truth: Truth) -> str:
        """How it differs from the truth. Empty: in nothing."""
        if self.counts == truth.counts:
            return ""
        places = truth.counts.keys() | self.counts.keys()
        differ = sum(truth.counts.get(place) != self.counts.get(place) for place in places)
        if self.query:  # a sum of times, of the greatest numbers or of codes says nothing
            return f"{differ:,} of {len(places):,} results are wrong"
        what = "results" if self.once else "messages"
        return f"{self.total:,} of {truth.total:,} {what}; {differ:,} of {len(places):,} counts are wrong"
