"""`prometheus`, the server's program, and `promtool`, which checks its files."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from unskew.deploy.installation.programs.debian import cached, unpacked
from unskew.errors import EnvironmentFault

_PACKAGE = "prometheus"


@dataclass(frozen=True)
class PrometheusPrograms:
    """The two programs, and the pages that Debian's server would look for in `/usr/share`, where they are elsewhere."""

    prometheus: Path
    promtool: Path
    pages: Path | None = None


def prometheus_programs() -> PrometheusPrograms:
    """Those that are `present`, else Debian's package unpacked into the user's cache, once.

    Raises
    ------
    EnvironmentFault
        If what `$UNSKEW_PROMETHEUS` names isn't there, or there are none and they can't be had.
    """
    return present() or _of(unpacked(_PACKAGE, otherwise=_OTHERWISE))


def present() -> PrometheusPrograms | None:
    """Those beside `$UNSKEW_PROMETHEUS`, else the PATH's, else those fetched before; None: there are none.

    Raises
    ------
    EnvironmentFault
        If what the variable names isn't there.
    """
    if named := os.environ.get("UNSKEW_PROMETHEUS"):
        program = Path(named).expanduser().absolute()
        found = PrometheusPrograms(program, program.with_name("promtool"))
        for path in (found.prometheus, found.promtool):
            if not os.access(path, os.X_OK):
                raise EnvironmentFault(f"UNSKEW_PROMETHEUS is {named}, but there is no program {path}")
        return found
    server, tool = shutil.which("prometheus"), shutil.which("promtool")
    if server and tool:
        return PrometheusPrograms(Path(server), Path(tool))
    return _of(cached(_PACKAGE)) if cached(_PACKAGE).is_dir() else None


def _of(package: Path) -> PrometheusPrograms:
    usr = package / "usr"
    return PrometheusPrograms(usr / "bin" / "prometheus", usr / "bin" / "promtool", usr / "share/prometheus/web")


_OTHERWISE = (
    "install Prometheus (Debian, Ubuntu: `sudo apt-get install prometheus`; Fedora: `sudo dnf install "
    "golang-github-prometheus`; macOS: `brew install prometheus`), or name its program in UNSKEW_PROMETHEUS"
)
