"""Each engine's own environment, which is made when it is first asked for: in ``.unskew/engines``."""

import hashlib
import subprocess
import sys
from pathlib import Path

from unskew.deploy.installation.jars import resolve_jars
from unskew.deploy.installation.machine import find_java
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault

_HERE = Path(__file__).parent


class Unavailable(Exception):
    """An engine can't be had here; the message says why."""


def python_of(engine: str) -> Path:
    """The Python of an engine that is on PyPI, with the packages of its ``requirements.txt``.

    Raises Unavailable: They can't be installed.
    """
    requirements = _HERE / engine / "requirements.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    folder = data_directory() / "engines" / f"{engine}-{digest}"
    if not (folder / "made").exists():
        print(f"installing {engine}, once", flush=True)
        uv = Path(sys.executable).with_name("uv")
        _run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder)
        _run(uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", "--requirement", requirements)
        (folder / "made").touch()
    return folder / "bin" / "python"


def jars_of(engine: str) -> list[Path]:
    """The archives that an engine's ``ivy.xml`` names, fetched if they aren't there. Raises as ``python_of``."""
    try:
        return resolve_jars(_HERE / engine / "ivy.xml", engine, f"{engine}'s jars", 10, "some 80 MB")
    except EnvironmentFault as fault:
        raise Unavailable(str(fault)) from fault


def compile_programs(engine: str, *shared: str, jars: str = "") -> list[str]:
    """The command that runs a class of an engine's Java programs, whose name comes behind it. They are compiled once.

    ``engine``: The folder of the engine's programs. ``shared``: Classes that engines share: names of files of this
    folder. ``jars``: A class path beside the engine's own archives.
    """
    sources = [*sorted((_HERE / engine).glob("*.java")), *(_HERE / f"{name}.java" for name in shared)]
    classpath = ":".join([*map(str, jars_of(engine)), *filter(None, [jars])])
    digest = hashlib.sha256(b"".join(map(Path.read_bytes, sources)) + classpath.encode()).hexdigest()[:12]
    folder = data_directory() / "engines" / f"{engine}-{digest}"
    java = find_java()
    if not (folder / "made").exists():
        _run(java.home / "bin" / "javac", "-cp", classpath, "-d", folder, *sources)
        (folder / "made").touch()
    return [str(java.launcher), "-Xmx2g", "-cp", f"{folder}:{classpath}"]


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
