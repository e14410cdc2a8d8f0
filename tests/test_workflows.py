"""The workflows of `.github` run what the Makefile and the package have. Linters: `tests/deploy/test_lint.py`."""

import re
import tomllib

import yaml

from tests.pages import ROOT

_WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_their_targets_are_the_makefiles():
    steps = [step for each in _WORKFLOWS.values() for job in each["jobs"].values() for step in job["steps"]]
    named = set(re.findall(r"\bmake ([a-z-]+)", "\n".join(step.get("run", "") for step in steps)))
    there = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    assert {"lint", "test", "test-ci", "nightly", "dist"} <= named <= there


def test_they_try_the_pythons_that_the_package_names():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = [each.rpartition(" :: ")[2] for each in classifiers if " :: 3." in each]
    for name in ("test", "imports"):
        assert _WORKFLOWS["checks"]["jobs"][name]["strategy"]["matrix"]["python"] == named
