"""A run of a campaign: the plan's faults for some time, then what came of the messages is compared with the truth."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from evidence.faults.course import Course
from evidence.faults.faults import KINDS, Fault, plan
from evidence.faults.recovery import Lags, Produced, caught_up, lag_before
from evidence.faults.samples import Sampler
from evidence.faults.stage import TOPIC, Stage
from evidence.faults.waiting import await_condition
from evidence.speed.processes import of_kind
from unskew.errors import EnvironmentFault

_STUCK = 240.0  # s without a new batch
_START = 900.0  # s until the first batch: the groupings may have to be compiled
_MOST_STUCK = 3  # times in a row
_DRAIN = 600.0  # s
_BEHIND = 60.0  # s that the next fault waits until the run has caught up
_LOOK_EVERY = 0.5  # s


class _GivenUpError(Exception):
    """The run doesn't go on, however often it is started."""


class _Over(NamedTuple):
    """A fault that the run hasn't recovered from: its kind, when it was inflicted, and when it was undone."""

    kind: str
    began: float
    undone: float


class Campaign:
    """Inflicts a plan's faults on a stage.

    ``stage``: The stage, which runs. ``seed``: The plan's seed. ``without``: Kinds of faults that are left out.
    ``course``: What happens is noted in it. ``log``: It is called with a line about each thing that happens. ``keep``:
    It is called when the course has changed.
    """

    def __init__(
        self,
        stage: Stage,
        seed: int,
        without: tuple[str, ...],
        course: Course,
        log: Callable[[str], None],
        keep: Callable[[], None],
    ) -> None:
        self._stage, self._log, self._keep = stage, log, keep
        self._plan = plan(seed, without)
        self._sampler = Sampler(stage.disk)
        self._over: list[_Over] = []
        self._lags, self._produced = Lags(), Produced(stage.connection, TOPIC)
        self.course = course

    def run(self, seconds: float, faults: int | None = None) -> None:
        """Inflict faults for so many seconds, or so many; let the run end, and check what came of the messages."""
        self._sampler.start()
        self._produced.start()
        try:
            self._await_batch(self._stage.driver.planned(), "start", _START)
            self._lags.forget(time.monotonic())
            self._inflict_all(seconds, faults)
        except _GivenUpError:
            self._stage.end_production()
        else:
            self.course.drained = self._drain()
        finally:
            self._produced.stop()
        self._sampler.stop()
        self._note()
        self._check()

    def _inflict_all(self, seconds: float, faults: int | None) -> None:
        began = time.monotonic()
        for number, fault in enumerate(islice(self._plan, faults), 1):
            self._pass(fault.gap)
            if faults is None and time.monotonic() - began > seconds:
                break
            self._carry_out(number, fault)
            self.course.seconds = time.monotonic() - began
            self._note()

    def _note(self) -> None:
        """Bring the course up to date."""
        stage, driver = self._stage, self._stage.driver
        self.course.batches = stage.past_batches + stage.batches.committed
        self.course.starts, self.course.replays = driver.starts, driver.replays
        self.course.twins, self.course.taken_back = driver.twins, driver.taken_back
        self.course.ends = Counter(f"{end.line} ({end.code})" for end in driver.ends)
        self.course.tracebacks = sum(end.traceback for end in driver.ends)
        self.course.refusals, self.course.unrefused = Counter(stage.refusals), stage.unrefused
        self.course.verdict, self.course.samples = stage.verdict, list(self._sampler.samples)
        self._keep()

    def _carry_out(self, number: int, fault: Fault) -> None:
        began = time.monotonic()
        try:
            undo = KINDS[fault.kind].inflict(self._stage, fault)
        except (TimeoutError, EnvironmentFault) as error:
            self._log(f"{number}. {fault.kind}: {error}")
            return
        self._pass(fault.hold)
        self._undone(undo)
        self.course.inflicted[fault.kind] += 1
        planned = self._stage.driver.planned()
        self._over.append(_Over(fault.kind, began, time.monotonic()))
        if fault.beside:
            self._log(f"{number}. {fault.kind} for {fault.hold:.1f} s, and the next at once")
            return
        took = self._await_batch(planned, fault.kind)
        for over in self._over:
            self.course.recoveries.setdefault(over.kind, []).append(time.monotonic() - over.undone)
        behind = self._await_rate()
        self._over.clear()
        self._log(
            f"{number}. {fault.kind} for {fault.hold:.1f} s: on again after {took:.1f} s, batch {planned}, {behind}"
        )

    def _await_rate(self) -> str:
        """Wait until the run lags no more than before the faults that it recovers from, and note how long it took."""
        before = lag_before(self._lags.seen, self._over[0].began)
        if before is None:
            return "its lag before isn't known"
        since = time.monotonic()
        while (at := caught_up(self._lags.seen, before, since)) is None:
            if time.monotonic() > since + _BEHIND:
                self.course.behind.update(over.kind for over in self._over)
                self._lags.forget(time.monotonic())
                return f"still behind after {_BEHIND:.0f} s more"
            self._pass(0.1)
            if self._stage.bursting:  # its messages have to be taken, too
                since = time.monotonic()
        for over in self._over:
            self.course.catch_ups.setdefault(over.kind, []).append(at - over.undone)
        self._lags.forget(at)
        return f"at its rate after {at - self._over[-1].undone:.1f} s"

    def _pass(self, seconds: float) -> None:
        """Tend to the run for so long, and note how far it lags behind."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._stage.pass_time(min(left, _LOOK_EVERY))
            self._lags.note(self._produced.newest, sum(self._stage.batches.taken().values()), time.monotonic())

    def _undone(self, undo: Callable[[], None]) -> None:
        """Undo a fault; on a busy machine a server may need a second try."""
        for _ in range(3):
            try:
                undo()
            except EnvironmentFault as error:
                self._log(str(error))
            else:
                return

    def _await_batch(self, planned: int, kind: str, patience: float = _STUCK) -> float:
        """Wait until a batch that was planned after batch ``planned`` is committed; the seconds that it took."""
        began, before = time.monotonic(), len(self.course.stuck)
        deadline = began + patience
        while self._stage.driver.committed() <= planned:
            self._pass(0.1)
            if time.monotonic() > deadline:
                self._stuck(kind)
                if len(self.course.stuck) - before == _MOST_STUCK:
                    self._log("the run is given up: what came of its messages is counted")
                    raise _GivenUpError
                deadline += _STUCK
        return time.monotonic() - began

    def _stuck(self, kind: str) -> None:
        """Write down what the driver's threads are doing, and kill it, so that it starts again."""
        self.course.stuck.append(kind)
        pid = self._stage.driver.pid
        self._log(f"no batch for {_STUCK:.0f} s after {kind}: the driver (process {pid}) is killed")
        if pid is None:
            return
        for jvm in of_kind("JVM"):
            with (self._stage.folder / f"stuck-{len(self.course.stuck)}.txt").open("ab") as file:
                subprocess.run(["timeout", "30", "jstack", str(jvm.pid)], stdout=file, stderr=file, check=False)
        self._stage.driver.kill()

    def _drain(self) -> bool:
        """Let the run count the rest of the messages; False: it doesn't."""
        self._log("no more faults: the rest of the messages is counted")
        stage, driver = self._stage, self._stage.driver
        stage.end_production()
        deadline = time.monotonic() + _DRAIN
        more = stage.contestant.more_batches
        drained = self._by_itself(deadline) if more is None else self._by_batches(more, deadline)
        if not drained:
            self._log(f"the run isn't drained within {_DRAIN:.0f} s; its logs are in {stage.folder}")
            driver.kill()
        driver.end_elders()
        return drained

    def _by_itself(self, deadline: float) -> bool:
        """Start the program with the option by which it drains the topic and ends."""
        stage, driver = self._stage, self._stage.driver
        driver.ask_to_end()
        if driver.pid is not None and driver.wait(_STUCK) is None:
            self._stuck("the end")
        while time.monotonic() < deadline:
            driver.start("--until", "drained")
            while (end := driver.wait(0.5)) is None and time.monotonic() < deadline:
                stage.batches.follow()
            stage.batches.follow()
            if end is not None and end.code == 0:
                return True
        return False

    def _by_batches(self, more: int, deadline: float) -> bool:
        """Let the program run until all is taken, and for so many batches more; then it is asked to end."""
        stage, driver = self._stage, self._stage.driver
        if not await_condition(stage.all_taken, deadline - time.monotonic(), stage.pass_time, 0.5):
            return False
        last = driver.committed() + more
        # A query that has no batches without new messages has written everything by now.
        patience = min(deadline - time.monotonic(), _STUCK / 2)
        await_condition(lambda: driver.committed() >= last, patience, stage.pass_time, 0.5)
        driver.ask_to_end()
        return driver.pid is None or driver.wait(_STUCK) is not None

    def _check(self) -> None:
        self._log("what must have come of the messages is counted")
        self._stage.judge(*self._stage.expected())
        self.course.checked = True
        self._note()
