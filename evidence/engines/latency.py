"""How late the right results are, on a stream that goes on.

An engine is started, and then the stream: a trickle until the engine's first result is there, the job's rate from then
on. So its start is not in the figures, and no backlog of it either. After a warm-up come the windows that are measured;
the stream goes on until they must have closed.

The *latency* of a result is from an end to the time at which the broker appended the first record with the final count
of a window and key. There are two ends:

* the window's end. An engine that publishes counts as they grow may have the final one before it, if no more messages
  of that key come: then the latency is below zero. Nothing is clipped.
* the time of the last message of that window and key, before which no engine can know the count. An engine that
  publishes when a window is closed waits for the rest of the window and for the lateness; that is in its figures, too.

The clock is one, because all are on one machine: a message's time is its producer's, a result's time is the broker's.

Most keys are rare. 80 % of the messages are of the hottest key, but it has one result a window among some two hundred.
So the percentiles over all results leave it out, and it has a column of its own.
"""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evidence.engines.contestants import Contestant
from evidence.engines.jobs import WINDOW_MS, Found, Job, Place, Truth, counted
from evidence.engines.running import LOOK_EVERY, SETTLE, Running, Started, made, running
from evidence.speed.measuring import publish_along
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import ensure_topic
from unskew.producers.datasets.interface import Block
from unskew.producers.datasets.registry import create_dataset
from unskew.producers.pace import Rate

_TRICKLE = 20.0  # messages/s
_FIRST = 180.0  # s until an engine's first result, after which it is given up
_ALL = 60.0  # s after the stream's end until all counts are right
#: What is wrong with a contestant that writes nothing.
NO_RESULT = f"no result in {_FIRST:g} s"

#: The table's columns of figures.
COLUMNS = (
    "after the window's end: p50",
    "p99",
    "hottest key",
    "after the last message: p50",
    "p99",
    "hottest key",
    "messages/s",
    "CPU s a million",
    "memory, MiB",
)


def describe(columns: Iterable[str], cells: Iterable[str]) -> str:
    """A row in words."""
    return ", ".join(f"{name} {cell}" for name, cell in zip(columns, cells, strict=True))


class Stream(NamedTuple):
    """A stream that goes on.

    ``job``: What is to be done, at which rate. ``warm_up``, ``seconds``: For how long it flows at the rate before it is
    measured, and for how long it is measured (s). ``after``: For how long it goes on at least when it has been measured
    (s).
    """

    job: Job
    warm_up: float
    seconds: float
    after: float = 0.0

    def __str__(self) -> str:
        return f"{self.job.what}: {self.job.rate:g} messages/s, W = {self.job.workers}"

    @property
    def windows_ms(self) -> int:
        """How long the measured windows are together: whole windows, at least one (ms)."""
        return max(1, round(1000 * self.seconds / WINDOW_MS)) * WINDOW_MS

    @property
    def after_ms(self) -> int:
        """For how long the stream goes on after the measured windows: until they must have closed at least (ms)."""
        return self.going_ms + self.job.late_ms + 2 * WINDOW_MS

    @property
    def going_ms(self) -> int:
        """How long the windows are together that come after the measured ones, and close, too (ms)."""
        return round(1000 * self.after / WINDOW_MS) * WINDOW_MS

    @property
    def most(self) -> int:
        """More messages than it may have."""
        seconds = self.warm_up + (self.windows_ms + self.after_ms + 2 * WINDOW_MS) / 1000
        return math.ceil(_FIRST * _TRICKLE + 2 * seconds * self.job.rate)


class Result(NamedTuple):
    """A count that a contestant has written, and when the broker appended it (ms)."""

    appended_ms: int
    place: Place
    n: int


