"""`deploy/compose.yaml` and the `Dockerfile`, as far as they can be tried without a Docker engine.

The reference implementation of the compose format reads the file; its settings of Kafka, InfluxDB and the application
are tried on the real programs.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import UNSKEW
from unskew.deploy.client.connection import Connection
from unskew.deploy.client.topics import topics
from unskew.deploy.installation.programs import REQUIRED
from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.ports import free_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
READER = "github.com/compose-spec/compose-go/v2/cmd@v2.9.1"


@pytest.fixture(scope="session")
def services():
    """The stack's services with all variables at their defaults."""
    if shutil.which("go") is None:
        (pytest.fail if REQUIRED else pytest.skip)("no Go to run the reader of compose files")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STACK_")}
    command = ["go", "run", READER, "-format", "json", "compose.yaml"]
    done = subprocess.run(command, cwd=DEPLOY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["services"]


def test_versions_are_pinned_and_are_those_that_the_tests_run(services):
    images = {name: service["image"] for name, service in services.items() if "build" not in service}
    assert set(images) == {"kafka", "influxdb", "prometheus", "grafana"}
    assert all(re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", image) for image in images.values())
    kafka = re.search(r'name="kafka_2.13" rev="(\S+)"', (DEPLOY / "installation" / "ivy.xml").read_text())
    influxdb = re.search(r"influxdb/v2 v(\S+)", (DEPLOY / "installation" / "programs" / "go.mod").read_text())
    assert images["kafka"] == f"apache/kafka:{kafka and kafka[1]}"
    assert images["influxdb"] == f"influxdb:{influxdb and influxdb[1]}"


def test_every_service_tells_its_health_and_waits_for_what_it_needs(services):
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["profiles"], name
        for needed, how in service.get("depends_on", {}).items():
            # A service of another part may be left out.
            assert how["required"] == (services[needed]["profiles"] == service["profiles"]) or needed == "producer"
    assert services["topology"]["depends_on"]["kafka"]["condition"] == "service_healthy"


def test_nothing_listens_beyond_this_machine(services):
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published
    assert {port["host_ip"] for port in published} == {"127.0.0.1"}


def test_what_is_mounted_is_there(services):
    mounted = {
        volume["target"]: Path(volume["source"])
        for service in services.values()
        for volume in service.get("volumes", [])
        if volume["type"] == "bind"
    }
    assert all(path.exists() for path in mounted.values()), mounted
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    dashboards = "/var/lib/unskew/dashboards"
    assert (mounted[dashboards] / Path(home).relative_to(dashboards)).is_file()
    provider = (mounted["/etc/grafana/provisioning/dashboards"] / "unskew.yaml").read_text()
    assert f"path: {dashboards}\n" in provider


def test_the_data_sources_have_the_uids_and_variables_that_are_meant(services):
    from unskew.dashboards.grafana.sources import SOURCES

    text = (ROOT / "dashboards" / "provisioning" / "datasources" / "unskew.yaml").read_text()
    assert set(re.findall(r"uid: (\S+)", text)) == {uid for _, uid in SOURCES.values()}
    assert set(re.findall(r": \$(\w+)$", text, re.MULTILINE)) <= set(services["grafana"]["environment"])


@pytest.fixture
def kafka_as_composed(services, tmp_path):
    """The embedded broker, of the image's version, with the image's settings: all but addresses and directories."""
    settings = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in services["kafka"]["environment"].items()
    }
    addresses = (settings.pop("listeners"), settings.pop("advertised.listeners"))
    assert [re.findall(r"(\w+)://", listeners) for listeners in addresses] == [
        ["DOCKER", "CONTROLLER", "HOST"],
        ["DOCKER", "HOST"],
    ]
    for ours in ("controller.quorum.voters", "log.dirs"):
        assert settings.pop(ours)
    own = settings["listener.security.protocol.map"] + ",PLAINTEXT:PLAINTEXT"
    docker, outside = free_port(), free_port()
    more = {
        "listener.security.protocol.map": own,
        "listeners": f"DOCKER://127.0.0.1:{docker},HOST://127.0.0.1:{outside}",
    }
    with Broker(tmp_path / "kafka", properties={**settings, **more}):
        yield [f"127.0.0.1:{port}" for port in (docker, outside)]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_producer_and_topology_run_as_composed(services, kafka_as_composed, tmp_path):
    inside, outside = kafka_as_composed
    port = str(free_port())

    def composed(text: str) -> str:
        return text.replace("/data/", f"{tmp_path}/").replace("9464", port)

    def unskew(service: str) -> subprocess.Popen[bytes]:
        arguments = shlex.split(composed(services[service]["command"]))
        environment = {**services[service]["environment"], "KAFKA_BOOTSTRAP_SERVERS": inside, "INFLUXDB_V2_URL": ""}
        return subprocess.Popen([*UNSKEW, *arguments], env={**os.environ, **environment}, cwd=ROOT)

    def await_health(service: str, process: subprocess.Popen[bytes]) -> None:
        _, _, *check = map(composed, services[service]["healthcheck"]["test"])
        environment = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": inside}
        deadline = time.monotonic() + 300
        while subprocess.run([sys.executable, *check], env=environment, capture_output=True, check=False).returncode:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(1)

    running = []
    try:
        for service in ("producer", "topology"):
            running.append(unskew(service))
            await_health(service, running[-1])
        deadline = time.monotonic() + 300
        while not any(name.endswith("-distribution") for name in topics(Connection(outside))):
            assert running[-1].poll() is None
            assert time.monotonic() < deadline
            time.sleep(1)
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(120)


def test_the_image_has_what_its_steps_need(tmp_path):
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    let_through = re.findall(r"^!(.+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source.split("/")[0] in let_through, source
            if source.startswith("deploy/"):  # the files of the step that fetches the jars
                (tmp_path / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, tmp_path / target)
            elif source == "src":
                shutil.copytree(ROOT / source, tmp_path / target, symlinks=True)
    code = "from unskew.deploy.installation import jars; print(jars.__file__); jars.ivy_settings; jars._ivy()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath, "PYTHONPATH": "src"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def test_the_image_has_what_its_command_needs(tmp_path):
    for source in re.findall(r"^COPY (\S+) \1$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        shutil.copytree(ROOT / source, tmp_path / source, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for given, code, said in (
        (["topology", "--help"], 0, "--checkpoint"),
        (["check-work", "unskew.works:Running", "--cases", "1"], 0, "no failure in 1 cases"),
        (["reproduce"], 1, "in the project's repository"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from unskew.command import main; main()", *given],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env=os.environ | {"PYTHONPATH": "src", "UNSKEW_HOME": str(tmp_path / "home")},
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr
