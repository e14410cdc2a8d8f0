"""The processes of a campaign, as Linux tells of them: all are descendants of ours, orphans too."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_PAGE = os.sysconf("SC_PAGE_SIZE")
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
    """A process: ``kind`` of ``KINDS`` or empty, its parent, session and state (a letter: T stopped, Z a zombie)."""

    pid: int
    parent: int
    session: int
    state: str
    kind: str


def adopt_orphans() -> None:
    """Let processes whose parent has died become ours, not init's: so none escapes."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def ours() -> list[Process]:
    """Our descendants."""
    every = {process.pid: process for process in _all()}

    def descends(pid: int) -> bool:
        while pid in every:
            pid = every[pid].parent
            if pid == os.getpid():
                return True
        return False

    return [process for pid, process in every.items() if descends(pid)]


def of_kind(kind: str) -> list[Process]:
    """Those of our descendants that are of a kind, and alive."""
    return [process for process in ours() if process.kind == kind and process.state != "Z"]


def measured(pid: int) -> tuple[float, int, int] | None:
    """Resident memory (MiB), threads, open files; None: it is gone."""
    folder = Path("/proc", str(pid))
    try:
        pages = int((folder / "statm").read_text().split()[1])
        threads = int(_stat(folder)[17])
        return pages * _PAGE / (1 << 20), threads, len(os.listdir(folder / "fd"))  # noqa: PTH208  no paths are needed
    except (OSError, IndexError):
        return None


def end_all(patience: float = 5.0) -> int:
    """Kill all our descendants; how many there were."""
    found: set[int] = set()
    deadline = time.monotonic() + patience
    while (alive := [process.pid for process in ours() if process.state != "Z"]) and time.monotonic() < deadline:
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
        dead = {p.pid for p in ours() if p.state == "Z" and p.parent == os.getpid() and p.session != p.pid}
        for pid in dead & self._seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = dead


def _all() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = _stat(folder)
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            kind = next((kind for kind, mark in _KINDS.items() if mark in line), "")
            yield Process(int(folder.name), int(stat[1]), int(stat[3]), stat[0], kind)


def _stat(folder: Path) -> list[str]:
    """The fields of /proc/PID/stat from the third, the state, on."""
    return (folder / "stat").read_text().rpartition(")")[2].split()
