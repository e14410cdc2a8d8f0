"""A query with `kafka_sink` as a process of its own: whatever is killed, a plain consumer sees each record once."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.apps.conftest import publish
from tests.apps.library import sink_query
from tests.commands import with_spark
from tests.harness.query import QueryProcess
from tests.waiting import PATIENCE, awaited
from unskew.apps.checkpoint.location import Location
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets, ensure_topic

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]

NEVER = "-1"  # the batch before whose commit the program dies


class Query(QueryProcess):
    """The program, which is started again and again on one checkpoint."""

    def __init__(self, servers: str, source: str, to: str, folder: Path, rng: random.Random) -> None:
        self.rng = rng
        command = [sys.executable, "-P", sink_query.__file__, servers, source, to, str(folder)]
        super().__init__(command, folder / "query.log", Location(str(folder / "checkpoint")), with_spark(), folder)

    def await_batches(self, batches: int, longer: float | None = None) -> None:
        """Wait until so many more batches are done, and then for a moment, which ends anywhere in the next batch."""
        super().await_batches(batches, self.rng.random() if longer is None else longer)

    def dies(self) -> None:
        """It is started, and dies between a batch and Spark's note of it."""
        last = self.committed() + self.rng.randint(1, 3)
        self.start(str(last))
        self.process.wait(PATIENCE)
        assert self.committed() == last - 1, self.output()[-3_000:]

    def is_killed(self) -> None:
        """It is started, and killed anywhere in a batch."""
        self.start(NEVER)
        self.await_batches(self.rng.randint(1, 2))
        self.kill()

    def loses_tasks(self) -> None:
        """It is started, and its Python workers are killed. Then it is killed, too."""
        self.start(NEVER)
        for _ in range(3):
            self.await_batches(1)
            self.kill_python_workers(2)
        self.await_batches(1)
        self.kill()


@pytest.fixture
def query(connection, topic, tmp_path, seed):
    made = Query(connection.bootstrap_servers, topic, f"{topic}-out", tmp_path, random.Random(seed))
    yield made
    made.kill()


@pytest.mark.parametrize(
    ("harms", "batches"),  # of which each harm uses up nine at most
    [
        pytest.param([Query.loses_tasks, Query.dies], 24, id="once", marks=pytest.mark.takes(50)),
        pytest.param(
            [Query.dies, Query.is_killed, Query.loses_tasks] * 2,
            80,
            id="again",
            marks=[pytest.mark.takes(150), pytest.mark.nightly(group="kills")],
        ),
    ],
)
def test_each_record_is_there_once_whatever_is_killed(query, connection, topic, harms, batches):
    sent = [str(n).encode() for n in range(batches * sink_query.BATCH)]
    publish(connection, topic, 2, [*sent])
    to = f"{topic}-out"
    ensure_topic(connection, to, 3)
    for harm in query.rng.sample(harms, len(harms)):
        harm(query)
    query.start(NEVER)

    def read() -> Counter[bytes]:
        """As a consumer reads it that knows nothing of us."""
        with TopicReader(connection, to) as reader:
            return Counter(message.value() or b"" for message in reader.to_end())

    awaited(lambda: query.is_running() and len(read()) == len(sent), "all records", every=1.0)
    query.kill()
    assert read() == Counter(sent)
    ends = [end_offsets(connection, to, committed=committed) for committed in (True, False)]
    assert ends[0] == ends[1], "a transaction is open"
