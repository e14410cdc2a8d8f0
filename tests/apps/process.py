"""`unskew topology` as a process of its own, over a stream whose truth is known window by window."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.apps.conftest import countries, final_counts, publish
from unskew.deploy.client.connection import Connection
from unskew.deploy.servers.broker import Broker

TUPLES = 60_000
WINDOW_MS = 5_000
START = 1_700_000_000_000


class Topology:
    """`unskew topology` as a process of its own, with windows by event time, so that each window's truth is known."""

    def __init__(
        self, connection: Connection, topic: str, folder: Path, grouping: str, *more: str, mode: str = "LOCAL"
    ) -> None:
        self.output = folder / "topology.log"
        self._command = [
            sys.executable, "-c", "from unskew.apps.cli import main; main()",
            "topology", mode, "COUNTRY_SKEW_R80", grouping,
            topic, "2", "4", "x0", "--until-drained", "--time", "event", "--window", str(WINDOW_MS / 1000),
            "--lateness", "1", "--max-tuples", "4000", "--trigger", "0.1", "--checkpoint", str(folder / "checkpoint"),
            "--bootstrap-servers", connection.bootstrap_servers, *more,
        ]  # fmt: skip
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
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
        return [pid for pid in family if _parent(Path(f"/proc/{pid}")) in family]

    def children(self, *names: str) -> list[int]:
        """The process' descendants whose command line has one of these, in no order: process ids wrap around."""
        parents = {int(p.name): _parent(p) for p in Path("/proc").iterdir() if p.name.isdigit()}

        def ours(pid: int) -> bool:
            while pid > 1:
                if pid == self.process.pid:
                    return True
                pid = parents.get(pid, 0)
            return False

        return [pid for pid in parents if ours(pid) and any(name in _command(pid) for name in names)]

    def finish(self) -> None:
        """Wait for the end, starting it again as a service manager would."""
        for _ in range(3):
            if self.process.wait(300) == 0:
                return
            self.start()
        raise AssertionError(self.output.read_text())


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "kafka") as started:
        yield started


@pytest.fixture
def truth(broker: Broker, topic: str) -> Counter[tuple[str, str]]:
    rng = np.random.default_rng(7)
    keys = [
        "Turkey" if hot else f"Country {i}"
        for hot, i in zip(rng.random(TUPLES) < 0.8, rng.integers(0, 40, TUPLES), strict=True)
    ]
    ms = [START + i for i in range(TUPLES)]
    publish(Connection(broker.bootstrap_servers), topic, 2, countries(keys), ms=ms)
    return Counter((_window(t), key) for t, key in zip(ms, keys, strict=True))


def _window(ms: int) -> str:
    return str(np.datetime64(ms // WINDOW_MS * WINDOW_MS, "ms")) + "Z"


@pytest.fixture
def launch(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Callable[..., Topology]]:
    started: list[Topology] = []

    def make(grouping: str, *more: str, mode: str = "LOCAL") -> Topology:
        started.append(Topology(Connection(broker.bootstrap_servers), topic, tmp_path, grouping, *more, mode=mode))
        return started[-1]

    yield make
    for topology in started:
        if topology.process.poll() is None:
            topology.kill()


def wait_for_progress(topology: Topology, folder: Path, batches: int) -> None:
    """Until this many more batches are committed."""
    commits = folder / "checkpoint" / "commits"
    before = _committed(commits)
    deadline = time.monotonic() + 120
    while _committed(commits) < before + batches:
        assert topology.process.poll() is None, topology.output.read_text()
        assert time.monotonic() < deadline, topology.output.read_text()
        time.sleep(0.02)


def _committed(commits: Path) -> int:
    return max((int(f.name) for f in commits.glob("[0-9]*")), default=-1) if commits.exists() else -1


def check(broker: Broker, topic: str, short: str, truth: Counter[tuple[str, str]]) -> None:
    got = final_counts(Connection(broker.bootstrap_servers), f"{topic}-s2-w4-{short}-aggregator")
    assert got == dict(truth)
