"""How tests are spread over processes, and what becomes of those that lack a server's program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.stand_ins import CARGO, GO, SAYS_VERSION, tools  # noqa: F401
from tests.schedule import processes, spread

ROOT = Path(__file__).parents[1]
PROJECT = {
    "pytest.ini": """
[pytest]
markers =
    slow
    spark
    kafka
    programs
    takes(seconds)
addopts = --strict-markers -p xdist.plugin -p tests.schedule
""",
    "conftest.py": "from tests.monitoring.conftest import influxd_program",
    "test_needs.py": """
import pytest

@pytest.mark.parametrize("_", range(4))
def test_needs(_, influxd_program):
    assert influxd_program.is_file()

def test_needs_nothing():
    pass
""",
}
GROUPED = """
import os
import pytest

@pytest.mark.xdist_group("{group}")
@pytest.mark.takes({seconds})
@pytest.mark.parametrize("_", range(3))
def test_of_a_group(_, pytestconfig):
    with open("ran", "a") as file:
        print("{group}", os.environ["PYTEST_XDIST_WORKER"], file=file)
"""


@pytest.mark.parametrize(
    ("cores", "memory", "expected"),
    [(1, None, 1), (2, 24, 3), (4, 24, 6), (16, 12, 4), (2, 1.5, 1), (0.5, None, 1), (3, 100, 4)],
)
def test_as_many_processes_as_cores_and_memory_allow(cores, memory, expected):
    assert processes(cores, memory) == expected


@pytest.fixture
def run(tools, tmp_path):
    """Runs the project's tests with pytest's arguments; its output, and the steps of a build that were run."""
    for name, content in PROJECT.items():
        (tmp_path / name).write_text(content)
    for name, script in {"go": GO, "cargo": CARGO, "cc": "exit 0", "prometheus": "", "promtool": ""}.items():
        tools(name, script)

    def pytest_run(*arguments: str, **environment: str) -> tuple[str, list[str]]:
        command = [sys.executable, "-m", "pytest", "-q", "-rs", *arguments]
        own = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "UNSKEW_REQUIRE_SERVERS": ""}
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | own | environment, capture_output=True, text=True, check=False
        )
        runs = tmp_path / "runs"
        return done.stdout + done.stderr, runs.read_text().splitlines() if runs.exists() else []

    return pytest_run


@pytest.mark.parametrize(("required", "outcome"), [("", "1 passed, 4 skipped"), ("1", "1 passed, 4 errors")])
def test_without_a_program_its_tests_say_how_to_get_it(run, required, outcome):
    """They are skipped, or fail where programs are required."""
    output, steps = run(UNSKEW_REQUIRE_SERVERS=required)
    assert outcome in output
    assert "InfluxDB is not on this machine" in output
    assert "`make servers` makes one" in output
    assert steps == [], "nothing is built for tests"


def test_what_make_servers_has_got_is_found(run):
    command = [sys.executable, "-m", "tests.programs"]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"UNSKEW_REQUIRE_SERVERS": "1"}, check=True)
    output, steps = run()
    assert "5 passed" in output
    assert steps.count("go build") == 1


def test_tests_that_need_programs_are_slow_and_can_be_chosen(run):
    assert "1 passed, 4 deselected" in run("-m", "not slow")[0]
    assert "4 skipped, 1 deselected" in run("-m", "programs")[0]


def test_a_group_runs_in_one_process_and_the_longest_begins_first(run, tmp_path):
    for group, seconds in (("short", 1), ("long", 100), ("middle", 10)):
        (tmp_path / f"test_{group}.py").write_text(GROUPED.format(group=group, seconds=seconds))
    output, _ = run("-n", "1", "-m", "not slow")
    assert "10 passed" in output
    ran = (tmp_path / "ran").read_text().split()
    assert ran[::2] == ["long"] * 3 + ["middle"] * 3 + ["short"] * 3
    (tmp_path / "ran").unlink()
    run("-n", "2", "-m", "not slow")
    ran = {tuple(line.split()) for line in (tmp_path / "ran").read_text().splitlines()}
    assert len(ran) == 3, "each group had one process"


@pytest.mark.parametrize(
    ("processes", "groups"), [(1, ["abcdef"]), (2, ["cdf", "abe"]), (3, ["cf", "be", "ad"]), (9, list("abcdef"))]
)
def test_files_that_share_spark_sessions_form_groups_of_about_the_same_time(processes, groups):
    seconds = {"a": 35.0, "b": 40.0, "c": 60.0, "d": 25.0, "e": 20.0, "f": 5.0}
    found = spread(seconds, processes)
    together = {frozenset(file for file in found if found[file] == group) for group in found.values()}
    assert together == set(map(frozenset, groups))
