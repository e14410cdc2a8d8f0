"""What the project asks of a machine. Standard library only: this runs before anything is installed."""

import os
import platform
import shutil
import sys
from pathlib import Path

from unskew.errors import EnvironmentFault

PYTHON = ((3, 11), (3, 14))  # first and last version that all pinned packages have wheels for
DISK_GB = 3  # 2 for the environment, the rest for topics and checkpoints
MEMORY_GB = 2  # the broker 0.2, Spark's driver 1, its Python workers


def require_python() -> None:
    """Refuse a Python that the pinned packages don't run on, or that can't make environments.

    Raises
    ------
    EnvironmentFault
        With what to install.
    """
    first, last = (".".join(map(str, version)) for version in PYTHON)
    if not PYTHON[0] <= sys.version_info[:2] <= PYTHON[1]:
        raise EnvironmentFault(
            f"Python {first} to {last} is needed and {sys.executable} is {platform.python_version()}; "
            f"install one and name it: `make setup PYTHON=python{last}`"
        )


def require_disk(directory: Path, needed_gb: float = DISK_GB) -> None:
    """Refuse to begin what won't fit.

    Raises
    ------
    EnvironmentFault
        With how much is missing.
    """
    free = shutil.disk_usage(existing_parent(directory)).free / 1e9
    if free < needed_gb:
        raise EnvironmentFault(
            f"{directory}: {free:.1f} GB are free on that disk and {needed_gb:g} are needed; make room"
        )


def existing_parent(path: Path) -> Path:
    """The path itself or the nearest directory above it that exists."""
    while not path.exists():
        path = path.parent
    return path


def memory_gb() -> float | None:
    """Memory that programs can still have, in GB; None where the system doesn't tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) / 1e6
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9  # macOS: all there is
    except (ValueError, OSError):
        return None
