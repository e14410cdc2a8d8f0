"""Emulators of clouds' stores, for the tests of checkpoints there: Azurite by npm, fake-gcs-server by Go.

`python -m tests.programs --clouds` gets them, once. Tests look whether they are there.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from unskew.deploy.directories import cache_directory
from unskew.deploy.installation.steps import Progress, exclusive, followed, workshop
from unskew.errors import EnvironmentFault

#: What to run, before the package's name, and the variables for it.
Command: TypeAlias = tuple[tuple[str, ...], Mapping[str, str]]

_AZURITE = "3.35.0"
_FAKE_GCS = "1.56.1"


def azurite(*, fetch: bool = False) -> Path:
    """The program `azurite-blob`, Microsoft's emulator of Azure's blobs. It needs Node on the PATH.

    Raises
    ------
    EnvironmentFault
        It isn't there; with ``fetch``: there is no npm, or it can't fetch the package.
    """
    install = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefix")
    program = Path("node_modules", ".bin", "azurite-blob")
    package = f"azurite@{_AZURITE}"
    return _got(package, program, "about 190 MB", lambda here: ((*install, str(here)), {}), fetch=fetch)


def fake_gcs(*, fetch: bool = False) -> Path:
    """The program `fake-gcs-server`, an emulator of Google Cloud Storage.

    Raises
    ------
    EnvironmentFault
        It isn't there; with ``fetch``: there is no Go, or it can't build the program.
    """
    package, program = f"github.com/fsouza/fake-gcs-server@v{_FAKE_GCS}", Path("fake-gcs-server")
    return _got(
        package, program, "some minutes", lambda here: (("go", "install", "-v"), {"GOBIN": str(here)}), fetch=fetch
    )


def _got(package: str, program: Path, takes: str, install: Callable[[Path], Command], *, fetch: bool) -> Path:
    """A program of a package, which with ``fetch`` is installed into a folder of its own if it isn't there yet."""
    directory = cache_directory() / program.name
    target = directory / package.rpartition("@")[2]
    if target.is_dir():
        return target / program
    if not fetch:
        raise EnvironmentFault(f"{package} isn't there; `python -m tests.programs --clouds` gets it")
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
