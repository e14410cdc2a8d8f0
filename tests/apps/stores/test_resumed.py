"""A run with its checkpoint on S3, HDFS, Azure's or Google's store is killed and goes on: the counts are exact."""

import os
import subprocess

import pytest

from tests.apps.stateful.sessions import ALWAYS, SESSIONS, require_exact
from tests.commands import UNSKEW
from tests.harness.topology import launch, truth  # noqa: F401  fixtures
from tests.tiers import nightly
from tests.waiting import PATIENCE
from unskew.apps.checkpoint.plan_states import PlanStateLog
from unskew.directories import data_directory

pytestmark = [
    pytest.mark.ci,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("cluster"),
]


@pytest.mark.takes(50)
@pytest.mark.parametrize("store", ["s3", *nightly("clusters", "hdfs", "gs", "azure")])
def test_states_that_move(connection, topic, truth, launch, request, store):
    """Plans, states on their way and Spark's own states are there too; `unskew state` reads them."""
    server = request.getfixturevalue(store)
    location, environment = server.location(topic), server.environment
    settings = [word for each in server.settings.items() for word in ("--conf", "spark.hadoop.{}={}".format(*each))]
    topology = launch("MIXED", *SESSIONS, *ALWAYS, *settings, location=location, environment=environment)
    topology.await_batches(3)
    seen = topology.command_lines()
    topology.kill()
    topology.start()
    topology.await_end()
    require_exact(connection, topic, truth)
    assert PlanStateLog(location).newest().active.number > 1, "a run in which no keys move would prove nothing"

    if store != "azure":  # of Azurite's blobs Hadoop's client lists each folder twice, which Spark's reader refuses
        command = [*UNSKEW, "state", str(location), *settings]
        shown = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert shown.returncode == 0, shown.stderr
        assert "states of Sessions" in shown.stdout

    secret = getattr(server, "secret", None)
    if secret:
        assert any("SparkSubmit" in line for line in seen)
        logs = [topology.log, *data_directory().glob(f"logs/spark-{topology.process.pid}.log")]
        assert len(logs) == 2
        assert not any(secret in text for text in [*seen, *(log.read_text() for log in logs)])
        files = dict(server.files(topic))
        assert any("/unskew/run.json" in path for path in files)
        assert any("/offsets/" in path for path in files)
        assert not any(secret.encode() in content for content in files.values())
