"""Programs of npm's and Go's packages, for tests alone. `python -m tests.programs --clouds` gets them, once."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from unskew.deploy.installation.steps import ProgressBar, exclusive_lock, run_with_progress, temporary_workspace
from unskew.directories import cache_directory
from unskew.errors import EnvironmentFault

#: What to run, before the package's name, and the variables for it.
Command: TypeAlias = tuple[tuple[str, ...], Mapping[str, str]]


def got(package: str, program: Path, takes: str, install: Callable[[Path], Command], *, fetch: bool) -> Path:
    """A program of a package, which with ``fetch`` is installed into a folder of its own if it isn't there yet.

    Raises
    ------
    EnvironmentFault
        It isn't there; with ``fetch``: it can't be installed.
    """
    directory = cache_directory() / program.name
    target = directory / package.rpartition("@")[2]
    if target.is_dir():
        return target / program
    if not fetch:
        raise EnvironmentFault(f"{package} isn't there; `python -m tests.programs --clouds` gets it")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(directory / "install.lock"), temporary_workspace(directory) as here:
            if not target.is_dir():  # else another process was faster
                made = here / "made"
                made.mkdir()
                command, environment = install(made)
                _install([*command, package], directory / "install.log", takes, environment)
                made.rename(target)
    except OSError as error:
        raise EnvironmentFault(f"cannot install {package} in {directory}: {error}") from error
    return target / program


def installed_by_go(folder: Path) -> Command:
    """How Go puts a program of a module into a folder."""
    return ("go", "install", "-v"), {"GOBIN": str(folder)}


def _install(command: list[str], log: Path, takes: str, environment: Mapping[str, str]) -> None:
    if shutil.which(command[0]) is None:
        raise EnvironmentFault(f"{command[-1]} is not on this machine, and there is no {command[0]} to fetch it")
    log.unlink(missing_ok=True)
    with ProgressBar(f"fetching {command[-1]}, once", None, takes) as progress:
        failed = run_with_progress(command, log, progress, bool, environment={**os.environ, **environment})
    if failed:
        reason = (log.read_text(errors="replace").strip().splitlines() or [f"{command[0]} said nothing"])[-1]
        raise EnvironmentFault(f"cannot fetch {command[-1]}: {reason} (log: {log})")
