"""`deploy/compose.yaml` and the image's packages beside the code that they must agree with.

compose-go checks the file itself (`test_lint.py`), and the image is built and run in `test_image.py`.
"""

import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.pages import PAGES, ROOT
from unskew.apps.metrics import catalogue
from unskew.apps.metrics.catalogue import Sample
from unskew.apps.metrics.outputs import Exporter
from unskew.deploy.servers import influxdb

DEPLOY = ROOT / "deploy"
TEXT = (DEPLOY / "compose.yaml").read_text()
SERVICES = yaml.safe_load(TEXT)["services"]


def test_versions_are_those_that_the_tests_run():
    kafka = re.search(r'name="kafka_2.13" rev="(\S+)"', (DEPLOY / "installation" / "ivy.xml").read_text())
    assert kafka
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{kafka[1]}"
    assert SERVICES["influxdb"]["image"] == f"influxdb:{influxdb.VERSION}"


def test_what_is_mounted_is_there():
    mounted = [volume.split(":")[0] for each in SERVICES.values() for volume in each.get("volumes", [])]
    assert [path for path in mounted if path[0] == "." and not (DEPLOY / path).exists()] == []


def test_every_variable_is_documented():
    documented = set(re.findall(r"`(STACK_\w+)`", PAGES["docs/deployment.md"].read_text()))
    assert set(re.findall(r"\$\{(STACK_\w+)", TEXT)) == documented


def test_the_data_sources_have_the_uids_and_variables_that_are_meant():
    page = pytest.importorskip("unskew.dashboards.grafana.page", exc_type=ImportError)
    text = (ROOT / "dashboards" / "provisioning" / "datasources" / "unskew.yaml").read_text()
    assert set(re.findall(r"uid: (\S+)", text)) == {uid for _, uid in page.DATA_SOURCES.values()}
    assert set(re.findall(r": \$(\w+)$", text, re.MULTILINE)) <= set(SERVICES["grafana"]["environment"])


def test_a_topology_without_progress_is_not_healthy():
    _, _, *check = SERVICES["topology"]["healthcheck"]["test"]
    run = dict.fromkeys(("run", "source_type", "grouping", "workers"), "7")
    with Exporter(0) as exporter:

        def healthy() -> bool:
            command = [sys.executable, *(part.replace("9464", str(exporter.port)).replace("$$", "$") for part in check)]
            return not subprocess.run(command, capture_output=True, check=False).returncode

        exporter.write([Sample(catalogue.RUN, 0, {"tuples": 5})], run)
        assert not healthy(), "no batch yet"
        exporter.write([Sample(catalogue.QUERY, 0, {"batch": time.time()})], run)
        assert healthy()
        exporter.write([Sample(catalogue.QUERY, 0, {"batch": time.time() - 600})], run)
        assert not healthy(), "it hangs"
    assert not healthy(), "it has ended"


def test_the_images_packages_are_those_of_a_setup():
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
