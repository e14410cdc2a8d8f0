"""Programs of npm's and Go's packages, for tests alone. `python -m tests.programs --clouds` gets them, once.

They are emulators of clouds' stores, OpenTelemetry's collector, and linters: they know what GitHub takes as a workflow,
Docker as a compose file.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from unskew.deploy.installation.steps import ProgressBar, exclusive_lock, run_with_progress, temporary_workspace
from unskew.directories import cache_directory
from unskew.errors import EnvironmentFault

#: What to run, before the package's name, and the variables for it.
Command: TypeAlias = tuple[tuple[str, ...], Mapping[str, str]]


@dataclass(frozen=True)
class Package:
    """A package: its name with the version, its program, and what it takes to install it into a folder of its own."""

    name: str
    program: Path
    takes: str

    def got(self, *, fetch: bool = False) -> Path:
        """The program, which with ``fetch`` is installed if it isn't there yet.

        Raises ``EnvironmentFault`` if it isn't there; with ``fetch``: it can't be installed.
        """
        directory = cache_directory() / self.program.name
        target = directory / self.name.rpartition("@")[2]
        if target.is_dir():
            return target / self.program
        if not fetch:
            raise EnvironmentFault(f"{self.name} isn't there; `python -m tests.programs --clouds` gets it")
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(directory / "install.lock"), temporary_workspace(directory) as here:
                if not target.is_dir():  # else another process was faster
                    made = here / "made"
                    made.mkdir()
                    command, environment = self.install(made)
                    _install([*command, self.name], directory / "install.log", self.takes, environment)
                    made.rename(target)
        except OSError as error:
            raise EnvironmentFault(f"cannot install {self.name} in {directory}: {error}") from error
        return target / self.program

    def install(self, folder: Path) -> Command:
        """How Go puts a program of a module into a folder."""
        return ("go", "install", "-v"), {"GOBIN": str(folder)}


class NodePackage(Package):
    """One of npm's."""

    def install(self, folder: Path) -> Command:
        """How npm does."""
        options = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", str(folder))
        return ("npm", "install", *options), {}


class CollectorPackage(Package):
    """The program that OpenTelemetry's builder puts together from the receivers and exporters of ``collector.yaml``."""

    def install(self, folder: Path) -> Command:
        """How Go builds the builder, and that the program."""
        config = Path(__file__).with_name("collector.yaml")
        build = f'cd {folder}; GOBIN=$PWD go install -v "$1"; ./builder --config={config}'
        return ("sh", "-ec", build, "sh"), {}


def _install(command: list[str], log: Path, takes: str, environment: Mapping[str, str]) -> None:
    if shutil.which(command[0]) is None:
        raise EnvironmentFault(f"{command[-1]} is not on this machine, and there is no {command[0]} to fetch it")
    log.unlink(missing_ok=True)
    with ProgressBar(f"fetching {command[-1]}, once", None, takes) as progress:
        failed = run_with_progress(command, log, progress, bool, environment={**os.environ, **environment})
    if failed:
        reason = (log.read_text(errors="replace").strip().splitlines() or [f"{command[0]} said nothing"])[-1]
        raise EnvironmentFault(f"cannot fetch {command[-1]}: {reason} (log: {log})")


#: Microsoft's emulator of Azure's blobs. It needs Node on the PATH.
azurite = NodePackage("azurite@3.35.0", Path("node_modules", ".bin", "azurite-blob"), "about 190 MB").got
#: An emulator of Google Cloud Storage.
fake_gcs = Package("github.com/fsouza/fake-gcs-server@v1.56.1", Path("fake-gcs-server"), "some minutes").got
#: The command of compose-go, the format's reference implementation, with which Docker reads a compose file, too.
compose_reader = Package("github.com/compose-spec/compose-go/v2/cmd@v2.9.1", Path("cmd"), "half a minute").got

#: OpenTelemetry's collector.
otel_collector = CollectorPackage(
    "go.opentelemetry.io/collector/cmd/builder@v0.165.0", Path("otelcol"), "2 minutes"
).got


def actionlint(*, fetch: bool = False) -> Path:
    """The program: the one on the PATH, else the one that was got."""
    package = Package("github.com/rhysd/actionlint/cmd/actionlint@v1.7.12", Path("actionlint"), "half a minute")
    return Path(found) if (found := shutil.which("actionlint")) else package.got(fetch=fetch)
