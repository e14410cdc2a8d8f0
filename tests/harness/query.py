"""A streaming query as a process of its own: it is started, waited for, killed, and started again on its checkpoint."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.waiting import PATIENCE, awaited
from unskew.apps.checkpoint.folders import list_numbers
from unskew.apps.checkpoint.location import Location

_JVM = "org.apache.spark.deploy.SparkSubmit"
#: The process that Spark's Python workers are forked from: its own, or ours.
_DAEMONS = {"pyspark.daemon", "unskew.apps.driver.python_daemon"}


class QueryProcess:
    """A streaming query as a process of its own.

    Parameters
    ----------
    command : sequence
        Program and arguments.
    log : Path
        The file of what it prints, which all its starts append to.
    checkpoint : Location
        Its checkpoint.
    environment : mapping, optional
        Its variables; by default those of this process.
    folder : Path, optional
        The folder that it runs in; by default that of this process.
    restarts : int
        How often it may end with an error and is started again, as a service manager would, while it is waited for.

    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        checkpoint: Location,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        restarts: int = 0,
    ) -> None:
        self._command, self.log, self._checkpoint, self._folder = command, log, checkpoint, folder
        self._environment = environment
        self._restarts = restarts

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """Start it, with more arguments than usual."""
        with self.log.open("ab") as log:
            self._begin = log.tell()
            self.process = subprocess.Popen(
                [*self._command, *more],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.process

    def output(self) -> str:
        """What it has printed since it was last started."""
        return self.log.read_bytes()[self._begin :].decode()

    def ended_with(self, code: int) -> str:
        """Wait until it ends with this code, and without a stack trace; what it has printed."""
        assert self.process.wait(PATIENCE) == code, self.output()
        assert "Traceback" not in self.output()
        return self.output()

    def is_running(self) -> bool:
        """True; it fails, with what was printed, if the process has ended."""
        assert self.process.poll() is None, self.output()[-3_000:]
        return True

    def committed(self) -> int:
        """The number of the newest batch that Spark has noted as done; -1 if there is none."""
        return max(list_numbers(self._checkpoint.folder("commits")), default=-1)

    def await_batches(self, batches: int, longer: float = 0.0) -> None:
        """Wait until so many more batches are committed, then `longer` (s), but not beyond the next commit.

        So many batches are used up at most, `batches` and one, however fast the machine is.
        """
        before = self.committed()

        def is_committed(number: int) -> bool:
            if self.process.poll() is not None:
                assert self.process.returncode, "it came to its end already"
                self._start_again()
            return self.committed() >= before + number

        every = 1.0 if self._checkpoint.folder().costly else 0.02
        awaited(lambda: is_committed(batches), f"{batches} batches", every)
        end = time.monotonic() + longer
        while time.monotonic() < end and not is_committed(batches + 1):
            time.sleep(every)

    def await_end(self) -> None:
        """Wait until it comes to its end."""
        while self.process.wait(PATIENCE):
            self._start_again()

    def kill(self) -> None:
        """Kill everything at once, as when a machine loses its power."""
        if self.process.poll() is None:
            kill_tree(self.process)

    def kill_python_workers(self, most: int | None = None) -> None:
        """Kill Python workers that do tasks now, two of them say, by `most`."""
        for worker in awaited(self.python_workers, "a Python worker")[:most]:
            with suppress(psutil.NoSuchProcess):
                worker.kill()

    def python_workers(self) -> list[psutil.Process]:
        """The Python processes that do tasks, forked from a daemon, whose command line they share."""
        family = [each for each in self.descendants() if _DAEMONS & {*command_of(each)}]
        daemons = {each.pid for each in family}
        return [each for each in family if parent_of(each) in daemons]

    def jvm(self) -> psutil.Process:
        """The driver's JVM. (A child that the JVM is just starting has its command line for a moment.)"""
        [jvm] = [
            each for each in self.descendants() if _JVM in command_of(each) and parent_of(each) == self.process.pid
        ]
        return jvm

    def descendants(self) -> list[psutil.Process]:
        """All that it has started, and what these have."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def _start_again(self) -> None:
        assert self._restarts, self.log.read_text()
        self._restarts -= 1
        self.start()


class KilledQuery(QueryProcess):
    """A program that is started again and again on one checkpoint, and ends at random moments.

    Its last argument is the batch that it leaves without Spark's note, by dying; or ``NEVER``.
    """

    NEVER = "-1"

    def __init__(
        self, command: Sequence[str | Path], folder: Path, environment: Mapping[str, str], rng: random.Random
    ) -> None:
        self.rng = rng
        super().__init__(command, folder / "query.log", Location(str(folder / "checkpoint")), environment, folder)

    def dies(self) -> None:
        """It is started, and dies between a batch that is written and Spark's note of it."""
        last = self.committed() + self.rng.randint(1, 2)
        self.start(str(last))
        self.process.wait(PATIENCE)
        assert self.committed() == last - 1, self.output()[-3_000:]

    def is_killed(self) -> None:
        """It is started, and killed anywhere in a batch."""
        self.start(self.NEVER)
        self.await_batches(self.rng.randint(1, 2), self.rng.random())
        self.kill()

    def loses_tasks(self) -> None:
        """It is started, and its Python workers are killed. Then it is killed, too."""
        self.start(self.NEVER)
        for _ in range(3):
            self.await_batches(1, self.rng.random())
            self.kill_python_workers(2)
        self.await_batches(1, self.rng.random())
        self.kill()


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started. (Spark's Python daemons have a process group of their own.)"""
    started = []
    with suppress(psutil.NoSuchProcess):
        started = psutil.Process(process.pid).children(recursive=True)
    for each in (process, *started):
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def command_of(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended."""
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def parent_of(process: psutil.Process) -> int:
    """The number of the process that started this one; 0 if it has ended."""
    with suppress(psutil.Error):
        return process.ppid()
    return 0
