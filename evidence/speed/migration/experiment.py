"""The experiment: tuples come steadily, keys move by plans at set times, and at the end the query is started again.

The stream has text messages that are keys: all keys once, and then keys at random.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.synchronize import Event
from typing import Any, cast

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import Producer
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from evidence.speed.measuring import SOURCES, messages, open_bench
from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.driver.session import open_session
from unskew.apps.driver.streaming_job import StreamingJob
from unskew.apps.settings import Settings
from unskew.apps.worker.stateful.migration import find_owners
from unskew.grouping import measures
from unskew.grouping.feedback import Plan
from unskew.grouping.feedback_loop import PlanState, Rebalance
from unskew.grouping.keys import hash_keys
from unskew.kafka.connection import Connection
from unskew.kafka.topics import end_offsets, ensure_topic
from unskew.operators import Statistics

TOPIC = "migration"
_FILL = 100_000  # tuples a batch at most
_SLICE = 0.01  # s from one handful of tuples to the next
_AT_ONCE = 10_000  # tuples sent before one waits for their acknowledgements
_QUIET = 4  # batches at least from one move to the next


@dataclass(frozen=True)
class Move:
    """A share of all keys goes from even workers to their neighbours, or back, ``at`` s after the start."""

    at: float
    share: float
    back: bool

    def __str__(self) -> str:
        """The move in words."""
        return f"{self.share:.3g} {'back' if self.back else 'to neighbours'}"


@dataclass(frozen=True)
class Schedule:
    """What an experiment does.

    ``keys``, ``workers``: How many keys have a state, and on how many workers. ``rate``: Tuples/s. ``shares``: Shares
    of the keys that move, there and back. ``every``: Seconds from one move to the next.
    """

    keys: int
    workers: int
    rate: float
    shares: tuple[float, ...]
    every: float

    @property
    def moves(self) -> list[Move]:
        """The moves there and back, share by share."""
        both = [(share, back) for share in self.shares for back in (False, True)]
        return [Move(at * self.every, share, back) for at, (share, back) in enumerate(both)]


@dataclass(frozen=True)
class Batch:
    """When a batch began and how long it took (ms), and its tuples by worker."""

    began: float
    took: float
    loads: NDArray[np.int64]


@dataclass(frozen=True)
class Moved:
    """A migration.

    ``name``: The move in words. ``stops``: Whether the query was stopped for it. ``states``, ``size``: How many states
    moved, and their bytes. ``out``, ``into``: The batch that hands the states out, and the first one that is routed by
    the new plan.
    """

    name: str
    stops: bool
    states: int
    size: int
    out: int
    into: int


@dataclass(frozen=True)
class Done:
    """What an experiment measured.

    ``keys``: How many keys there were. ``batches``: The batches by number. ``moved``: The migrations. ``steady``: The
    first batch of the steady stream. ``stopped``: When the query was stopped, ms. ``latencies`` (float64[n, 2]): Of
    each tuple of the steady stream with a result: its time, and how much later its result's is, ms.
    """

    keys: int
    batches: dict[int, Batch]
    moved: list[Moved]
    steady: int
    stopped: float
    latencies: NDArray[np.float64]


@dataclass
class Forcing:
    """A listener that makes plans at set times, instead of the controller, which is content with any balance.

    The driver's loop leaves a batch's plans alone where they are written already. So a plan is written for the batch
    after the next one.

    ``begun``: When the moves' times begin (``time.monotonic``). ``last``, ``settled``: When tuples were last routed by
    a new plan, and the batch from which on there may be another plan. ``made``: The moves so far, each with the batch
    in which its plan was made. ``loads``: Batch → its tuples by worker. ``rebalances``: The rebalances that the run has
    reported.
    """

    settings: Settings
    hashes: NDArray[np.uint64]
    moves: Sequence[Move]
    begun: float = float("inf")
    last: float = 0.0
    settled: float = 0
    made: list[tuple[Move, int]] = field(default_factory=list)
    loads: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    rebalances: list[Rebalance] = field(default_factory=list)

    def __call__(self, report: BatchReport) -> None:
        """Write a plan if one is due and no other is under way."""
        number = report.batch.number
        self.loads[number] = report.loads
        self.rebalances += report.rebalances
        if report.rebalances:
            self.last, self.settled = time.monotonic(), number + _QUIET
        if len(self.made) == len(self.moves):
            return
        move = self.moves[len(self.made)]
        if time.monotonic() < self.begun + move.at or number < self.settled:
            return
        plans = PlanStateLog(self.settings.checkpoint)
        state = plans.at(number + 1) or PlanState(self.settings.workers)
        if state.pending is not None or plans.written_for(number + 2) is not None:
            return
        plan = self._plan(move, state)
        uneven = measures.straggler_ratio(report.busy)
        known = Rebalance(plan.number, number + 1, 0.0, len(cast("np.ndarray", plan.values["table_keys"])), uneven)
        plans.write(number + 2, replace(state, pending=plan, unrouted=(known,)))
        self.made.append((move, number))
        self.settled = float("inf")  # until tuples are routed by this plan

    def over(self, plans: int, seconds: float) -> bool:
        """Whether tuples were routed by so many plans, and ``seconds`` are over since the last of them began."""
        return len(self.rebalances) >= plans and time.monotonic() > self.last + seconds

    def _plan(self, move: Move, state: PlanState) -> Plan:
        router = Dataflow.of(self.settings).routing().router()
        named = np.empty(0, np.uint64)
        if not move.back:
            home = find_owners(router, self.hashes)
            even = np.flatnonzero((home % 2 == 0) & (home + 1 < router.workers))
            chosen = np.random.default_rng(len(self.made)).permutation(even)[: round(move.share * len(self.hashes))]
            named = np.sort(self.hashes[chosen])
        to = find_owners(router, named) + 1
        before = state.active.number if state.active else 0
        values = {"table_keys": named, "table_workers": to.astype(np.int32)}
        return Plan(before + 1, before, router.identity, values)


def experiment(schedule: Schedule, log: Callable[[str], None]) -> Done:
    """Run an experiment with a broker and a Spark of its own; ``log`` is called with a line about each phase.

    The keys come once, then tuples come steadily while keys move, and at the end the query is started again.
    """
    with open_bench() as bench:
        stream = {"source_type": "COLUMN", "topic": TOPIC, "format": "text", "trigger": 0.0, "max_tuples": _FILL}
        states = {"work": Statistics("offset"), "ttl": 86_400.0, "workers": schedule.workers, "until_drained": False}
        options = {"theta_max": 1e9, "table_max": schedule.keys}
        settings = bench.settings("MIXED", "checkpoint", options=options, **stream, **states)
        ensure_topic(bench.connection, TOPIC, SOURCES)
        log(f"{schedule.keys:,} keys come once")
        fill(bench.connection, TOPIC, SOURCES, schedule.keys)
        with open_session(settings) as spark:
            return _follow(spark, schedule, settings, log)


def _follow(spark: SparkSession, schedule: Schedule, settings: Settings, log: Callable[[str], None]) -> Done:
    hashes = hash_keys(pa.array(map(str, range(schedule.keys))))
    forcing = Forcing(settings, hashes, schedule.moves)
    progress: dict[int, tuple[float, float]] = {}
    begun = time.time() - time.monotonic()

    def note(batch: Mapping[str, Any]) -> None:
        took = batch["durationMs"]["triggerExecution"]
        progress[batch["batchId"]] = 1000 * (begun + time.monotonic()) - took, took

    first = StreamingJob(replace(settings, until_drained=True), [forcing], [note]).run(spark)
    assert first.drained
    start, filled = end_offsets(settings.connection, TOPIC), max(progress)
    with steady(settings.connection, TOPIC, SOURCES, schedule.keys, schedule.rate):
        log(f"{schedule.rate:,.0f} tuples/s come, for {(len(schedule.moves) + 1) * schedule.every:.0f} s or more")
        forcing.begun = time.monotonic() + schedule.every  # Spark warms up

        _until(spark, settings, forcing, note, lambda: forcing.over(len(schedule.moves), schedule.every))
        stopped = 1000 * time.time()
        log("the query is stopped, and goes on with a worker more")
        last = max(progress)
        more = replace(settings, workers=schedule.workers + 1)
        _until(spark, more, forcing, note, lambda: forcing.over(len(schedule.moves) + 1, schedule.every))
    return Done(
        schedule.keys,
        {number: Batch(*progress[number], loads) for number, loads in forcing.loads.items()},
        _moved(forcing, last + 1),
        filled + 1,
        stopped,
        latencies(
            settings.connection, TOPIC, start, [list_result_topics(each)["results"] for each in (settings, more)]
        ),
    )


def _until(
    spark: SparkSession,
    settings: Settings,
    forcing: Forcing,
    note: Callable[[Mapping[str, Any]], None],
    over: Callable[[], bool],
) -> None:
    """Run the query until something is over; this is looked at after each batch."""

    def ending(_: BatchReport) -> None:
        if over():
            run.stop()

    run = StreamingJob(settings, [forcing, ending], [note])
    run.run(spark)


def _moved(forcing: Forcing, again: int) -> list[Moved]:
    """The migrations; ``again`` is the first batch after the query was started again."""
    moves = {number: str(move) for move, number in forcing.made}
    found = []
    for each in forcing.rebalances:
        name = f"stopped, then {each.workers} workers" if each.workers else moves[each.made - 1]
        out = again if each.workers else each.made + 1
        found.append(Moved(name, bool(each.workers), each.keys or 0, each.bytes, out, each.batch))
    return found


def fill(connection: Connection, topic: str, sources: int, keys: int) -> None:
    """Send a tuple of every key."""
    producer = _producer(connection)
    for start in range(0, keys, _AT_ONCE):
        _send(producer, topic, sources, np.arange(start, min(start + _AT_ONCE, keys)))
        producer.flush()


@contextmanager
def steady(connection: Connection, topic: str, sources: int, keys: int, rate: float) -> Iterator[None]:
    """A context in which another process sends tuples of random keys, ``rate`` a second."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    process = context.Process(target=_feed, args=(connection, topic, sources, keys, rate, over))
    process.start()
    try:
        yield
    finally:
        over.set()
        process.join()


