"""CLUSTER mode on a real Spark standalone cluster of two workers, and an executor that dies."""

import os
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.process import broker, check, launch, truth, wait_for_progress  # noqa: F401  fixtures
from unskew.deploy.servers.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2, cores=2) as started:
        yield started


@pytest.fixture
def options(cluster: Cluster, tmp_path: Path) -> list[str]:
    """The executors' Python has the libraries but not this project: what they run was shipped to them."""
    python = tmp_path / "python"
    libraries = sysconfig.get_paths()["purelib"]
    # -S: the files that put an editable checkout on the path are not read
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    settings = cluster.conf | {"spark.pyspark.python": str(python), "spark.pyspark.driver.python": sys.executable}
    return ["--master", cluster.master, *(f"--conf={key}={value}" for key, value in settings.items())]


@pytest.mark.parametrize(
    ("grouping", "short"), [("SHUFFLE", "sg"), ("KEY", "kg"), ("PARTIAL_KEY", "pkg"), ("DYNAMIC_KEY", "dkg")]
)
def test_counts_are_exact(broker, topic, truth, launch, options, grouping, short):
    launch(grouping, *options, "--max-tuples", "30000", mode="CLUSTER").finish()
    check(broker, topic, short, truth)


def test_an_executor_is_killed(broker, topic, tmp_path, truth, launch, options, cluster):
    topology = launch("PARTIAL_KEY", *options, mode="CLUSTER")
    for _ in range(2):
        wait_for_progress(topology, tmp_path, 2)
        os.kill(cluster.executors()[0], signal.SIGKILL)
    topology.finish()
    check(broker, topic, "pkg", truth)