class Latency(NamedTuple):
    """What was measured of a contestant. ``wrong`` says what is wrong; then the rest means nothing.

    ``after_end``, ``after_last`` (float64[results]): Each result's latency after the window's end, and after its last
    message (ms). ``hottest`` (bool[results]): Whether the result is of the window's most frequent key. ``seconds``,
    ``cpu``, ``memory``, ``messages``: The measured time, the CPU seconds in it, the most memory until its end (MiB),
    and the windows' messages.
    """

    after_end: NDArray[np.float64] = np.empty(0)
    after_last: NDArray[np.float64] = np.empty(0)
    hottest: NDArray[np.bool_] = np.empty(0, np.bool_)
    seconds: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    messages: int = 0
    wrong: str = ""

    def cells(self) -> list[str]:
        """The cells of ``COLUMNS``, unless it is wrong."""
        cells = []
        for waits in (self.after_end, self.after_last):
            figures = *np.percentile(waits, [50, 99]), np.median(waits[self.hottest])
            cells += [f"{figure:,.0f}" for figure in figures]
        rate, cpu = self.messages / self.seconds, 1e6 * self.cpu / self.messages
        return [*cells, f"{rate:,.0f}", f"{cpu:,.0f}", f"{self.memory:,.0f}"]

    def __str__(self) -> str:
        return self.wrong or describe(COLUMNS, self.cells())


class Tap(Rate):
    """A rate that may change while the stream flows: set ``rate``."""

    def __init__(self, rate: float) -> None:
        super().__init__(rate)
        self._due = 0.0

    def pieces(self, block: Block, sent: int) -> Iterator[tuple[int, float]]:
        start = 0
        while start < len(block):
            rate = self.rate
            stop = min(start + max(1, int(rate * self.beat)), len(block))
            yield stop, self._due
            self._due += (stop - start) / rate
            start = stop


@contextmanager
def flowing(connection: Connection, topic: str, stream: Stream) -> Iterator[Tap]:
    """The stream flows into a topic, at first as a trickle. It ends with the block."""
    tap = Tap(_TRICKLE)
    dataset = create_dataset(stream.job.source_type, records=stream.most)
    with publish_along(connection, topic, dataset, tap):
        yield tap


@dataclass
class Observer:
    """Takes in what a contestant writes.

    ``engine``, ``at_work``, ``reader``: The contestant, its process, and the reader of its output. ``results``: What it
    has written so far.
    """

    engine: Contestant
    at_work: Running
    reader: TopicReader
    results: list[Result] = field(default_factory=list)

    def until(self, over: Callable[[], bool], patience: float = math.inf) -> bool:
        """Observe until something is over. False: the patience (s) or the process has ended before."""
        deadline = time.monotonic() + patience
        while not over():
            usage = self.at_work.usage
            if self.at_work.process.poll() is not None or usage.too_much or time.monotonic() > deadline:
                return False
            usage.look()
            for message in self.reader.new(LOOK_EVERY):
                appended = message.timestamp()[1]
                found = self.engine.results(message.key(), message.value() or b"")
                self.results.extend(Result(appended, place, n) for place, n in found)
        return True

    def until_ms(self, ms: float) -> bool:
        """Observe until this time. As ``until``."""
        return self.until(lambda: now_ms() >= ms)


def paced(connection: Connection, stream: Stream, engine: Contestant, repeat: int) -> Latency:
    """Let a contestant follow a stream of its own."""
    with (
        ready(connection, stream, engine, repeat) as (topic, folder, started),
        running(started, folder) as at_work,
        TopicReader(connection, started.output) as reader,
    ):
        measured = _measured(connection, topic, stream, Observer(engine, at_work, reader))
        if measured.wrong:
            at_work.complain(measured.wrong)
        return measured


@contextmanager
def ready(
    connection: Connection, stream: Stream, engine: Contestant, repeat: int
) -> Iterator[tuple[str, Path, Started]]:
    """The topic that a contestant is to follow, its folder, and what starts it. The topics of a run before are gone."""
    job = stream.job
    topic = f"engines-{job.name}-{engine.slug}-{repeat}"
    ensure_topic(connection, topic, job.partitions)
    with tempfile.TemporaryDirectory(prefix=f"{repeat}-") as name:
        started = engine.start(job, connection.bootstrap_servers, topic, Path(name))
        made(connection, started.output, job.partitions)
        yield topic, Path(name), started


