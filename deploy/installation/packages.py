"""The Python packages that this environment should have: those of `requirements.lock`, which `make setup` installs.

As a program (`make lock`) it writes the file: the newest versions that fit together, for every platform, with their
hashes. uv chooses the versions, because pip's choice holds for one platform and one Python only. The file has no
download addresses, because these would tie it to one index.
"""

import subprocess
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from unskew.directories import find_checkout

LOCK = (find_checkout() or Path()) / "requirements.lock"
#: The packages that a run needs, and those that build packages without wheels. The Docker image has no others.
IMAGE_LOCK = LOCK.parent / "deploy" / "requirements.lock"
_HEADER = "# Written by `make lock` from pyproject.toml, installed by {}.\n"
_BUILDS = "setuptools>=77\n"


def read_lock() -> dict[str, str]:
    """Package → version as pinned for this platform. Empty if this copy of the project isn't a checkout."""
    if not LOCK.is_file():
        return {}
    lines = (line.rstrip(" \\") for line in LOCK.read_text().splitlines() if line[:1].isalnum())
    pins = [pin for pin in map(Requirement, lines) if pin.marker is None or pin.marker.evaluate()]
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}


def missing_packages() -> list[str]:
    """The pinned packages that are not installed. Without pins: the command's dependencies that are not installed."""
    names = list(read_lock()) or [
        wanted.name
        for wanted in map(Requirement, metadata.requires("unskew") or [])
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("app", "keyed", "spark"))
    ]
    return [name for name in names if _installed_version(name) is None]


def other_versions() -> list[str]:
    """The packages that are installed in another version than the pinned one, as `name found (pinned)`."""
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
    """Let uv choose versions as in an empty environment, and write them to `requirements.lock` and the image's lock."""
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
