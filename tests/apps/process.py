"""`unskew topology` as a process of its own, over a stream with known counts, window by window."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.apps.conftest import countries, final_counts, publish
from tests.commands import UNSKEW
from unskew.apps.checkpoint.folders import numbers
from unskew.apps.checkpoint.location import Location
from unskew.deploy.kafka.connection import Connection

TUPLES = 24_000
WINDOW_MS = 2_000
START = 1_700_000_000_000


class Topology:
    """`unskew topology` as a process of its own, with windows by event time, so that each window's truth is known."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        folder: Path,
        grouping: str,
        *more: str,
        mode: str = "LOCAL",
        location: Location | None = None,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = UNSKEW,
    ) -> None:
        self.log = folder / "topology.log"
        self.checkpoint = folder / "checkpoint"
        self._location = location or Location(str(self.checkpoint))
        self._environment = {**os.environ, **(environment or {})}
        self._restarts = 2  # that a service manager would make, beside those that a test makes
        self._command = [
            *(*command, "topology", mode, "COUNTRY_SKEW_R80", grouping, topic, "2", "4", "x0", "--until-drained"),
            *("--time", "event", "--window", str(WINDOW_MS / 1000), "--lateness", "1", "--max-tuples", "4000"),
            *("--trigger", "0.1", "--checkpoint", str(self._location)),
            *("--bootstrap-servers", connection.bootstrap_servers, *more),
        ]
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            self._began = log.tell()
            how = {"start_new_session": True, "env": self._environment}
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, **how)
        return self.process

    def kill(self) -> None:
        """Everything at once, as when a machine loses its power."""
        os.killpg(self.process.pid, signal.SIGKILL)
        for pid in self.children("pyspark/daemon", "unskew.apps.run.daemon"):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def python_workers(self) -> list[int]:
        """The processes that do the tasks: all have the command line of the daemon that they were forked from."""
        family = self.children("-m unskew.apps.run.daemon")
        return [pid for pid in family if parent(pid) in family]

    def command_lines(self) -> list[str]:
        """What anybody on the machine sees of it and of all that it has started."""
        return [_command(pid) for pid in self.children("")]

    def children(self, *names: str) -> list[int]:
        """The process' descendants with one of these in their command line, in no order: process ids wrap around."""
        parents = {int(p.name): parent(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit()}

        def ours(pid: int) -> bool:
            while pid > 1:
                if pid == self.process.pid:
                    return True
                pid = parents.get(pid, 0)
            return False

        return [pid for pid in parents if ours(pid) and any(name in _command(pid) for name in names)]

    def output(self) -> str:
        """What it has printed since it was last started."""
        return self.log.read_bytes()[self._began :].decode()

    def goes_on(self, batches: int, longer: float = 0.0) -> None:
        """Wait until so many more batches are committed, then `longer` (s), but not beyond the next commit.

        So many batches are used up at most, `batches` and one, however fast the machine is.
        """
        before = self._committed()

        def committed(number: int) -> bool:
            if self.process.poll() is not None:
                assert self.process.returncode, "it came to its end already"
                self._start_again()
            return self._committed() >= before + number

        every = 1.0 if self._location.folder().costly else 0.02
        while not committed(batches):  # pytest has a limit
            time.sleep(every)
        end = time.monotonic() + longer
        while time.monotonic() < end and not committed(batches + 1):
            time.sleep(every)

    def finish(self) -> None:
        """Wait for the end."""
        while self.process.wait():
            self._start_again()

    def _start_again(self) -> None:
        assert self._restarts, self.log.read_text()
        self._restarts -= 1
        self.start()

    def _committed(self) -> int:
        return max(numbers(self._location.folder("commits")), default=-1)


def parent(pid: int) -> int:
    """The process that started this one; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def stream() -> list[tuple[str, int, int]]:
    """Key, time (ms) and offset of each message; they alternate between two partitions."""
    rng = np.random.default_rng(7)
    keys = [
        "Turkey" if hot else f"Country {i}"
        for hot, i in zip(rng.random(TUPLES) < 0.8, rng.integers(0, 40, TUPLES), strict=True)
    ]
    return [(key, START + i, i // 2) for i, key in enumerate(keys)]


@pytest.fixture
def truth(connection: Connection, topic: str) -> Counter[tuple[str, str]]:
    return published(connection, topic)


def published(connection: Connection, topic: str) -> Counter[tuple[str, str]]:
    """Publish the stream; how many tuples each window has of each key."""
    messages = stream()
    publish(connection, topic, 2, countries([key for key, _, _ in messages]), ms=[ms for _, ms, _ in messages])
    return Counter((_window(ms), key) for key, ms, _ in messages)


def _window(ms: int) -> str:
    return str(np.datetime64(ms // WINDOW_MS * WINDOW_MS, "ms")) + "Z"


@pytest.fixture
def launch(connection: Connection, topic: str, tmp_path: Path) -> Iterator[Callable[..., Topology]]:
    started: list[Topology] = []

    def make(grouping: str, *more: str, **where: Any) -> Topology:
        started.append(Topology(connection, topic, tmp_path, grouping, *more, **where))
        return started[-1]

    yield make
    for topology in started:
        if topology.process.poll() is None:
            topology.kill()


def check(connection: Connection, topic: str, short: str, truth: Counter[tuple[str, str]]) -> None:
    assert final_counts(connection, f"{topic}-s2-w4-{short}-aggregator") == dict(truth)
