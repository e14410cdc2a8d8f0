"""Virtual environments with the wheel, far from the checkout: each holds what the wheel asks for, and nothing else."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
#: What uv says if it reaches no package index.
_UNREACHED = re.compile(r"Failed to fetch|error sending request|network connectivity|dns error", re.IGNORECASE)
_NOT_SOURCE = (".git", ".venv", ".unskew", ".hypothesis", "__pycache__", "*_cache", "dist", "out", "*.egg-info")

_KEPT = ("NUMBA_CACHE_DIR", "SPARK_DAEMON_JAVA_OPTS", "SPARK_LOCAL_DIRS", "SPARK_SUBMIT_OPTS")


def kept() -> dict[str, str]:
    """The variables of the tests (``tests/conftest.py``) that a program of these environments gets, too."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def uv(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run uv to its end. Where it reaches no package index, the test is skipped."""
    command = [Path(sys.executable).with_name("uv"), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if _UNREACHED.search(done.stderr):
        pytest.skip(f"no package index is reachable: {done.stderr.strip().splitlines()[0]}")
    return done


def build(folder: Path) -> Path:
    """The wheel, built from the sdist, which is built from a copy of the checkout."""
    source = folder / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_SOURCE))
    command = [sys.executable, "-m", "build", "--installer", "uv", "--outdir", folder, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel in it."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def unskew(self) -> Path:
        """The command."""
        return self.folder / "bin" / "unskew"

    @classmethod
    def of(cls, wheel: Path, folder: Path, extras: tuple[str, ...], others: tuple[str, ...] = ()) -> "Environment":
        """Make an environment with the wheel, what the wheel needs with these extras, and the user's `others`.

        The packages are links to those that the tests run with: the same versions, and no download.
        """
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        [site] = (folder / "lib").glob("python*/site-packages")
        done = uv("pip", "install", "--quiet", "--no-deps", "--python", folder / "bin" / "python", wheel)
        assert done.returncode == 0, done.stderr
        for package in sorted(_closure([*requirements(wheel, extras), *others])):
            for part in {Path(str(file)).parts[0] for file in metadata.files(package) or []} - {"..", "__pycache__"}:
                link = site / part
                if not link.exists():
                    link.symlink_to(Path(str(metadata.distribution(package).locate_file(part))))
        return cls(folder)


def requirements(wheel: Path, extras: tuple[str, ...]) -> list[str]:
    """What the wheel needs with these extras, and with the extras that these name in turn."""
    with zipfile.ZipFile(wheel) as packed:
        [name] = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        described = metadata.PathDistribution(zipfile.Path(packed, name.rpartition("/")[0] + "/"))
        return _own(described.requires or [], extras)


def _own(described: list[str], extras: tuple[str, ...]) -> list[str]:
    found = list(_needed(described, extras))
    named = {extra for wanted in map(Requirement, found) if wanted.name == "unskew" for extra in wanted.extras}
    return found if named <= {*extras} else _own(described, (*extras, *sorted(named - {*extras})))


def _needed(described: list[str], extras: tuple[str, ...]) -> Iterator[str]:
    for wanted in map(Requirement, described):
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield str(wanted).partition(";")[0]


def _closure(texts: list[str]) -> set[str]:
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in texts]
    while waiting:
        wanted = waiting.pop()
        if wanted.name == "unskew" or (wanted.name, str(sorted(wanted.extras))) in found:
            continue
        found.add((wanted.name, str(sorted(wanted.extras))))
        waiting += map(Requirement, _needed(metadata.requires(wanted.name) or [], tuple(wanted.extras)))
    return {name for name, _ in found}
