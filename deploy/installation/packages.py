"""The Python packages of `requirements.lock`, which `make setup` installs.

As a program (`make lock`) it writes the file: the newest compatible versions, for every platform, with hashes. uv
chooses the versions, because pip's choice holds for only one platform and Python. Download addresses would tie the file
to one index.
"""

import subprocess
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from unskew.directories import find_checkout

LOCK = (find_checkout() or Path()) / "requirements.lock"
#: The packages of the Docker image: those that a run needs, and those that build packages without wheels.
IMAGE_LOCK = LOCK.parent / "deploy" / "requirements.lock"
_HEADER = "# Written by `make lock` from pyproject.toml, installed by {}.\n"
_BUILDS = "setuptools>=77\n"


def read_lock() -> dict[str, str]:
    """Package → version pinned for this platform. Empty if this copy of the project isn't a checkout."""
    if not LOCK.is_file():
        return {}
    lines = (line.rstrip(" \\") for line in LOCK.read_text().splitlines() if line[:1].isalnum())
    pins = [pin for pin in map(Requirement, lines) if pin.marker is None or pin.marker.evaluate()]
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}


def missing_packages() -> list[str]:
    """The missing pinned packages, or without pins the command's missing dependencies."""
    names = list(read_lock()) or [
        wanted.name
        for wanted in map(Requirement, metadata.requires("unskew") or [])
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("app", "keyed", "spark"))
    ]
    return [name for name in names if _installed_version(name) is None]


def other_versions() -> list[str]:
    """The packages installed in another version than pinned, as `name found (pinned)`."""
    found = ((name, _installed_version(name), pinned) for name, pinned in read_lock().items())
    return [
        f"{name} {version} ({pinned})"
        for name, version, pinned in found
        if version is not None and Version(version) != Version(pinned)
    ]


def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def lock_packages() -> None:
    """Write the versions that uv chooses for an empty environment to `requirements.lock` and the image's lock."""
    _write_lock(LOCK, "`make setup`", "--upgrade", "--extra", "dev")
    _write_lock(IMAGE_LOCK, "the Docker image", "--extra", "app", "--constraint", str(LOCK), "-", given=_BUILDS)


def _write_lock(path: Path, installed_by: str, *more: str, given: str | None = None) -> None:
    choose = ("--universal", "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url")
    project = str(LOCK.with_name("pyproject.toml"))
    command = ("uv", "pip", "compile", "--quiet", *choose, "--no-emit-package", "unskew", project, *more)
    chosen = subprocess.run(command, input=given, check=True, capture_output=True, text=True).stdout
    path.write_text(_HEADER.format(installed_by) + chosen)
    print(f"wrote {chosen.count('==')} pins to {path}")


if __name__ == "__main__":
    lock_packages()
