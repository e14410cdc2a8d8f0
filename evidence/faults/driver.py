"""The driver of a campaign: its supervisor, and the batches that it has committed.

The supervisor starts the driver again whenever it has ended, as a service manager would. It also starts a second one
beside a first that is paused, and may start the first one again when that has ended. Which messages each committed
batch took, and when, is read from the checkpoint while the run goes on.
"""

import contextlib
import os
import posixpath
import re
import signal
import subprocess
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from evidence.speed import processes
from unskew.apps.checkpoint.lease import NAME_VARIABLE
from unskew.apps.checkpoint.versions import Versions
from unskew.errors import EnvironmentFault

_USAGE = 2  # exit code
_PAUSE = 1.0  # s between an end and the next start
_WAITS = "another driver ("  # what a driver says that waits for another one
_END_PATIENCE = 60.0  # s
_MOST_TOGETHER = 240.0  # s that a first driver may run on beside the second


@dataclass(frozen=True)
class End:
    """An end of the driver: exit code (negative: a signal's number), last line, and whether it showed a traceback."""

    code: int
    line: str
    traceback: bool


@dataclass
class _Process:
    """A process of the driver's, with its name for ``NAME_VARIABLE``, and the file of what it prints.

    An elder one is beside another since ``resumed``.
    """

    process: subprocess.Popen[bytes]
    name: str
    log: Path
    resumed: float | None = None

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    @property
    def waits(self) -> bool:
        """Whether it runs and has said that it waits for another driver."""
        return self.runs and _WAITS in self.log.read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to it and all that it started, its JVM too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self) -> End:
        """How it ended."""
        output = self.log.read_text(errors="replace")
        last = (output.strip().splitlines() or [""])[-1]
        last = re.sub(r"\d+", "N", re.sub(r"/\S+", "…", last))
        return End(self.process.returncode, last[:160], "Traceback" in output)


class Driver:
    """The program that runs the query, as a process, with its supervisor.

    ``command``: Program and arguments. ``folder``: The folder of its logs, one for each start. ``checkpoint``: The
    folder of its checkpoint. ``environment``: Environment variables that are set beside those of this process.
    ``ends``: How it ended, each time. ``starts``, ``replays``: How often it was started, and how often there was a
    batch to run again. ``twins``: Times that a first driver, which was paused, ran on for four minutes beside the
    second. ``taken_back``: Times that a first driver, which had ended for the second and was started again, took the
    checkpoint back, or didn't end in good order.
    """

    def __init__(self, command: Sequence[str], folder: Path, checkpoint: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._newest: _Process | None = None
        self._elders: list[_Process] = []
        self._name = "driver-1"  # the newest one's; after a restart it is the same
        self._supplanted: str | None = None  # name of the elder that has ended for the newest one
        self._returned: _Process | None = None
        self._ended_at = -_PAUSE
        self.ends: list[End] = []
        self.starts = self.replays = self.twins = self.taken_back = 0
        self.use(command, checkpoint)

    def use(self, command: Sequence[str], checkpoint: Path) -> None:
        """Run another command from its next start on, which has another checkpoint."""
        self._command, self._checkpoint = list(command), checkpoint
        self._refuses = False

    @property
    def pid(self) -> int | None:
        """The number of its process; None: it doesn't run."""
        return self._newest.process.pid if self._newest is not None and self._newest.runs else None

    def tend(self) -> None:
        """Start it a second after it has ended, and note how it ended; while it runs do nothing.

        Raises EnvironmentFault: It has ended because its arguments are wrong.
        """
        self._tend_elders()
        if self.pid is not None:
            return
        self._note_end()
        if self._refuses:
            raise EnvironmentFault(f"the driver refuses: {self.ends[-1].line}")
        if time.monotonic() - self._ended_at >= _PAUSE:
            self.start()

    def start(self, *more: str) -> None:
        """Start it, with more arguments than usual."""
        if self.planned() > self.committed():
            self.replays += 1
        self._newest = self._launch(self._name, *more)

    def supplant(self) -> Callable[[], None]:
        """Pause it with its JVM, and start a second one beside it; the function that is returned lets the first go on.

        Raises TimeoutError: It doesn't run.
        """
        first = self._newest
        if first is None or not first.runs:
            raise TimeoutError("there is no driver to be the first of two")
        first.signal(signal.SIGSTOP)
        self._elders.append(first)
        self._name = f"driver-{self.starts + 1}"
        self._supplanted = None
        self.start()

        def resume() -> None:
            first.resumed = time.monotonic()
            first.signal(signal.SIGCONT)

        return resume

    def bring_back(self) -> bool:
        """Start a first driver again that has ended for the second, as its supervisor would; whether it says it waits.

        It has to be called again and again until then. It does nothing as long as the first one goes on.
        """
        if self._returned is not None and not self._returned.runs:
            self.ends.append(self._returned.end())
            self._returned = None
        if self._returned is None and self._supplanted is not None:
            self._returned = self._launch(self._supplanted)
        return self._returned is not None and self._returned.waits

    def end_returned(self) -> None:
        """Ask the first driver that was brought back to end, and note whether it has done nothing but wait."""
        first, self._returned, self._supplanted = self._returned, None, None
        if first is None:
            return
        first.process.terminate()
        try:
            first.process.wait(_END_PATIENCE)
        except subprocess.TimeoutExpired:
            first.signal(signal.SIGKILL)
            first.process.wait()
        self.ends.append(first.end())
        holder = orjson.loads((self._checkpoint / "unskew" / "holder.json").read_bytes())
        self.taken_back += bool(first.process.returncode) or holder.get("name") == first.name

    def ask_to_end(self) -> None:
        """Send it SIGTERM, if it runs."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and all that it started, at once."""
        if self._newest is not None:
            self._newest.signal(signal.SIGKILL)

    def wait(self, patience: float) -> End | None:
        """Wait for its end for so long (s), if it runs, and return how it ended last; None: it still runs."""
        if self._newest is not None:
            try:
                self._newest.process.wait(patience)
            except subprocess.TimeoutExpired:
                return None
            self._note_end()
        return self.ends[-1]

    def end_elders(self) -> None:
        """Wait until no first driver is left beside the second."""
        while self._elders:
            self._tend_elders()
            time.sleep(0.2)

    def planned(self) -> int:
        """The number of the newest batch that was planned; -1: there is none."""
        return _newest(self._checkpoint / "offsets")

    def committed(self) -> int:
        """The number of the newest batch that was committed; -1: there is none."""
        return _newest(self._checkpoint / "commits")

    def _tend_elders(self) -> None:
        for elder in list(self._elders):
            if elder.resumed is not None and time.monotonic() - elder.resumed > _MOST_TOGETHER:
                self.twins += 1
                elder.signal(signal.SIGKILL)
                elder.process.wait()
            if not elder.runs:
                self._elders.remove(elder)
                self.ends.append(elder.end())
                if self.ends[-1].code > 0:
                    self._supplanted = elder.name

    def _launch(self, name: str, *more: str) -> _Process:
        self.starts += 1
        path = self._folder / f"driver-{self.starts}.log"
        with path.open("wb") as log:
            process = processes.start([*self._command, *more], log, {**self._environment, NAME_VARIABLE: name})
        return _Process(process, name, path)

    def _note_end(self) -> None:
        if self._newest is None or self._newest.runs:
            return
        self.ends.append(self._newest.end())
        self._refuses = self.ends[-1].code == _USAGE
        self._newest = None
        self._ended_at = time.monotonic()


def _newest(folder: Path) -> int:
    try:
        return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1)  # noqa: PTH208
    except FileNotFoundError:
        return -1


