"""A query with `kafka_sink` as a process of its own: whatever is killed, a plain consumer sees each record once."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.apps import sink_query
from tests.apps.conftest import publish
from tests.apps.process import parent
from tests.waiting import PATIENCE, awaited
from tests.wheel.installed import kill_tree
from unskew.apps.checkpoint.folders import numbers
from unskew.apps.checkpoint.location import Location
from unskew.deploy.installation.machine import find_java
from unskew.deploy.kafka.reader import TopicReader
from unskew.deploy.kafka.topics import end_offsets, ensure_topic

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]

RECORDS, KILLS = 32_000, 2  # 80 batches, of which the kills (so many of each kind) use up 50 at most


class Query:
    """The program, which is started again and again on one checkpoint."""

    def __init__(self, servers: str, source: str, to: str, folder: Path, rng: random.Random) -> None:
        self.rng = rng
        self.log, self._commits = folder / "query.log", Location(str(folder / "checkpoint")).folder("commits")
        self._command = [sys.executable, "-P", sink_query.__file__, servers, source, to, str(folder)]

    def start(self, last: int = -1) -> None:
        """Start it; with a number it dies between that batch and Spark's note of it."""
        environment = os.environ | {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
        with self.log.open("ab") as log:
            output = {"stdout": log, "stderr": log, "start_new_session": True}
            command = [*self._command, str(last)]
            self.process = subprocess.Popen(command, cwd=self.log.parent, env=environment, **output)

    def committed(self) -> int:
        """The number of the newest batch that Spark has noted as done."""
        return max(numbers(self._commits), default=-1)

    def lives(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3_000:]
        return True

    def goes_on(self, batches: int) -> None:
        """Wait until so many more batches are done, and then for a moment, which ends anywhere in the next batch."""
        before = self.committed()
        awaited(lambda: self.lives() and self.committed() >= before + batches, f"{batches} batches", every=0.02)
        end = time.monotonic() + self.rng.random()
        while time.monotonic() < end and self.committed() <= before + batches:
            time.sleep(0.02)

    def dies(self) -> None:
        """It is started, and dies between a batch and Spark's note of it."""
        last = self.committed() + self.rng.randint(1, 3)
        self.start(last)
        self.process.wait(PATIENCE)
        assert self.committed() == last - 1, self.log.read_text()[-3_000:]

    def is_killed(self) -> None:
        """It is started, and killed anywhere in a batch."""
        self.start()
        self.goes_on(self.rng.randint(1, 2))
        kill_tree(self.process)

    def loses_tasks(self) -> None:
        """It is started, and its Python workers are killed. Then it is killed, too."""
        self.start()
        for _ in range(3):
            self.goes_on(1)
            for worker in awaited(self._workers, "a Python worker")[:2]:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
        self.goes_on(1)
        kill_tree(self.process)

    def _workers(self) -> list[psutil.Process]:
        family = psutil.Process(self.process.pid).children(recursive=True)
        daemons = [each for each in family if "pyspark.daemon" in command(each)]
        return [each for each in daemons if parent(each.pid) in {daemon.pid for daemon in daemons}]


def command(process: psutil.Process) -> list[str]:
    """The command line of a process, which may have ended."""
    with suppress(psutil.Error):
        return process.cmdline()
    return []


@pytest.fixture
def query(connection, topic, tmp_path, seed):
    made = Query(connection.bootstrap_servers, topic, f"{topic}-out", tmp_path, random.Random(seed))
    yield made
    if made.process.poll() is None:
        kill_tree(made.process)


@pytest.mark.takes(150)
def test_each_record_is_there_once_whatever_is_killed(query, connection, topic):
    sent = [str(n).encode() for n in range(RECORDS)]
    publish(connection, topic, 2, [*sent])
    to = f"{topic}-out"
    ensure_topic(connection, to, 3)
    harms = [query.dies, query.is_killed, query.loses_tasks] * KILLS
    for harm in query.rng.sample(harms, len(harms)):
        harm()
    query.start()

    def read() -> Counter[bytes]:
        """As a consumer reads it that knows nothing of us."""
        with TopicReader(connection, to) as reader:
            return Counter(message.value() or b"" for message in reader.to_end())

    awaited(lambda: query.lives() and len(read()) == RECORDS, "all records", every=1.0)
    kill_tree(query.process)
    assert read() == Counter(sent)
    ends = [end_offsets(connection, to, committed=committed) for committed in (True, False)]
    assert ends[0] == ends[1], "a transaction is open"
