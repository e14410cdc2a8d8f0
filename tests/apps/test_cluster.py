"""CLUSTER mode on a real Spark standalone cluster of two workers, and executors that die."""

import os
import random
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apps.process import check, launch, truth  # noqa: F401  fixtures
from tests.commands import UNSKEW
from tests.conftest import SHORT_LIVED
from unskew.deploy.client.topics import ensure_topic
from unskew.deploy.servers.cluster import Cluster

KILLS = 20

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="session")
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
    settings = cluster.conf | {
        "spark.pyspark.python": str(python),
        "spark.pyspark.driver.python": sys.executable,
        "spark.executor.extraJavaOptions": f"{SHORT_LIVED} {cluster.conf['spark.executor.extraJavaOptions']}",
    }
    return ["--master", cluster.master, *(f"--conf={key}={value}" for key, value in settings.items())]


def test_a_checkpoint_that_only_the_driver_sees(connection, topic, tmp_path, options):
    ensure_topic(connection, topic, 2)
    own = "/proc/self/cwd/checkpoint"  # for each process another folder
    done = subprocess.run(
        [*UNSKEW, "topology", "CLUSTER", "COUNTRY_SKEW_R80", "KEY", topic, "2", "4", "x0", "--checkpoint", own,
         "--bootstrap-servers", connection.bootstrap_servers, *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert f"the checkpoint {own} is not seen by executors on" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


@pytest.mark.timeout(1800)
def test_executors_are_killed_at_any_moment(connection, topic, tmp_path, truth, launch, options, cluster):
    # Round robin: a source that forgot its turn would send nearly all its tuples elsewhere.
    topology = launch("SHUFFLE", *options, "--max-tuples", "200", mode="CLUSTER")
    rng = random.Random(10)
    hit: set[int] = set()
    while topology.process.poll() is None and len(hit) < KILLS:
        time.sleep(rng.random())
        running = cluster.executors()
        planned = [int(file.name) for file in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")]
        batch = max(planned, default=0)
        # The other executor still has its half of what was shuffled.
        if len(running) == 2 and batch and batch not in hit:
            os.kill(rng.choice(running), signal.SIGKILL)
            hit.add(batch)
    assert len(hit) == KILLS, topology.output.read_text()
    topology.process.send_signal(signal.SIGTERM)  # the rest in larger batches
    assert topology.process.wait(300) == 0
    launch("SHUFFLE", *options, mode="CLUSTER").finish()
    check(connection, topic, "sg", truth)
