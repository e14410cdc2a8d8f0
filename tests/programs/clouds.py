"""Emulators of clouds' stores, got once for the tests of checkpoints there: Azurite by npm, fake-gcs-server by Go."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from unskew.deploy.directories import data_directory
from unskew.deploy.installation.steps import Progress, exclusive, followed, workshop
from unskew.errors import EnvironmentFault

#: What to run, before the package's name, and the variables for it.
Command: TypeAlias = tuple[tuple[str, ...], Mapping[str, str]]

_AZURITE = "3.35.0"
_FAKE_GCS = "1.56.1"


def azurite() -> Path:
    """The program `azurite-blob`, Microsoft's emulator of Azure's blobs. It needs Node on the PATH.

    Raises
    ------
    EnvironmentFault
        There is no npm, or it can't fetch the package.
    """
    install = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefix")
    program = Path("node_modules", ".bin", "azurite-blob")
    return _got(f"azurite@{_AZURITE}", program, "about 190 MB", lambda here: ((*install, str(here)), {}))


def fake_gcs() -> Path:
    """The program `fake-gcs-server`, an emulator of Google Cloud Storage.

    Raises
    ------
    EnvironmentFault
        There is no Go, or it can't build the program.
    """
    package = "github.com/fsouza/fake-gcs-server"
    install = ("go", "install", "-v")
    return _got(
        f"{package}@v{_FAKE_GCS}", Path("fake-gcs-server"), "some minutes", lambda here: (install, {"GOBIN": str(here)})
    )


def _got(package: str, program: Path, takes: str, install: Callable[[Path], Command]) -> Path:
    """A program of a package, which is installed into a folder of its own if it isn't there yet."""
    directory = data_directory() / program.name
    target = directory / package.rpartition("@")[2]
    if target.is_dir():
        return target / program
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with exclusive(directory / "install.lock"), workshop(directory) as here:
            if not target.is_dir():  # else another process was faster
                made = here / "made"
                made.mkdir()
                command, environment = install(made)
                _install([*command, package], directory / "install.log", takes, environment)
                made.rename(target)
    except OSError as error:
        raise EnvironmentFault(f"cannot install {package} in {directory}: {error}") from error
    return target / program


def _install(command: list[str], log: Path, takes: str, environment: Mapping[str, str]) -> None:
    if shutil.which(command[0]) is None:
        raise EnvironmentFault(f"{command[-1]} is not on this machine, and there is no {command[0]} to fetch it")
    log.unlink(missing_ok=True)
    with Progress(f"fetching {command[-1]}, once", None, takes) as progress:
        failed = followed(command, log, progress, bool, environment={**os.environ, **environment})
    if failed:
        reason = (log.read_text(errors="replace").strip().splitlines() or [f"{command[0]} said nothing"])[-1]
        raise EnvironmentFault(f"cannot fetch {command[-1]}: {reason} (log: {log})")
