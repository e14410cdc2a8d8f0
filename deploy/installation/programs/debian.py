"""A program from a Debian (or Ubuntu) package, without installing it and so without being root."""

import shutil
import subprocess
from pathlib import Path

from unskew.deploy.home import cache
from unskew.deploy.installation.exclusive import exclusive, workshop
from unskew.deploy.installation.steps import Progress, followed
from unskew.errors import EnvironmentFault


def unpacked(package: str, *, otherwise: str) -> Path:
    """The directory that the package's files are in, as under `/`; fetched by apt first if it isn't there yet.

    Parameters
    ----------
    package
        Its name. What it depends on is not fetched.
    otherwise
        What to tell a user who has no apt.

    Raises
    ------
    EnvironmentFault
        If there is no apt, or it can't fetch the package.
    """
    target = cached(package)
    directory = target.parent
    if target.is_dir():
        return target
    if missing := [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]:
        raise EnvironmentFault(
            f"{package} is not on this machine, and there is no {missing[0]} to fetch it; {otherwise}"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with exclusive(directory / "fetch.lock"):
            if not target.is_dir():  # else another process was faster
                _fetch(package, target, directory / "fetch.log", otherwise)
    except OSError as error:
        raise EnvironmentFault(f"cannot unpack {package} in {directory}: {error}; {otherwise}") from error
    return target


def cached(package: str) -> Path:
    """The directory that the package's files are in once they have been fetched."""
    return cache() / "debian" / package


def _fetch(package: str, target: Path, log: Path, otherwise: str) -> None:
    log.unlink(missing_ok=True)
    with workshop(log.parent) as here:
        for part in ("lists/partial", "archives/partial"):
            (here / part).mkdir(parents=True)
        # Package lists of our own: the machine's may be old or missing, and only root may renew them.
        apt = ("apt-get", "-o", f"Dir::State::Lists={here / 'lists'}", "-o", f"Dir::Cache={here}")
        steps = (
            (*apt, "update"),
            (*apt, "download", package),
        )
        with Progress(f"fetching Debian's package {package}, once", 20, "about 20 MB") as progress:
            for step in steps:
                if followed(step, log, progress, lambda line: line.startswith("Get:"), directory=here):
                    said = (log.read_text(errors="replace").strip().splitlines() or ["apt said nothing"])[-1]
                    raise EnvironmentFault(f"cannot fetch Debian's package {package}: {said} (log: {log}); {otherwise}")
        archive = next(here.glob(f"{package}_*.deb"))
        files = here / "files"
        done = subprocess.run(["dpkg-deb", "-x", archive, files], capture_output=True, text=True, check=False)
        if done.returncode:
            raise EnvironmentFault(f"cannot unpack {archive.name}: {done.stderr.strip()[:300]}; {otherwise}")
        files.rename(target)
