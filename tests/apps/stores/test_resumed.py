"""A run whose checkpoint lies on S3 or HDFS is killed and goes on: the counts are exact."""

import os
import statistics
import subprocess
from collections import Counter
from itertools import pairwise

import pytest

from tests.apps.conftest import records
from tests.apps.keyed.test_keyed_kills import ALWAYS, SESSIONS, read_sessions, sessions_of
from tests.apps.process import check, launch, stream, truth  # noqa: F401  fixtures
from tests.apps.stores.servers import BUCKET, by_method
from tests.commands import UNSKEW
from unskew.apps.feedback.plans import Plans
from unskew.deploy.home import home

# With two sources and four partitions of the state; 48 to 59 were counted, but for a batch with which a query begins.
MOST_REQUESTS = 90

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]


def test_on_s3(connection, topic, truth, launch, s3, capsys):
    place = s3.place(topic)
    topology = launch("PARTIAL_KEY", "--state-partitions", "4", place=place, environment=s3.environment)
    topology.goes_on(2)
    seen = topology.command_lines()
    assert any("SparkSubmit" in line for line in seen)
    assert not any(s3.secret in line for line in seen)
    topology.kill()
    before = len(s3.requests())
    topology.start()
    topology.finish()
    check(connection, topic, "pkg", truth)

    requests = s3.requests()[before:]
    committed = [n for n, (how, what) in enumerate(requests) if how == "PUT" and f"{topic}/commits/" in what]
    batches = [requests[start:end] for start, end in pairwise(committed)]
    assert len(batches) >= 3
    usual = statistics.median(map(len, batches))
    with capsys.disabled():
        print(f"\nS3: requests a batch {[len(batch) for batch in batches]}, the last: {by_method(batches[-1])}")
    assert usual <= MOST_REQUESTS

    logs = [topology.output, *home().glob(f"logs/spark-{topology.process.pid}.log")]
    assert len(logs) == 2
    assert not any(s3.secret in log.read_text() for log in logs)
    assert not any(s3.secret.encode() in each for each in objects(s3, topic))


def objects(s3, folder):
    from pyarrow import fs

    files = s3.files()
    found = files.get_file_info(fs.FileSelector(f"{BUCKET}/{folder}", recursive=True))
    paths = [each.path for each in found if each.type == fs.FileType.File]
    assert any("/unskew/run.json" in path for path in paths)
    assert any("/offsets/" in path for path in paths)
    for path in paths:
        with files.open_input_stream(path) as stream:
            yield stream.read()


@pytest.mark.parametrize("store", ["s3", "hdfs"])
def test_states_that_move(connection, topic, truth, launch, request, store):
    """Plans, what workers hand each other, and Spark's own states lie there too; `unskew state` reads them."""
    server = request.getfixturevalue(store)
    place, environment = server.place(topic), server.environment
    topology = launch("MIXED", *SESSIONS, *ALWAYS, place=place, environment=environment)
    topology.goes_on(3)
    topology.kill()
    topology.start()
    topology.finish()
    check(connection, topic, "mixed", truth)
    told = Counter(read_sessions(dict(records(connection, f"{topic}-s2-w4-mixed-results")).values()))
    assert told == Counter(sessions_of(stream()))
    assert Plans(place).newest().active.number > 1, "a run in which no keys move would prove nothing"

    command = [*UNSKEW, "state", str(place)]
    shown = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert "states of Sessions" in shown.stdout
