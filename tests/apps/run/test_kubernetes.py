"""On Kubernetes as far as it goes without one: what Spark's own client asks an API server for, and a driver's end."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.containers import ENTRYPOINT, PATHS, RUNNER
from tests.harness.topology import Topology, check, launch, truth  # noqa: F401  fixtures
from tests.http import Request, serving
from tests.waiting import PATIENCE, awaited
from unskew.apps.checkpoint.folders import numbers
from unskew.apps.checkpoint.location import Location
from unskew.deploy.directories import data_directory
from unskew.deploy.kafka.topics import ensure_topic
from unskew.deploy.servers.loopback import LOOPBACK

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


class ApiServer(ThreadingHTTPServer):
    """Accepts what is posted, and has nothing."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((LOOPBACK, 0), _Request)
        self.posted: list[dict[str, Any]] = []


class _Request(Request):
    server: ApiServer

    def do_GET(self) -> None:
        self._answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posted.append(sent)
        self._answer(201, sent)

    def do_DELETE(self) -> None:
        self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.answer(status, json.dumps(body).encode(), ("Content-Type", "application/json"))


@pytest.fixture
def api_server() -> Iterator[ApiServer]:
    with serving(ApiServer()) as server:
        yield server


@pytest.mark.takes(20)
def test_executors_pods_have_no_path_of_the_drivers_machine(connection, topic, tmp_path, launch, api_server):
    ensure_topic(connection, topic, 2)
    conf = {
        "spark.kubernetes.container.image": "spark",
        "spark.kubernetes.executor.enableApiWatcher": "false",
        "spark.kubernetes.executor.apiPollingInterval": "1s",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
    }
    topology = launch(
        *("KEY", "--master", f"k8s://http://{LOOPBACK}:{api_server.server_port}"),
        *(f"--conf={name}={value}" for name, value in conf.items()),
        mode="CLUSTER",
    )

    def pod() -> dict[str, Any] | None:
        assert topology.process.poll() is None, topology.log.read_text()
        return next((each for each in api_server.posted if each["kind"] == "Pod"), None)

    asked = awaited(pod, "an executor's pod")
    (container,) = asked["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["PYTHONPATH"] == "unskew.zip"
    assert "PYSPARK_PYTHON" not in variables
    ours = [sys.prefix, sys.base_prefix, str(data_directory()), str(Path(__file__).parents[3]), str(tmp_path)]
    assert not [path for path in ours if path in json.dumps(asked)]


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
    output = topology.output()
    assert "Traceback" not in output
    stopped = re.search(r"stopped after (\d+) batches; start it again, and it goes on from its checkpoint\.", output)
    assert stopped is not None, output
    assert int(stopped[1]) <= max(numbers(Location(str(topology.checkpoint)).folder("commits"))) + 1
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
