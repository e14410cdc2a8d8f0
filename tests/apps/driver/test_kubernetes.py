"""How a driver ends that was started as a container's: its signals, its exit code, and its next attempt."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.containers import ENTRYPOINT, PATHS, RUNNER
from tests.harness.topology import Topology, check, launch, truth  # noqa: F401  fixtures
from tests.waiting import PATIENCE
from unskew.apps.checkpoint.folders import list_numbers
from unskew.apps.checkpoint.location import Location
from unskew.loopback import LOOPBACK

pytestmark = [pytest.mark.nightly(group="clusters"), pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]

MANIFESTS = Path(__file__).parents[3] / "deploy" / "kubernetes"
#: After so many seconds Kubernetes kills a driver that was asked to end.
GRACE = min(
    int(seconds)
    for name in ("apache", "kubeflow")
    for seconds in re.findall(r"terminationGracePeriodSeconds: (\d+)", (MANIFESTS / f"{name}.yaml").read_text())
)

#: A work that counts, as the default does, and that fails as long as a file is there.
WORK = """
from pathlib import Path
import pyarrow as pa

def count(batch):
    if Path({trouble!r}).exists():
        raise KeyError("still there")
    return pa.record_batch([batch.column("key"), pa.array([1] * batch.num_rows)], ["key", "count"])
"""


@pytest.fixture
def driver(launch, tmp_path) -> Callable[..., Topology]:
    """Starts a topology as a driver's container does, which has a Spark of its own here."""
    program, properties = tmp_path / "main.py", tmp_path / "spark.properties"
    program.write_text("from unskew.command import main\nmain()\n")
    properties.write_text("spark.submit.deployMode=cluster\nspark.app.id=unskew-0\n")  # as Spark's client writes them

    def start(*more: str) -> Topology:
        return launch(
            *("KEY", *more),
            command=[*ENTRYPOINT, "driver", "--properties-file", str(properties), *RUNNER, f"local://{program}"],
            environment={"SPARK_DRIVER_BIND_ADDRESS": LOOPBACK, "PYTHONPATH": os.pathsep.join([PATHS, str(tmp_path)])},
        )

    return start


@pytest.mark.takes(40)
def test_a_driver_that_is_asked_to_end_commits_its_batch(connection, topic, truth, driver):
    """As an operator ends it: SIGTERM to the process of its container, and no more time than the manifests give it."""
    topology = driver()
    topology.await_batches(2)
    topology.process.send_signal(signal.SIGTERM)
    assert topology.process.wait(GRACE) == 0, topology.output()
    output = topology.ended_with(0)
    stopped = re.search(r"stopped after (\d+) batches; start it again, and it goes on from its checkpoint\.", output)
    assert stopped is not None, output
    assert int(stopped[1]) <= max(list_numbers(Location(str(topology.checkpoint)).folder("commits"))) + 1
    topology.start()
    assert topology.process.wait(PATIENCE) == 0, topology.output()
    check(connection, topic, "kg", truth)


@pytest.mark.takes(40)
def test_a_query_that_fails_ends_the_driver_with_an_error_and_the_next_attempt_goes_on(
    connection, topic, truth, tmp_path, driver
):
    trouble = tmp_path / "trouble"
    trouble.touch()
    (tmp_path / "troubled.py").write_text(WORK.format(trouble=str(trouble)))
    topology = driver("--work", "troubled:count")
    assert topology.process.wait(PATIENCE) == 1, topology.output()
    said = " ".join(topology.output().split())
    assert "KeyError: 'still there'); nothing is lost: mend it and start again" in said
    trouble.unlink()
    topology.start()
    assert topology.process.wait(PATIENCE) == 0, topology.output()
    check(connection, topic, "kg", truth)
