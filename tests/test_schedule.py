"""How tests are spread over processes, and what becomes of those that lack a server's program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.stand_ins import tools  # noqa: F401
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


def test_as_many_processes_as_cores_and_memory_allow():
    for cores, memory, expected in ((1, None, 1), (2, 24, 3), (16, 12, 4), (2, 1.5, 1), (0.5, None, 1), (3, 100, 4)):
        assert processes(cores, memory) == expected


@pytest.fixture
def run(tools, tmp_path):
    """Runs the project's tests with pytest's arguments; its output."""
    for name, content in PROJECT.items():
        (tmp_path / name).write_text(content)

    def pytest_run(*arguments: str, **environment: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-rs", *arguments]
        own = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "UNSKEW_REQUIRE_SERVERS": ""}
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | own | environment, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    return pytest_run


def test_without_a_program_its_tests_are_skipped_or_fail_and_say_how_to_get_it(run):
    for required, says in (("", "1 passed, 4 skipped"), ("1", "1 passed, 4 errors")):
        output = run(UNSKEW_REQUIRE_SERVERS=required)
        assert says in output
        assert "`make servers` makes one" in output
    assert "1 passed, 4 deselected" in run("-m", "not slow")
    assert "4 skipped, 1 deselected" in run("-m", "programs")


def test_a_group_runs_in_one_process_and_the_longest_begins_first(run, tmp_path):
    for group, seconds in (("short", 1), ("long", 100), ("middle", 10)):
        (tmp_path / f"test_{group}.py").write_text(GROUPED.format(group=group, seconds=seconds))
    output = run("-n", "1", "-m", "not slow")
    assert "10 passed" in output
    ran = (tmp_path / "ran").read_text().split()
    assert ran[::2] == ["long"] * 3 + ["middle"] * 3 + ["short"] * 3
    (tmp_path / "ran").unlink()
    run("-n", "3", "-m", "not slow")
    ran = {tuple(line.split()) for line in (tmp_path / "ran").read_text().splitlines()}
    assert len(ran) == 3, "each group had one process"


def test_files_that_share_spark_sessions_form_groups_of_about_the_same_time():
    seconds = {"a": 35.0, "b": 40.0, "c": 60.0, "d": 25.0, "e": 20.0, "f": 5.0}
    for number, groups in ((1, ["abcdef"]), (2, ["cdf", "abe"]), (3, ["cf", "be", "ad"]), (9, list("abcdef"))):
        found = spread(seconds, number)
        together = {frozenset(file for file in found if found[file] == group) for group in found.values()}
        assert together == set(map(frozenset, groups))
