"""The Java that runs Spark and the embedded broker: the one thing the user has to bring."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from unskew.errors import EnvironmentFault

SUPPORTED = (17, 21)

_INSTALL = (
    "install OpenJDK 17 or 21 (Debian, Ubuntu: `sudo apt-get install openjdk-17-jre-headless`; "
    "Fedora: `sudo dnf install java-21-openjdk-headless`; macOS: `brew install openjdk@21`) "
    "and put its `java` on the PATH or set JAVA_HOME"
)


@dataclass(frozen=True)
class Java:
    """A Java runtime: its launcher, its home (what `JAVA_HOME` should say) and its feature version."""

    launcher: Path
    home: Path
    version: int


def find_java() -> Java:
    """The first Java 17 or 21 among `$JAVA_HOME/bin/java` and the `java` on the PATH.

    Returns
    -------
    Java
        Set `JAVA_HOME` to its `home` for a program that looks for Java itself, as pyspark does.

    Raises
    ------
    EnvironmentFault
        If there is none; the message lists what was found and how to install the right one.
    """
    found: list[str] = []
    for origin, launcher in _candidates():
        java = _inspect(launcher)
        if java is None:
            found.append(f"{origin} {launcher} does not run")
        elif java.version in SUPPORTED:
            return java
        else:
            found.append(f"{origin} {launcher} is Java {java.version}")
    seen = "; ".join(found) if found else "JAVA_HOME is not set and there is no `java` on the PATH"
    raise EnvironmentFault(f"Java 17 or 21 is needed: {seen}; {_INSTALL}")


def _candidates() -> list[tuple[str, Path]]:
    candidates: list[tuple[str, Path]] = []
    if java_home := os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME's", Path(java_home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        candidates.append(("the PATH's", Path(on_path)))
    return candidates


def _inspect(launcher: Path) -> Java | None:
    # Asking the launcher is right for links, wrappers and macOS' stub alike; a directory's name is not.
    try:
        answer = subprocess.run(
            [launcher, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s+(java\.home|java\.specification\.version) = (.+)$", answer, re.MULTILINE))
    version = properties.get("java.specification.version", "").removeprefix("1.")  # Java 8 calls itself 1.8
    if not version.isdigit() or "java.home" not in properties:
        return None
    return Java(launcher, Path(properties["java.home"].strip()), int(version))
