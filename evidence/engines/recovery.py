"""For how long results are late after a kill, and whether the counts are right in the end.

A contestant follows a stream, as ``latency`` has it, by settings with which its counts are right after a kill. In the
middle of a window all its processes get a SIGKILL, as when a machine or a container fails. Whenever its first process
has ended, what is left of it is killed. It is started again at once, with the same command and in the same folder, as
a supervisor does.

A window is *late* if one of its results comes later after its end than any result before the kill, by more than
``_SLACK_MS``. Results are in time again when the last result has come of the windows that are late in a row.

Where counts are wrong in the end, the time of a count is that of its last record.
"""

import math
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from evidence.engines.contestants import Contestant
from evidence.engines.jobs import WINDOW_MS, Place, Truth, counted
from evidence.engines.latency import (
    NO_RESULT,
    Observer,
    Result,
    Stream,
    begun,
    describe,
    first_right,
    flowing,
    in_the_end,
    now_ms,
    ready,
    settled,
)
from evidence.engines.running import Running, Started, running
from evidence.speed.processes import end
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.producers.publish import DeliveryFault

_SLACK_MS = 500

#: The table's columns of figures.
COLUMNS = (
    "latest before the kill, s",
    "first record after the kill, s",
    "in time again after the kill, s",
    "windows late",
    "counts in the end",
    "starts",
)


class Recovery(NamedTuple):
    """What was measured of a contestant. ``wrong`` says what is wrong; then the rest means nothing.

    ``latest``: The latest result of the measured windows, after the window's end (s). ``first``, ``again``: From the
    kill to the first record after it, and until the results are in time again (s); infinite: they aren't for as long as
    the stream goes on. ``windows``: The windows that are late. ``differ``: How the counts differ from the truth in the
    end. Empty: in nothing. ``starts``: How often it was started in all.
    """

    latest: float = 0.0
    first: float = 0.0
    again: float = 0.0
    windows: int = 0
    differ: str = ""
    starts: int = 0
    wrong: str = ""

    def cells(self) -> list[str]:
        """The cells of ``COLUMNS``, unless it is wrong."""
        times = [f"{seconds:,.1f}" if math.isfinite(seconds) else "never" for seconds in self[:3]]
        return [*times, str(self.windows), self.differ or "right", str(self.starts)]

    def __str__(self) -> str:
        return self.wrong or describe(COLUMNS, self.cells())


@dataclass
class Supervisor(Observer):
    """Starts a contestant again whenever its process has ended.

    ``start``: Starts it, and ends what is left of it. ``starts``: How often it was started.
    """

    start: Callable[[], Running] = field(kw_only=True)
    starts: int = 1

    def until(self, over: Callable[[], bool], patience: float = math.inf) -> bool:
        deadline = time.monotonic() + patience
        while not super().until(over, deadline - time.monotonic()):
            if self.at_work.usage.too_much or time.monotonic() > deadline:
                return False
            self.at_work = self.start()
            self.starts += 1
        return True


class Restarts:
    """Runs of the same command, one after the other."""

    def __init__(self, started: Started, folder: Path, stack: ExitStack) -> None:
        self._started, self._folder = started, folder
        self._run = stack.enter_context(ExitStack())

    def __call__(self) -> Running:
        self._run.close()
        return self._run.enter_context(running(self._started, self._folder))


def killed(connection: Connection, stream: Stream, engine: Contestant, repeat: int) -> Recovery:
    """Let a contestant follow a stream of its own, and kill it."""
    with ExitStack() as stack:
        topic, folder, started = stack.enter_context(ready(connection, stream, engine, repeat))
        start = Restarts(started, folder, stack)
        reader = stack.enter_context(TopicReader(connection, started.output))
        supervisor = Supervisor(engine, start(), reader, start=start)
        try:
            measured = _measured(connection, topic, stream, supervisor)
        except DeliveryFault as fault:  # it leaves the broker no time
            measured = Recovery(wrong=f"the stream came to a halt: {fault}")
        if measured.wrong or measured.differ:
            supervisor.at_work.complain(measured.wrong or measured.differ)
        return measured


def _measured(connection: Connection, topic: str, stream: Stream, supervisor: Supervisor) -> Recovery:
    with flowing(connection, topic, stream) as tap:
        first = begun(stream, tap, supervisor)
        if not first:
            return Recovery(wrong=NO_RESULT)
        kept = first + stream.windows_ms
        # Those windows' results must be there before the kill, so it comes in the middle of the next but one.
        kill_at = kept + WINDOW_MS + WINDOW_MS // 2
        if not supervisor.until_ms(kill_at) or supervisor.starts > 1:
            return Recovery(wrong="it ended before it was killed")
        kill_ms = now_ms()
        end(supervisor.at_work.process.pid)
        if not supervisor.until_ms(kept + stream.after_ms):
            return Recovery(wrong=f"it took too much memory ({supervisor.at_work.usage.memory:,.0f} MiB)")
    truth = counted(connection, topic, stream.job).between(first, kept + stream.going_ms)
    settled(truth, supervisor)
    latest, again, windows = lateness(truth, supervisor.results, kept, kill_ms)
    records = [result.appended_ms for result in supervisor.results if result.appended_ms > kill_ms]
    record = (min(records, default=math.inf) - kill_ms) / 1000
    return Recovery(latest, record, again, windows, in_the_end(truth, supervisor.results), supervisor.starts)


def lateness(truth: Truth, results: Iterable[Result], kept_ms: int, kill_ms: float) -> tuple[float, float, int]:
    """For how long results are late.

    ``truth``: What must come of the windows. ``results``: What a contestant has written. ``kept_ms``, ``kill_ms``: The
    end of the windows whose results were there before the kill, and the kill (ms).
    Returns latest, again : float: As ``Recovery`` has them (s). Returns windows : int: The windows that are late in a
    row.
    """
    results = list(results)
    last = {place: appended for appended, place, _ in sorted(results, key=lambda result: result.appended_ms)}
    at: dict[Place, float] = {**last, **first_right(truth, results)}
    come: dict[int, float] = {}  # a window's end → when its last result has come
    for place in truth.counts:
        end = place[0] + WINDOW_MS
        come[end] = max(come.get(end, -math.inf), at.get(place, math.inf))
    latest = max(when - end for end, when in come.items() if end <= kept_ms)
    after = sorted(end for end in come if end > kept_ms)
    late = [come[end] - end > latest + _SLACK_MS for end in after]
    if not any(late):
        return latest / 1000, 0.0, 0
    first = late.index(True)
    stop = late.index(False, first) if False in late[first:] else len(late)
    again = math.inf if stop == len(late) else max(come[end] for end in after[first:stop]) - kill_ms
    return latest / 1000, again / 1000, stop - first
