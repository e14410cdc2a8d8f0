"""The Python packages that this environment should have: `requirements.lock`, of which `make setup` installs each."""

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from unskew.deploy.home import checkout

LOCK = (checkout() or Path()) / "requirements.lock"


def locked_versions() -> dict[str, str]:
    """Package → version as pinned for this platform; empty if this copy of the project isn't a checkout."""
    if not LOCK.is_file():
        return {}
    lines = (line.rstrip(" \\") for line in LOCK.read_text().splitlines() if line[:1].isalnum())
    pins = [pin for pin in map(Requirement, lines) if pin.marker is None or pin.marker.evaluate()]
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}


def missing_packages() -> list[str]:
    """What is pinned, or else declared as a dependency of the command, and not installed."""
    names = list(locked_versions()) or [
        wanted.name
        for wanted in map(Requirement, metadata.requires("unskew") or [])
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("app", "spark"))
    ]
    return [name for name in names if _installed(name) is None]


def other_versions() -> list[str]:
    """What is installed in another version than the pinned one, as `name found (pinned)`."""
    found = ((name, _installed(name), pinned) for name, pinned in locked_versions().items())
    return [
        f"{name} {version} ({pinned})"
        for name, version, pinned in found
        if version is not None and Version(version) != Version(pinned)
    ]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
