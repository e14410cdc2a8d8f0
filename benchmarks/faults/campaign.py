"""One run of a campaign: the plan carried out, until its time is over; then the check against the truth."""

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable

from benchmarks.faults import truth
from benchmarks.faults.course import Course
from benchmarks.faults.faults import inflict
from benchmarks.faults.plan import Fault, plan
from benchmarks.faults.processes import of_kind
from benchmarks.faults.producer import FUTURE_MS
from benchmarks.faults.samples import Sampler
from benchmarks.faults.stage import TOPIC, WINDOW_MS, Stage
from unskew.errors import EnvironmentFault

_STUCK = 240.0  # s without a new batch
_DRAIN = 900.0  # s


class Campaign:
    """Carries out a plan on a stage.

    Parameters
    ----------
    stage : Stage
        It runs.
    seed : int
        Of the plan.
    without : tuple of str
        Kinds that can't be had here.
    say : str → None
        Told of what goes on.

    """

    def __init__(self, stage: Stage, seed: int, without: tuple[str, ...], say: Callable[[str], None]) -> None:
        self._stage, self._say = stage, say
        self._plan = plan(seed, without)
        self._sampler = Sampler(stage.checkpoint)
        self._over: list[tuple[str, float]] = []  # kind, and since when: faults that aren't recovered from
        self.course = Course([f"{seed}: {stage.grouping}, {stage.time} time"])

    def run(self, seconds: float) -> Course:
        """Inflict faults for so long, let it come to its end, and check."""
        self._sampler.start()
        self._await_batch(self._stage.driver.planned(), "start")
        began = time.monotonic()
        for number, fault in enumerate(self._plan, 1):
            self._stage.pass_time(fault.gap)
            if time.monotonic() - began > seconds:
                break
            self._carry_out(number, fault)
        self.course.seconds = time.monotonic() - began
        self._drain()
        self._sampler.stop()
        self.course.samples = self._sampler.samples
        driver = self._stage.driver
        self.course.batches, self.course.starts = self._stage.batches.committed, driver.starts
        self.course.replays = driver.replays
        self.course.ends = Counter(f"{end.line} ({end.code})" for end in driver.ends)
        self.course.tracebacks = sum(end.traceback for end in driver.ends)
        self._check()
        return self.course

    def _carry_out(self, number: int, fault: Fault) -> None:
        try:
            undo = inflict(self._stage, fault)
        except (TimeoutError, EnvironmentFault) as error:
            self._say(f"{number}. {fault.kind}: {error}")
            return
        self._stage.pass_time(fault.hold)
        self._undone(undo)
        self.course.inflicted[fault.kind] += 1
        planned = self._stage.driver.planned()
        self._over.append((fault.kind, time.monotonic()))
        if fault.beside:
            self._say(f"{number}. {fault.kind} for {fault.hold:.1f} s, and the next at once")
            return
        took = self._await_batch(planned, fault.kind)
        for kind, over in self._over:
            self.course.recoveries.setdefault(kind, []).append(time.monotonic() - over)
        self._over.clear()
        self._say(f"{number}. {fault.kind} for {fault.hold:.1f} s: on again after {took:.1f} s, batch {planned}")

    def _undone(self, undo: Callable[[], None]) -> None:
        """A server may need a second try, on a busy machine."""
        for _ in range(3):
            try:
                undo()
            except EnvironmentFault as error:
                self._say(str(error))
            else:
                return

    def _await_batch(self, planned: int, kind: str) -> float:
        """Seconds until a batch planned after that one is committed."""
        began = time.monotonic()
        deadline = began + _STUCK
        while self._stage.driver.committed() <= planned:
            self._stage.pass_time(0.1)
            if time.monotonic() > deadline:
                self._stuck(kind)
                deadline += _STUCK
        return time.monotonic() - began

    def _stuck(self, kind: str) -> None:
        """Note where its threads are, and start it again."""
        self.course.stuck.append(kind)
        pid = self._stage.driver.pid
        self._say(f"no batch for {_STUCK:.0f} s after {kind}: the driver (process {pid}) is killed")
        if pid is None:
            return
        for jvm in of_kind("JVM"):
            with (self._stage.folder / f"stuck-{len(self.course.stuck)}.txt").open("wb") as file:
                subprocess.run(["timeout", "30", "jstack", str(jvm.pid)], stdout=file, stderr=file, check=False)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def _drain(self) -> None:
        self._say("no more faults: all that there is is counted")
        stage, driver = self._stage, self._stage.driver
        stage.end_production()
        driver.ask_to_end()
        if driver.pid is not None and driver.wait(_STUCK) is None:
            self._stuck("the end")
        deadline = time.monotonic() + _DRAIN
        while time.monotonic() < deadline:
            driver.start("--until-drained")
            while (code := driver.wait(0.5)) is None and time.monotonic() < deadline:
                stage.batches.follow()
            if code == 0:
                break
        else:
            raise EnvironmentFault(f"the run isn't drained within {_DRAIN:.0f} s; its log is in {stage.folder}")
        stage.batches.follow()

    def _check(self) -> None:
        stage = self._stage
        records = list(truth.topic_records(stage.connection, TOPIC))
        self._say(f"{len(records):,} messages in the topic: the truth of them is counted")
        by_event = stage.time == "event"
        expected = truth.truth_of(
            TOPIC, records, WINDOW_MS,
            lambda record: record.time_ms if by_event else stage.batches.time_of(record.partition, record.offset),
            FUTURE_MS if by_event else 1 << 62,
        )  # fmt: skip
        counted, distribution, rejected = (
            truth.Published.of(truth.topic_records(stage.connection, topic))
            for topic in (f"{stage.name}-aggregator", f"{stage.name}-distribution", f"{TOPIC}-rejected")
        )
        verdict = truth.judge(expected, counted, rejected, [distribution])
        verdict.acknowledged_missing = truth.missing(stage.notes(), records)
        self.course.verdict = verdict
