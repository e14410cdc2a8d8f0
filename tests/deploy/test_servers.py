"""InfluxDB's program is made once beside the tests of several processes; Go and cargo are stand-ins here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.test_programs import CARGO, GO, tools  # noqa: F401

ROOT = Path(__file__).parents[2]
PROJECT = {
    "pytest.ini": "[pytest]\nmarkers = slow\n",
    "conftest.py": """
import pytest
from unskew.errors import EnvironmentFault
from tests.servers import influxd_waited_for

pytest_plugins = ["tests.servers"]

@pytest.fixture(scope="session")
def influxd_program(pytestconfig):
    try:
        return influxd_waited_for(pytestconfig)
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
""",
    "test_needs.py": """
import pytest

@pytest.mark.parametrize("_", range(4))
def test_needs(_, influxd_program):
    assert influxd_program.read_text() == "built\\n"

def test_needs_nothing():
    pass
""",
}


@pytest.fixture
def run(tools, tmp_path):
    """Runs the project's tests with pytest's arguments; what it says, and what Go and cargo were asked."""
    for name, content in PROJECT.items():
        (tmp_path / name).write_text(content)
    for name, script in {"go": GO, "cargo": CARGO, "cc": "exit 0", "prometheus": "", "promtool": ""}.items():
        tools(name, script)

    def pytest_says(*arguments: str) -> tuple[str, list[str]]:
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "xdist.plugin", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        runs = tmp_path / "runs"
        return done.stdout + done.stderr, runs.read_text().splitlines() if runs.exists() else []

    return pytest_says


@pytest.mark.parametrize("processes", [["-n", "2"], []])
def test_it_is_made_once_and_waited_for(run, processes):
    said, asked = run(*processes)
    assert "5 passed" in said
    assert said.count("InfluxDB is got beside the tests") == 1
    assert asked.count("go build") == 1


def test_what_fails_is_told_and_not_tried_by_every_process(run, tools, tmp_path):
    # It takes a moment, as in truth, so that the second process comes while it is under way.
    tools("cargo", 'echo cargo >> "$TMPDIR/runs"; sleep 3; echo "error: no space left"; exit 1')
    said, asked = run("-n", "2")
    assert "1 passed, 4 skipped" in said
    assert "cannot build InfluxDB: error: no space left" in said
    assert asked.count("cargo") == 1


def test_fast_tests_do_not_wait_for_it(run):
    said, asked = run("-m", "not slow")
    assert "1 passed, 4 deselected" in said
    assert asked == []
