"""Checks a machine's Python, Java, disk and memory.

`install.py` imports this module before any package is installed, so it needs only the standard library.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from unskew.errors import EnvironmentFault

PYTHON = ((3, 11), (3, 14))  # first and last version with wheels of all pinned packages
DISK_GB = 3  # 2 for the environment, the rest for topics and checkpoints
MEMORY_GB = 2  # 0.2 for the broker, 1 for Spark's driver, the rest for its Python workers
JAVA = (17, 21)


def require_python() -> None:
    """Refuse a Python on which the pinned packages don't run.

    Raises ``EnvironmentFault`` if it is another version. The message says what to install.
    """
    first, last = (".".join(map(str, version)) for version in PYTHON)
    if not PYTHON[0] <= sys.version_info[:2] <= PYTHON[1]:
        raise EnvironmentFault(
            f"Python {first} to {last} is needed and {sys.executable} is {platform.python_version()}; "
            f"install one and name it: `make setup PYTHON=python{last}`"
        )


def require_disk(directory: Path, needed_gb: float = DISK_GB) -> None:
    """Refuse a disk without enough free space.

    Raises ``EnvironmentFault`` if there is too little.
    """
    free = shutil.disk_usage(existing_parent(directory)).free / 1e9
    if free < needed_gb:
        raise EnvironmentFault(
            f"{directory}: {free:.1f} GB are free on that disk and {needed_gb:g} are needed; make room"
        )


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def existing_parent(path: Path) -> Path:
    """The path, or the nearest existing directory above it."""
    while not path.exists():
        path = path.parent
    return path


def memory_gb() -> float | None:
    """The available memory in GB, or None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) / 1e6
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9  # macOS: the machine's total
    except (ValueError, OSError):
        return None


_INSTALL = (
    "install OpenJDK 17 or 21 (Debian, Ubuntu: `sudo apt-get install openjdk-17-jre-headless`; "
    "Fedora: `sudo dnf install java-21-openjdk-headless`; macOS: `brew install openjdk@21`) "
    "and put its `java` on the PATH or set JAVA_HOME"
)


@dataclass(frozen=True)
class JavaRuntime:
    """A Java runtime: launcher, home (the value for `JAVA_HOME`) and feature version."""

    launcher: Path
    home: Path
    version: int


def find_java() -> JavaRuntime:
    """The first Java 17 or 21 of `$JAVA_HOME/bin/java` and the `java` on the PATH.

    Returns
    -------
    JavaRuntime
        For programs that search for Java themselves, like pyspark, set `JAVA_HOME` to its `home`.

    Raises
    ------
    EnvironmentFault
        If there is none. The message lists others found, and says how to install the right one.
    """
    found: list[str] = []
    for origin, launcher in _list_candidates():
        java = _inspect_java(launcher)
        if java is None:
            found.append(f"{origin} {launcher} does not run")
        elif java.version in JAVA:
            return java
        else:
            found.append(f"{origin} {launcher} is Java {java.version}")
    seen = "; ".join(found) if found else "JAVA_HOME is not set and there is no `java` on the PATH"
    raise EnvironmentFault(f"Java 17 or 21 is needed: {seen}; {_INSTALL}")


def _list_candidates() -> list[tuple[str, Path]]:
    candidates: list[tuple[str, Path]] = []
    if java_home := os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME's", Path(java_home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        candidates.append(("the PATH's", Path(on_path)))
    return candidates


def _inspect_java(launcher: Path) -> JavaRuntime | None:
    # Ask the launcher, which may be a link, a wrapper or macOS' stub; a directory's name may be wrong.
    try:
        output = subprocess.run(
            [launcher, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s+(java\.home|java\.specification\.version) = (.+)$", output, re.MULTILINE))
    version = properties.get("java.specification.version", "").removeprefix("1.")  # Java 8 calls itself 1.8
    if not version.isdigit() or "java.home" not in properties:
        return None
    return JavaRuntime(launcher, Path(properties["java.home"].strip()), int(version))
