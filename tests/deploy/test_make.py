"""`make setup` on machines that lack something: one line with the fix, before anything is downloaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="no make")


@pytest.fixture
def programs(tmp_path) -> Path:
    """A directory of the few programs that the bare machine has."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("awk", "bash"):
        (directory / name).symlink_to(Path(str(shutil.which(name))).resolve())
    return directory


def make(programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Not in the checkout itself: if the check failed to stop it, it would install.
    directory = programs.parent / "project"
    if not directory.exists():
        for name in ("deploy", "src"):
            shutil.copytree(ROOT / name, directory / name, symlinks=True)
        for name in ("Makefile", "pyproject.toml", "requirements.lock"):
            shutil.copy(ROOT / name, directory)
    environment = {"PATH": str(programs), "HOME": str(programs.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(shutil.which("make")), "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def only_line(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    return line


def test_without_python_or_with_a_wrong_one(programs):
    done = make(programs, "setup")
    assert done.returncode != 0
    assert only_line(done).startswith("unskew: Python 3.11 to 3.14 is needed; there is none on the PATH; install one")
    old = programs / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert "old-python is not it; install one" in only_line(make(programs, "setup", f"PYTHON={old}"))


def test_without_java(programs):
    (programs / "python3").symlink_to(os.path.realpath(sys.executable))
    line = only_line(make(programs, "setup"))
    assert line.startswith("unskew: Java 17 or 21 is needed: JAVA_HOME is not set and there is no `java` on the PATH")
    assert "apt-get install openjdk-17" in line
    assert not (programs.parent / "project" / ".venv").exists()