def _feed(connection: Connection, topic: str, sources: int, keys: int, rate: float, over: Event) -> None:
    producer, random = _producer(connection), np.random.default_rng(0)
    begun, sent = time.monotonic(), 0
    while not over.wait(_SLICE):
        due = int((time.monotonic() - begun) * rate) - sent
        _send(producer, topic, sources, random.integers(0, keys, due))
        sent += due
    producer.flush()


def _producer(connection: Connection) -> Producer:
    return Producer(connection.client(**{"linger.ms": 0, "enable.idempotence": True}))


def _send(producer: Producer, topic: str, sources: int, keys: NDArray[np.int64]) -> None:
    """Send tuples of these keys; all of a key go to one partition, so a result's offset is that of one tuple."""
    for key in keys.tolist():
        producer.produce(topic, str(key), partition=key % sources)
    producer.poll(0)


def latencies(
    connection: Connection, topic: str, start: Mapping[int, int], results: Sequence[str]
) -> NDArray[np.float64]:
    """How long tuples took, from their time in Kafka to that of the result in which they are the last of their key.

    ``connection``: The broker's. ``topic``: The tuples' topic. ``start``: Partition → the offset of the first tuple
    that counts. ``results``: The results' topics.
    Returns float64[n, 2]: Of each tuple with a result: its time, and how much later the result's is, ms.
    """
    came = {(each.partition(), each.offset()): each.timestamp()[1] for each in messages(connection, topic, start)}
    sources = len(start)
    found: list[tuple[int, int]] = []
    for name in results:
        for message in messages(connection, name):
            result = orjson.loads(message.value() or b"")
            last = int(result["tags"]["key"]) % sources, int(result["fields"]["max"])  # partition, offset
            if last in came:
                found.append((came[last], message.timestamp()[1] - came[last]))
    return np.array(sorted(found), np.float64).reshape(-1, 2)
