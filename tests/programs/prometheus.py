"""Prometheus out of Debian's (or Ubuntu's) package, without installing it and so without being root."""

import shutil
import subprocess
from pathlib import Path

from unskew.deploy.installation.steps import ProgressBar, exclusive_lock, run_with_progress, temporary_workspace
from unskew.deploy.servers.prometheus import INSTALL, PrometheusPrograms, find_programs, programs_cache_directory
from unskew.errors import EnvironmentFault

_PACKAGE = "prometheus"


def prometheus_programs() -> PrometheusPrograms:
    """The programs that are `find_programs`, else those of Debian's package, which is unpacked into the user's cache,
    once.

    Raises ``EnvironmentFault`` if what `$UNSKEW_PROMETHEUS` names isn't there; or there are none, and there is no apt,
    or it can't fetch them.
    """
    found = find_programs()
    if found is None:
        _unpack()
        found = find_programs()
        assert found
    return found


def _unpack() -> None:
    target = programs_cache_directory()
    directory = target.parent
    if missing := [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]:
        raise EnvironmentFault(
            f"{_PACKAGE} is not on this machine, and there is no {missing[0]} to fetch it; {INSTALL}"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(directory / "fetch.lock"):
            if not target.is_dir():  # else another process was faster
                _fetch(target, directory / "fetch.log")
    except OSError as error:
        raise EnvironmentFault(f"cannot unpack {_PACKAGE} in {directory}: {error}; {INSTALL}") from error


def _fetch(target: Path, log: Path) -> None:
    log.unlink(missing_ok=True)
    with temporary_workspace(log.parent) as here:
        for part in ("lists/partial", "archives/partial"):
            (here / part).mkdir(parents=True)
        # Package lists of our own: the machine's may be old or missing, and only root may renew them.
        apt = ("apt-get", "-o", f"Dir::State::Lists={here / 'lists'}", "-o", f"Dir::Cache={here}")
        steps = ((*apt, "update"), (*apt, "download", _PACKAGE))
        with ProgressBar(f"fetching Debian's package {_PACKAGE}, once", 20, "about 20 MB") as progress:
            for step in steps:
                if run_with_progress(step, log, progress, lambda line: line.startswith("Get:"), directory=here):
                    reason = (log.read_text(errors="replace").strip().splitlines() or ["apt said nothing"])[-1]
                    raise EnvironmentFault(
                        f"cannot fetch Debian's package {_PACKAGE}: {reason} (log: {log}); {INSTALL}"
                    )
        archive = next(here.glob(f"{_PACKAGE}_*.deb"))
        files = here / "files"
        done = subprocess.run(["dpkg-deb", "-x", archive, files], capture_output=True, text=True, check=False)
        if done.returncode:
            raise EnvironmentFault(f"cannot unpack {archive.name}: {done.stderr.strip()[:300]}; {INSTALL}")
        files.rename(target)
