"""examples/sessions.py as a process of its own, which is killed, its stream, and what it must write."""

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from tests.apps.conftest import publish
from tests.harness.query import QueryProcess
from tests.oracle.rows import written
from tests.sessions import sessions
from tests.waiting import awaited
from tests.wheel.environments import ROOT
from unskew.apps.checkpoint.location import Location
from unskew.kafka.connection import Connection

BATCHES, ROWS, USERS, KILLS = 16, 5_000, 1_500, 3  # a batch of the example has 5,000 rows
GAP = timedelta(minutes=30)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def stream() -> list[tuple[str, datetime]]:
    """User and time of each message, a second apart: three of five have one user. Some are up to 8 minutes late."""
    rng = np.random.default_rng(7)
    n = BATCHES * ROWS
    users = np.where(rng.random(n) < 0.6, 0, rng.integers(1, USERS, n))
    late = np.where(rng.random(n) < 0.1, rng.integers(0, 480, n), 0)
    times = np.maximum(np.arange(n) - late, 0)
    return [(f"u{user}", BEGIN + timedelta(seconds=int(t))) for user, t in zip(users, times, strict=True)]


def values(messages: list[tuple[str, datetime]]) -> list[bytes | None]:
    return [orjson.dumps({"user": user, "at": at}) for user, at in messages]


def send(connection: Connection, topic: str) -> None:
    """Publish the stream, and some invalid messages."""
    publish(connection, topic, 2, [*values(stream()), b"no JSON", b"{}", None])


def rows(folder: Path) -> Counter[tuple[str, datetime, datetime, int]]:
    """What it has written, but for the messages that only move its clock."""
    found: Counter[tuple[str, datetime, datetime, int]] = Counter()
    if (folder / "sessions" / "_spark_metadata").exists():
        for table in written(folder / "sessions"):
            times = (table[name].cast(pa.timestamp("us", "UTC")).to_pylist() for name in ("start", "last"))
            columns = zip(table["user"].to_pylist(), *times, table["count"].to_pylist(), strict=True)
            found.update(row for row in columns if row[0] != "end")
    return found


class Example(QueryProcess):
    """The example, started by ``spark-submit`` as its first lines say, with a connector that is here already.

    Parameters
    ----------
    submit : path
        The `spark-submit` of a Spark.
    jars : paths
        The Kafka connector of that Spark.
    environment : mapping
        The variables of its process.
    servers, topic
        Where its messages are.
    folder : path
        The folder that it gets.

    """

    def __init__(
        self, submit: Path, jars: Sequence[Path], environment: Mapping[str, str], servers: str, topic: str, folder: Path
    ) -> None:
        options = ["--master", "local[2]", "--jars", ",".join(map(str, jars)), "--conf", "spark.ui.enabled=false"]
        command = [submit, *options, ROOT / "examples" / "sessions.py", servers, topic, folder]
        checkpoint = Location(str(folder / "checkpoint"))
        super().__init__(command, folder / "example.log", checkpoint, environment, folder)
        self.start()


def require_each_session_once(example: Example, connection: Connection, topic: str, folder: Path, seed: int) -> None:
    """Kill the example of a topic with ``stream`` again and again, and require that it writes each session once."""
    rng = random.Random(seed)
    for _ in range(KILLS):
        example.await_batches(rng.randint(1, 2))
        time.sleep(rng.random())  # anywhere in a batch
        example.kill()
        example.start()
    true = Counter(sessions(stream(), GAP))
    assert len(true) > 1_000, "a stream without sessions would prove nothing"
    days = iter(range(10, 10_000))

    def closed() -> bool:
        """Later messages move the clock, until all sessions are over."""
        publish(connection, topic, 2, values([("end", BEGIN + timedelta(days=next(days)))]))
        return example.is_running() and rows(folder).total() >= true.total()

    awaited(closed, "the end of all sessions", every=1.0)
    example.kill()
    assert rows(folder) == true