def _measured(connection: Connection, topic: str, stream: Stream, observer: Observer) -> Latency:
    usage, results = observer.at_work.usage, observer.results
    with flowing(connection, topic, stream) as tap:
        first = begun(stream, tap, observer)
        if not first:
            return Latency(wrong=NO_RESULT)
        stop = first + stream.windows_ms
        alive = observer.until_ms(first)
        before = usage.cpu
        alive = alive and observer.until_ms(stop)
        cpu, memory = usage.cpu - before, usage.memory
        if not (alive and observer.until_ms(stop + stream.after_ms)):
            return Latency(wrong=f"it ended, or took too much memory ({usage.memory:,.0f} MiB)")
    truth = counted(connection, topic, stream.job).between(first, stop)
    settled(truth, observer)
    wrong = in_the_end(truth, results)
    if wrong:
        return Latency(wrong=wrong)
    return Latency(*latencies(truth, results), stream.windows_ms / 1000, cpu, memory, truth.total)


def begun(stream: Stream, tap: Tap, observer: Observer) -> int:
    """Wait for the first result, and open the tap: when the first measured window starts (ms). 0: there is none."""
    if not observer.until(lambda: bool(observer.results), _FIRST):
        return 0
    tap.rate = stream.job.rate
    return first_window(now_ms() + 1000 * stream.warm_up)


def settled(truth: Truth, observer: Observer) -> None:
    """Observe until the final counts of the truth's windows are there, or are long overdue."""
    if observer.until(lambda: len(first_right(truth, observer.results)) == len(truth.counts), _ALL):
        observer.until_ms(now_ms() + 1000 * SETTLE)


def now_ms() -> float:
    """Now, in ms since the epoch."""
    return time.time() * 1000


def first_window(at_ms: float) -> int:
    """The start of the first window that begins at this time or later (ms)."""
    return math.ceil(at_ms / WINDOW_MS) * WINDOW_MS


def first_right(truth: Truth, results: Iterable[Result]) -> dict[Place, int]:
    """(Window, key) → when the first record with its final count was appended (ms). Those without one are left out."""
    found: dict[Place, int] = {}
    for appended, place, n in results:
        if truth.counts.get(place) == n:
            found[place] = min(appended, found.get(place, appended))
    return found


def in_the_end(truth: Truth, results: Iterable[Result]) -> str:
    """What is wrong with the last counts of the truth's windows. Empty: nothing.

    A window's records may be in several partitions, which are read in no order; so they are taken in the broker's.
    """
    windows = {start for start, _ in truth.counts}
    found = Found()
    for appended, place, n in sorted(results, key=lambda result: result.appended_ms):
        if place[0] in windows:
            found.add([(place, n)], appended)
    return found.wrong(truth)


def latencies(
    truth: Truth, results: Iterable[Result]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """The latencies of all results, after the window's end and after the last message, and which are of hottest keys.

    ``truth``: What must come of the measured windows. ``results``: What a contestant has written. Each of the truth's
    counts is there.
    Returns after_end, after_last, hottest: As ``Latency`` has them.
    """
    right = first_right(truth, results)
    most: dict[int, Place] = {}
    for place, n in truth.counts.items():
        if place[0] not in most or n > truth.counts[most[place[0]]]:
            most[place[0]] = place
    after_end = np.array([right[place] - (place[0] + WINDOW_MS) for place in truth.counts], np.float64)
    after_last = np.array([right[place] - truth.last_ms[place] for place in truth.counts], np.float64)
    return after_end, after_last, np.array([most[place[0]] == place for place in truth.counts], np.bool_)


def pooled(runs: Sequence[Latency]) -> Latency:
    """The results of all runs, and the median of what they took. A single wrong run makes all wrong."""
    if wrong := next((run.wrong for run in runs if run.wrong), ""):
        return Latency(wrong=wrong)
    waits = [np.concatenate(of) for of in zip(*(run[:3] for run in runs), strict=True)]
    taken = [statistics.median(of) for of in zip(*(run[3:7] for run in runs), strict=True)]
    return Latency._make([*waits, *taken, ""])
