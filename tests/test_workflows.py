"""The workflows of `.github`: they run the Makefile's targets and nothing else, with few rights, by pinned actions.

They have never run here. What can be known without GitHub is held by these tests, actionlint and zizmor.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pages import ROOT
from tests.programs import REQUIRED
from tests.programs.workflows import actionlint
from unskew.errors import EnvironmentFault

_FOLDER = ROOT / ".github" / "workflows"
_WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(_FOLDER.glob("*.yml"))}
_MAKEFILE = (ROOT / "Makefile").read_text()
#: Jobs whose steps aren't targets, and why.
_OTHERWISE = {("release", "publish"): "has the right to publish, so it runs no code of the project"}


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """All jobs: their workflow's name, their own, what they do."""
    for workflow, described in _WORKFLOWS.items():
        for name, job in described["jobs"].items():
            yield workflow, name, job


def targets(workflow: str) -> list[str]:
    """The targets that the workflow makes."""
    steps = [step["run"] for each, _, job in jobs() if each == workflow for step in job["steps"] if "run" in step]
    return re.findall(r"\bmake (\S+)", "\n".join(steps))


def test_each_step_is_a_target_of_the_makefile():
    wrong = [
        (workflow, name, line)
        for workflow, name, job in jobs()
        if (workflow, name) not in _OTHERWISE
        for step in job["steps"]
        for line in step.get("run", "").splitlines()
        if not ((given := re.fullmatch(r"make ([a-z-]+)( [A-Z]+=\S+)*", line)) and f"\n{given[1]}:" in _MAKEFILE)
    ]
    assert not wrong


def test_they_run_what_ci_runs():
    ci = (ROOT / ".ci" / "run").read_text()
    commands = re.sub(r"#.*", "", ci)
    made = {*re.findall(r"(?m)^(?:.*=\S*|SPARKS=\".*\")? ?(?:run|make) ([a-z-]+)", commands)} - {"setup"}
    assert {"docs", "test", "test-rest", "test-matrix"} <= made
    both = {*targets("checks"), *targets("nightly")}
    assert made - both == {"test-rest"}  # test-all is test and test-rest
    assert {"test-all", "servers", "lint", "test-imports"} <= both
    assert re.search(r"(?m)^ci:.*\n\t@\.ci/run$", _MAKEFILE)
    [sparks] = [job["env"]["SPARKS"] for _, name, job in jobs() if name == "sparks"]
    assert f'SPARKS="{sparks}" run test-matrix' in ci


def test_they_try_the_pythons_that_the_package_names():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = [each.rpartition(" :: ")[2] for each in classifiers if " :: 3." in each]
    for name in ("test", "imports"):
        assert _WORKFLOWS["checks"]["jobs"][name]["strategy"]["matrix"]["python"] == named


def test_they_have_few_rights_and_an_end():
    assert all(described["permissions"] == {} for described in _WORKFLOWS.values())
    assert all("timeout-minutes" in job for _, _, job in jobs())
    rights = {(workflow, name): job["permissions"] for workflow, name, job in jobs()}
    assert rights.pop(("release", "publish")) == {"contents": "read", "id-token": "write"}
    assert all(given == {"contents": "read"} for given in rights.values())


def test_actions_are_pinned_by_their_commit():
    used = [line.strip() for path in _FOLDER.glob("*.yml") for line in path.read_text().splitlines() if "uses:" in line]
    assert len(used) > len(_WORKFLOWS)
    assert not [line for line in used if not re.fullmatch(r"- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)]
    versions = {(line.partition("@")[0], line.partition("@")[2]) for line in used}
    assert len(versions) == len({action for action, _ in versions}), "an action has two versions"


def test_uv_is_installed_by_its_hash():
    # The job that publishes takes the lock's lines of uv, as the Dockerfile takes those of setuptools.
    [command] = [
        step["run"]
        for _, name, job in jobs()
        if name == "publish"
        for step in job["steps"]
        if "sed" in step.get("run", "")
    ]
    program = command.partition(" > ")[0]
    taken = subprocess.run(
        program, cwd=ROOT, shell=True, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert re.match(r"uv==\S+ \\$", taken[0])
    assert all(re.match(r"    --hash=sha256:", line) for line in taken[1:])
    assert not taken[-1].endswith("\\")


def test_nothing_is_released_to_nobodys_address():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    if "/OWNER/" not in urls["Source"]:
        pytest.skip("project.urls is set")
    recipe = _MAKEFILE[_MAKEFILE.index("\ndist:") :]
    [check] = re.findall(r"grep -q '(\S+)' pyproject\.toml", recipe)
    assert any(url.startswith(check) for url in urls.values())
    assert "dist" in targets("release")


@pytest.mark.programs
def test_actionlint_finds_nothing():
    try:
        program = actionlint()
    except EnvironmentFault as fault:
        if REQUIRED:
            pytest.fail(str(fault))
        pytest.skip(str(fault))
    done = subprocess.run([program, "-no-color", *_FOLDER.glob("*.yml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_finds_nothing():
    program = Path(sys.executable).with_name("zizmor")
    if not program.exists():
        pytest.skip("zizmor is not installed; `make setup` does it")
    command = [program, "--offline", "--no-progress", "--persona", "pedantic", ROOT / ".github"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
