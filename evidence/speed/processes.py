"""The processes that a benchmark started: of what kind each is, what it takes of CPU and memory, and its end."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from subprocess import DEVNULL, Popen
from typing import IO

import psutil

#: The kinds of process that a topology on this machine consists of.
KINDS: tuple[str, ...] = ("driver", "JVM", "Python workers")
#: What the command line of a process has → its kind.
_MARKS = {
    "executor.CoarseGrainedExecutorBackend": "executor",
    "org.apache.spark.deploy.SparkSubmit": "JVM",
    "unskew.apps.driver.python_daemon": "Python workers",
    "pyspark.daemon": "Python workers",
    "kafka.Kafka ": "broker",
    "influxd": "InfluxDB",
    "org.apache.spark.deploy.worker.Worker": "cluster's worker",
    "org.apache.spark.deploy.master.Master": "cluster's master",
    "evidence.faults.producer": "producer",
    "unskew.apps.cli.main": "driver",
    "evidence.faults.session": "driver",
}
_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


@dataclass(frozen=True)
class Process:
    """A process.

    ``pid``, ``parent``, ``session``: Numbers of the process, of its parent, and of the process that leads its session.
    ``state``: One of psutil's ``STATUS_…``. ``kind``: What it is, or empty where its command line has no kind's mark.
    """

    pid: int
    parent: int
    session: int
    state: str
    kind: str

    @property
    def alive(self) -> bool:
        """Whether it hasn't ended; it may be stopped."""
        return self.state != psutil.STATUS_ZOMBIE


def start(command: Sequence[str], log: IO[bytes], environment: Mapping[str, str] | None = None) -> Popen[bytes]:
    """Start a process in a session of its own, which reads nothing and writes to a file."""
    return Popen(command, stdin=DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)


def descendants() -> list[Process]:
    """All processes that this one started, and those that they started."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            found.append(Process(each.pid, each.ppid(), os.getsid(each.pid), each.status(), _kind(each)))
    return found


def of_kind(kind: str) -> list[Process]:
    """Those of our descendants that are of a kind, and alive."""
    return [process for process in descendants() if process.kind == kind and process.alive]


def cpu(root: int | None = None) -> dict[str, float]:
    """CPU time of a topology so far.

    ``root``: Number of the driver's process; by default this one.
    Returns dict: Kind (of ``KINDS``) → seconds, with those of processes that have ended and been waited for.
    """
    return _summed(root, lambda process: sum(process.cpu_times()[:4]))


def spent(root: int | None = None) -> float:
    """CPU seconds of a topology so far, all kinds together."""
    return sum(cpu(root).values())


def memory(root: int | None = None) -> dict[str, float]:
    """Kind (of ``KINDS``) → proportional set size (MiB): what processes share is divided among them."""
    return _summed(root, lambda process: process.memory_full_info().pss / 2**20)


def usage(pid: int) -> tuple[float, int, int] | None:
    """A process' resident memory (MiB), threads and open files; None: there is no such process any more."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return process.memory_info().rss / 2**20, process.num_threads(), process.num_fds()
    except psutil.Error:
        return None


def end(root: int) -> None:
    """Kill a process and all that it started (SIGKILL), and wait until they are gone."""
    try:
        process = psutil.Process(root)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for each in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(family, timeout=30)


def end_all(patience: float = 5.0) -> int:
    """Kill all our descendants, again and again until none is left or ``patience`` (s) is over; how many there were."""
    found: set[int] = set()
    deadline = time.monotonic() + patience
    while (alive := [process.pid for process in descendants() if process.alive]) and time.monotonic() < deadline:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        found.update(alive)
        time.sleep(0.1)
    return len(found)


def adopt_orphans() -> None:
    """Become the parent of each descendant whose parent ends, instead of init: so ``descendants`` has them all."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Reaper:
    """Waits for adopted orphans that have ended, as their parent must, so that none stays a zombie."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def __call__(self) -> None:
        """Wait for the orphans that had ended at the last call already.

        Processes that we started ourselves lead a session each, and whoever started them waits for them.
        """
        children = (process for process in descendants() if process.parent == os.getpid() and not process.alive)
        dead = {process.pid for process in children if process.session != process.pid}
        for pid in dead & self._seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = dead


def _kind(process: psutil.Process) -> str:
    try:
        line = " ".join([*process.cmdline(), ""])
    except psutil.ZombieProcess:
        return ""
    return next((kind for mark, kind in _MARKS.items() if mark in line), "")


def _summed(root: int | None, measure: Callable[[psutil.Process], float]) -> dict[str, float]:
    found = dict.fromkeys(KINDS, 0.0)
    driver = psutil.Process(root)
    for process in (driver, *driver.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            kind = "driver" if process == driver else _kind(process)
            if kind in found:
                found[kind] += measure(process)
    return found
