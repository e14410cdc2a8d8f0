"""A reader of the pages: a directory of theirs, and a shell in which the project's environment is activated."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import ROOT
from unskew.directories import data_directory


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A reader's directory: with the environment and what ``make setup`` fetched, and nothing else."""
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    home = tmp_path / ".unskew"
    home.mkdir()
    for there in data_directory().iterdir():
        if there.name in {"jars", "class-data"} or there.name.startswith("python-"):
            (home / there.name).symlink_to(there)
    return tmp_path


@pytest.fixture
def shell(place: Path) -> Iterator["Shell"]:
    """A reader's shell; a broker that a block has started is stopped at the end."""
    shell = Shell(place)
    yield shell
    if (place / ".unskew" / "kafka").exists():
        shell.run("unskew kafka stop")


class Shell:
    """Runs code as a reader's shell does in which ``source .venv/bin/activate`` was done."""

    def __init__(self, place: Path) -> None:
        self._place = place
        away = {"KAFKA_BOOTSTRAP_SERVERS", "PYSPARK_PYTHON"}
        self.variables = {name: value for name, value in os.environ.items() if name not in away}
        self.variables["PATH"] = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{self.variables['PATH']}"
        self.variables |= {"UNSKEW_HOME": str(place / ".unskew"), "COLUMNS": "100"}  # tables as wide as a terminal

    def run(self, code: str, language: str = "sh") -> str:
        """What the code prints; it must end with exit code 0."""
        given = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else ["python", "-c", code]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(given, cwd=self._place, env=self.variables, timeout=400, check=False, **output)
        assert done.returncode == 0, f"{code}\n{done.stdout[-10_000:]}"
        return done.stdout

    def start_kafka(self) -> None:
        """Start a broker, and tell other clients of it, as the command says how."""
        found = re.search(r"export (\w+)=(\S+)", self.run("unskew kafka start"))
        assert found
        self.variables[found[1]] = found[2]
