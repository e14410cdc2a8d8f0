"""A query with `kafka_sink` as a process of its own: whatever is killed, a plain consumer sees each record once."""

import random
import sys
from collections import Counter

import pytest

from tests.apps.conftest import publish
from tests.apps.library import sink_query
from tests.commands import with_spark
from tests.harness.query import KilledQuery
from tests.waiting import awaited
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets, ensure_topic

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]


@pytest.fixture
def query(connection, topic, tmp_path, seed):
    command = [sys.executable, "-P", sink_query.__file__, connection.bootstrap_servers, topic, f"{topic}-out", tmp_path]
    made = KilledQuery(command, tmp_path, with_spark(), random.Random(seed))
    yield made
    made.kill()


@pytest.mark.parametrize(
    ("harms", "batches"),  # of which each harm uses up nine at most
    [
        pytest.param([KilledQuery.loses_tasks, KilledQuery.dies], 24, id="once", marks=pytest.mark.takes(50)),
        pytest.param(
            [KilledQuery.dies, KilledQuery.is_killed, KilledQuery.loses_tasks] * 2,
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
    query.start(query.NEVER)

    def read() -> Counter[bytes]:
        """As a consumer reads it that knows nothing of us."""
        with TopicReader(connection, to) as reader:
            return Counter(message.value() or b"" for message in reader.to_end())

    awaited(lambda: query.is_running() and len(read()) == len(sent), "all records", every=1.0)
    query.kill()
    assert read() == Counter(sent)
    ends = [end_offsets(connection, to, committed=committed) for committed in (True, False)]
    assert ends[0] == ends[1], "a transaction is open"
