"""`deploy/compose.yaml` and the `Dockerfile`, as far as they can be tried without a Docker engine.

The reference implementation of the compose format reads the file. `test_composed.py` runs its services.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.deploy.composed import DEPLOY, ROOT
from unskew.apps.monitoring import catalogue
from unskew.apps.monitoring.catalogue import Sample
from unskew.apps.monitoring.outputs import Exporter


@pytest.mark.programs
def test_versions_are_pinned_and_are_those_that_the_tests_run(services):
    images = {name: service["image"] for name, service in services.items() if "build" not in service}
    assert set(images) == {"kafka", "influxdb", "prometheus", "grafana"}
    assert all(re.fullmatch(r"[\w/-]+:v?\d+\.\d+\.\d+", image) for image in images.values())
    kafka = re.search(r'name="kafka_2.13" rev="(\S+)"', (DEPLOY / "installation" / "ivy.xml").read_text())
    influxdb = re.search(r"influxdb/v2 v(\S+)", (ROOT / "tests" / "programs" / "go.mod").read_text())
    assert images["kafka"] == f"apache/kafka:{kafka and kafka[1]}"
    assert images["influxdb"] == f"influxdb:{influxdb and influxdb[1]}"


@pytest.mark.programs
def test_every_service_tells_its_health_and_waits_for_what_it_needs(services):
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["profiles"], name
        for needed, how in service.get("depends_on", {}).items():
            # A service of another part may be left out.
            assert how["required"] == (services[needed]["profiles"] == service["profiles"]) or needed == "producer"
    assert services["topology"]["depends_on"]["kafka"]["condition"] == "service_healthy"


@pytest.mark.programs
def test_a_topology_without_progress_is_not_healthy(services):
    _, _, *check = services["topology"]["healthcheck"]["test"]
    run = dict.fromkeys(("run", "source_type", "grouping", "workers"), "7")
    with Exporter(0) as exporter:

        def healthy() -> bool:
            command = [sys.executable, *(part.replace("9464", str(exporter.port)) for part in check)]
            return not subprocess.run(command, capture_output=True, check=False).returncode

        exporter.write([Sample(catalogue.RUN, 0, {"tuples": 5})], run)
        assert not healthy(), "no batch yet"
        exporter.write([Sample(catalogue.QUERY, 0, {"batch": time.time()})], run)
        assert healthy()
        exporter.write([Sample(catalogue.QUERY, 0, {"batch": time.time() - 600})], run)
        assert not healthy(), "it hangs"
    assert not healthy(), "it has ended"


@pytest.mark.programs
def test_nothing_listens_beyond_this_machine(services):
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published
    assert {port["host_ip"] for port in published} == {"127.0.0.1"}


@pytest.mark.programs
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


@pytest.mark.programs
def test_the_data_sources_have_the_uids_and_variables_that_are_meant(services):
    from unskew.dashboards.grafana.page import DATA_SOURCES

    text = (ROOT / "dashboards" / "provisioning" / "datasources" / "unskew.yaml").read_text()
    assert set(re.findall(r"uid: (\S+)", text)) == {uid for _, uid in DATA_SOURCES.values()}
    assert set(re.findall(r": \$(\w+)$", text, re.MULTILINE)) <= set(services["grafana"]["environment"])


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


def test_the_images_packages_are_held_by_hash():
    installs = re.findall(r"pip install (.+)", (DEPLOY / "Dockerfile").read_text())
    assert all("--require-hashes" in each or "--no-deps --no-build-isolation" in each for each in installs)
    assert len(installs) == 3

    def packages(lock: Path) -> dict[str, str]:
        found = re.findall(r"^[a-z].*(?:\n    .*)*", lock.read_text(), re.MULTILINE)
        return {package.split("==")[0]: package for package in found}

    pins, of_the_image = packages(ROOT / "requirements.lock"), packages(DEPLOY / "requirements.lock")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = map(Requirement, [*project["dependencies"], *extras["spark"], *extras["app"], "setuptools"])
    assert {each.name for each in wanted} - {"unskew"} <= of_the_image.keys()
    for name, package in of_the_image.items():
        assert "--hash=sha256:" in package
        if name in pins:
            assert re.findall(r"==\S+|sha256:\S+", package) == re.findall(r"==\S+|sha256:\S+", pins[name])


def test_the_image_has_what_its_command_needs(tmp_path):
    for source in re.findall(r"^COPY (\S+) \1$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        shutil.copytree(ROOT / source, tmp_path / source, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for given, code, message in (
        (["topology", "--help"], 0, "--checkpoint"),
        (["check-work", "unskew.works:Running", "--cases", "1"], 0, "no failure in 1 cases"),
        (["reproduce"], 1, "in the project's repository"),
    ):
        command = [sys.executable, "-c", "from unskew.command import main; main()", *given]
        own = os.environ | {"PYTHONPATH": "src", "UNSKEW_HOME": str(tmp_path / "home")}
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=own)
        assert done.returncode == code, done.stderr
        assert message in done.stdout + done.stderr