class BatchLog:
    """The committed batches: which messages each took, and at what time.

    Spark removes old entries of its logs, so ``follow`` has to be called now and then.

    ``checkpoint``: The run's checkpoint. ``topic``: The source topic.
    """

    def __init__(self, checkpoint: Path, topic: str) -> None:
        self._checkpoint, self._topic = checkpoint, topic
        self._next = 0
        self._ends: dict[int, list[int]] = defaultdict(list)  # partition → ends of the batches, ascending
        self._times: dict[int, list[int]] = defaultdict(list)  # …and their times
        self._numbers: dict[int, list[int]] = defaultdict(list)

    def follow(self) -> None:
        """Read the entries of the batches that were committed since the last call.

        Raises FileNotFoundError: An entry was removed before it was read.
        """
        while (self._checkpoint / "commits" / str(self._next)).exists():
            _, metadata, offsets, *_ = (self._checkpoint / "offsets" / str(self._next)).read_text().splitlines()
            clock = Versions(posixpath.join(str(self._checkpoint), "unskew", "clock")).newest(self._next)
            ahead = int(clock[1]) if clock else 0
            time_ms = orjson.loads(metadata)["batchTimestampMs"] + ahead
            for partition, end in orjson.loads(offsets).get(self._topic, {}).items():
                ends = self._ends[int(partition)]
                if end > (ends[-1] if ends else 0):
                    ends.append(end)
                    self._times[int(partition)].append(time_ms)
                    self._numbers[int(partition)].append(self._next)
            self._next += 1

    @property
    def committed(self) -> int:
        """How many batches have been committed."""
        return self._next

    def taken(self) -> dict[int, int]:
        """Partition → the offset up to which (exclusive) committed batches have taken its messages."""
        return {partition: ends[-1] for partition, ends in self._ends.items() if ends}

    def time_of(self, partition: int, offset: int) -> int | None:
        """The time (ms) of the batch that took a message; None: no committed batch did."""
        return self._of(self._times, partition, offset)

    def number_of(self, partition: int, offset: int) -> int | None:
        """The number of that batch, likewise."""
        return self._of(self._numbers, partition, offset)

    def _of(self, values: dict[int, list[int]], partition: int, offset: int) -> int | None:
        at = bisect_right(self._ends[partition], offset)
        return values[partition][at] if at < len(self._ends[partition]) else None
