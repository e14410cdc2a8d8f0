"""CLUSTER with a checkpoint on S3: only the driver's environment has the keys, and executors get there."""

import pytest

from tests.apps.process import check, launch, truth  # noqa: F401  fixtures
from tests.apps.test_cluster import cluster, options  # noqa: F401  fixtures

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]


def test_executors_get_there(connection, topic, truth, launch, options, cluster, s3):
    place = s3.place(topic)
    topology = launch("PARTIAL_KEY", *options, mode="CLUSTER", place=place, environment=s3.environment)
    topology.finish()
    check(connection, topic, "pkg", truth)
    assert sorted(place.folder("unskew", "sources").names()) == ["0", "1"]
    logs = [topology.output, *cluster.directory.rglob("*.log"), *cluster.directory.rglob("stderr")]
    assert len(logs) >= 6  # of the driver, the master, two workers and their executors
    assert not any(s3.secret in log.read_text(errors="replace") for log in logs)
