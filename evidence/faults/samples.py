"""What a campaign's processes and its checkpoint take over time, and how fast that grows between restarts.

A process is measured from its start to its end: that is a *part*.
"""

import contextlib
import os
import re
import statistics
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from evidence.speed.processes import Process, Reaper, descendants, usage

CHECKPOINT = "checkpoint"
#: The measures of a part, by unit or by what is counted. ``heap MiB`` is what lives in a JVM's heap after a full
#: collection, ``files`` are those of the checkpoint.
MEASURES = ("MiB", "threads", "open files", "heap MiB", "files")
_EVERY = 5.0  # s
_COLLECT_EVERY = 90.0  # s from one full collection of a JVM's heap to the next
_JVMS = ("JVM", "executor")
_YOUNG = 60.0  # s after a JVM's start in which its heap isn't collected
_WARM = 180.0  # s after which a process has loaded and compiled what it needs, and Spark removes old batches


class Sample(NamedTuple):
    """One measurement: seconds since the campaign began, the process' kind and number, the measure and its value."""

    at: float
    kind: str
    pid: int
    measure: str
    value: float


@dataclass(frozen=True)
class Trend:
    """A measure over a kind's lasting parts: how many, the longest (s), medians of first and last, slope an hour."""

    parts: int
    longest: float
    first: float
    last: float
    slope: float


class Sampler(threading.Thread):
    """A thread that measures all processes and the checkpoint until it is stopped; it reaps orphans, too."""

    def __init__(self, checkpoint: Path) -> None:
        super().__init__(name="samples", daemon=True)
        self._checkpoint = checkpoint
        self._over = threading.Event()
        self._began = time.monotonic()
        self._seen: dict[int, float] = {}
        self._collected: dict[int, float] = defaultdict(float)
        self.samples: list[Sample] = []

    def run(self) -> None:
        """Measure every five seconds."""
        reap = Reaper()
        while not self._over.wait(_EVERY):
            reap()
            at = time.monotonic() - self._began
            files, size = _content(self._checkpoint)
            self._add(at, CHECKPOINT, 0, "files", files)
            self._add(at, CHECKPOINT, 0, "MiB", size / 2**20)
            for process in descendants():
                if process.kind and process.alive:
                    self._measure(at, process)

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self.join(60)

    def _measure(self, at: float, process: Process) -> None:
        found = usage(process.pid)
        if found is None:
            return
        for measure, value in zip(MEASURES, found, strict=False):
            self._add(at, process.kind, process.pid, measure, value)
        age = at - self._seen.setdefault(process.pid, at)
        # A JVM that has just begun would take the request for a signal to end; one that is stopped doesn't answer.
        due = age > _YOUNG and at - self._collected[process.pid] > _COLLECT_EVERY
        if process.kind in _JVMS and due and process.state != psutil.STATUS_STOPPED:
            self._collected[process.pid] = at
            if heap := live_heap(process.pid):
                self._add(at, process.kind, process.pid, "heap MiB", heap)

    def _add(self, at: float, kind: str, pid: int, measure: str, value: float) -> None:
        self.samples.append(Sample(round(at, 1), kind, pid, measure, round(value, 2)))


def _content(folder: Path) -> tuple[int, int]:
    """How many files a folder's folders have, and their bytes; files come and go meanwhile."""
    files = size = 0
    for path, _, names in os.walk(folder):
        if path != str(folder):  # a file that fills the disk is none of the checkpoint's
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    size += (Path(path) / name).lstat().st_size
                    files += 1
    return files, size


def live_heap(pid: int) -> float | None:
    """What lives in a JVM's heap after a full collection (MiB); None: the JVM doesn't answer."""
    try:
        for request in ("GC.run", "GC.heap_info"):
            answer = subprocess.run(
                ["jcmd", str(pid), request], capture_output=True, text=True, timeout=20, check=True
            ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    used = re.findall(r"(?:generation|heap) +total \d+K, used (\d+)K", answer)
    return sum(map(int, used)) / 1024 if used else None


def trends(samples: Iterable[Sample]) -> dict[tuple[str, str], Trend]:
    """(kind, measure) → its trend; of each part only what comes after its first three minutes counts."""
    parts: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    born: dict[int, float] = {}
    for at, kind, pid, measure, value in samples:
        if at - born.setdefault(pid, at) >= _WARM:
            parts[kind, measure][pid].append((at, value))
    lasting = {name: [part for part in of.values() if len(part) > 2] for name, of in parts.items()}
    return {name: _trend(of) for name, of in lasting.items() if of}


def _trend(parts: Sequence[Sequence[tuple[float, float]]]) -> Trend:
    first = statistics.median(part[0][1] for part in parts)
    last = statistics.median(part[-1][1] for part in parts)
    longest = max(part[-1][0] - part[0][0] for part in parts)
    return Trend(len(parts), longest, first, last, 3600 * slope(parts))


def slope(parts: Iterable[Sequence[tuple[float, float]]]) -> float:
    """The common slope (value / s) of parallel lines, one through each part, by least squares."""
    above = below = 0.0
    for part in parts:
        middle, mean = statistics.fmean(at for at, _ in part), statistics.fmean(value for _, value in part)
        above += sum((at - middle) * (value - mean) for at, value in part)
        below += sum((at - middle) ** 2 for at, _ in part)
    return above / below if below else 0.0
