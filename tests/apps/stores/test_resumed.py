"""A run whose checkpoint lies on S3 or HDFS is killed and goes on: the counts are exact."""

import statistics
from itertools import pairwise

import pytest

from tests.apps.process import check, launch, truth  # noqa: F401  fixtures
from tests.apps.stores.servers import BUCKET, by_method
from unskew.apps.checkpoint.place import Place
from unskew.deploy.home import home

# With two sources and four partitions of the state; 48 to 59 were counted, but for a batch with which a query begins.
MOST_REQUESTS = 90

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]


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


def test_on_hdfs(connection, topic, truth, launch, hdfs):
    place: Place = hdfs.place(topic)
    topology = launch("PARTIAL_KEY", place=place)
    topology.goes_on(2)
    topology.kill()
    topology.start()
    topology.finish()
    check(connection, topic, "pkg", truth)
    assert {"offsets", "commits", "unskew"} <= set(place.folder().names())
