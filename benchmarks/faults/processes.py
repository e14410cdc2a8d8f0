"""The processes of a campaign: all are descendants of ours, orphans too."""

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import dataclass

import psutil

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
#: kind → what its command line has.
_KINDS = {
    "executor": "executor.CoarseGrainedExecutorBackend",
    "JVM": "org.apache.spark.deploy.SparkSubmit",
    "Python workers": "unskew.apps.run.daemon",
    "broker": "kafka.Kafka ",
    "InfluxDB": "influxd",
    "cluster's worker": "org.apache.spark.deploy.worker.Worker",
    "cluster's master": "org.apache.spark.deploy.master.Master",
    "producer": "benchmarks.faults.producer",
    "driver": "unskew.apps.cli",
}


@dataclass(frozen=True)
class Process:
    """A process: ``kind`` of ``KINDS`` or empty, its parent and session, its state in psutil's words."""

    pid: int
    parent: int
    session: int
    state: str
    kind: str

    @property
    def alive(self) -> bool:
        """Whether it hasn't ended; it may be stopped."""
        return self.state != psutil.STATUS_ZOMBIE


def adopt_orphans() -> None:
    """Let processes whose parent has died become ours, not init's: so none escapes."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def ours() -> list[Process]:
    """Our descendants."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            state = each.status()
            line = "" if state == psutil.STATUS_ZOMBIE else " ".join([*each.cmdline(), ""])
            kind = next((kind for kind, mark in _KINDS.items() if mark in line), "")
            found.append(Process(each.pid, each.ppid(), os.getsid(each.pid), state, kind))
    return found


def of_kind(kind: str) -> list[Process]:
    """Those of our descendants that are of a kind, and alive."""
    return [process for process in ours() if process.kind == kind and process.alive]


def measured(pid: int) -> tuple[float, int, int] | None:
    """Resident memory (MiB), threads, open files; None: it is gone."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return process.memory_info().rss / 2**20, process.num_threads(), process.num_fds()
    except psutil.Error:
        return None


def end_all(patience: float = 5.0) -> int:
    """Kill all our descendants; how many there were."""
    found: set[int] = set()
    deadline = time.monotonic() + patience
    while (alive := [process.pid for process in ours() if process.alive]) and time.monotonic() < deadline:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        found.update(alive)
        time.sleep(0.1)
    return len(found)


class Reaper:
    """Takes note of the ends of orphans, which nobody else waits for."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def __call__(self) -> None:
        """Reap what has been dead since the last call; what we started ourselves leads a session, and is left alone."""
        dead = {p.pid for p in ours() if not p.alive and p.parent == os.getpid() and p.session != p.pid}
        for pid in dead & self._seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = dead
