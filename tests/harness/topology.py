"""`unskew topology` as a process of its own, over a stream with known counts, window by window."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.apps.conftest import countries, final_counts, publish, skewed, true_counts
from tests.commands import UNSKEW
from tests.harness.query import QueryProcess, command_of
from unskew.apps.checkpoint.location import Location
from unskew.kafka.connection import Connection

TUPLES = 24_000
WINDOW_MS = 2_000
START = 1_700_000_000_000


class Topology(QueryProcess):
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
        self.checkpoint = folder / "checkpoint"
        location = location or Location(str(self.checkpoint))
        options = [
            *("topology", mode, "COUNTRY_SKEW_R80", grouping, topic, "2", "4", "x0", "--until", "drained"),
            *("--time", "event", "--window", str(WINDOW_MS / 1000), "--lateness", "1", "--max-tuples", "4000"),
            *("--trigger", "0.1", "--checkpoint", str(location)),
            *("--bootstrap-servers", connection.bootstrap_servers, *more),
        ]
        variables = {**os.environ, **(environment or {})}
        # Two more starts than a test makes, which a service manager would make.
        super().__init__([*command, *options], folder / "topology.log", location, variables, restarts=2)
        self.start()

    def command_lines(self) -> list[str]:
        """What anybody on the machine sees of it and of all that it has started."""
        return [" ".join(command_of(each)) for each in (psutil.Process(self.process.pid), *self.descendants())]


def stream() -> list[tuple[str, int, int]]:
    """Key, time (ms) and offset of each message; they alternate between two partitions."""
    return [(key, START + i, i // 2) for i, key in enumerate(skewed(TUPLES, 7, 40))]


@pytest.fixture
def truth(connection: Connection, topic: str) -> Counter[tuple[str, str]]:
    return published(connection, topic)


def published(connection: Connection, topic: str) -> Counter[tuple[str, str]]:
    """Publish the stream; how many tuples each window has of each key."""
    messages = stream()
    publish(connection, topic, 2, countries([key for key, _, _ in messages]), ms=[ms for _, ms, _ in messages])
    return true_counts([key for key, _, _ in messages], [ms for _, ms, _ in messages], WINDOW_MS)


@pytest.fixture
def launch(connection: Connection, topic: str, tmp_path: Path) -> Iterator[Callable[..., Topology]]:
    started: list[Topology] = []

    def make(grouping: str, *more: str, folder: Path = tmp_path, **where: Any) -> Topology:
        folder.mkdir(exist_ok=True)
        started.append(Topology(connection, topic, folder, grouping, *more, **where))
        return started[-1]

    yield make
    for topology in started:
        if topology.process.poll() is None:
            topology.kill()


def check(connection: Connection, topic: str, short: str, truth: Counter[tuple[str, str]]) -> None:
    assert final_counts(connection, f"{topic}-s2-w4-{short}-aggregator") == dict(truth)
