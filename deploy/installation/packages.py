"""The Python packages that this environment should have: `requirements.lock`, of which `make setup` installs each."""

import re
from importlib import metadata
from pathlib import Path

from unskew.deploy.home import checkout

LOCK = (checkout() or Path()) / "requirements.lock"


def locked_versions() -> dict[str, str]:
    """Package → version as pinned; empty if this copy of the project isn't a checkout."""
    if not LOCK.is_file():
        return {}
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", LOCK.read_text(), re.MULTILINE)
    return dict(pins)


def missing_packages() -> list[str]:
    """What is pinned, or else declared as a dependency, and not installed."""
    names = list(locked_versions()) or [
        re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0]
        for requirement in metadata.requires("unskew") or []
        if "extra ==" not in requirement
    ]
    return [name for name in names if _installed(name) is None]


def other_versions() -> list[str]:
    """What is installed in another version than the pinned one, as `name found (pinned)`."""
    found = ((name, _installed(name), pinned) for name, pinned in locked_versions().items())
    return [f"{name} {version} ({pinned})" for name, version, pinned in found if version not in {None, pinned}]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
