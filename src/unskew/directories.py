"""The project's directories: for downloads and servers' data, and for what all checkouts share."""

import os
from pathlib import Path


def data_directory() -> Path:
    """The project's directory: `$UNSKEW_HOME`, or the checkout's `.unskew/`, or the user's cache.

    Returns
    -------
    An absolute path, which may not exist yet. It has `jars/` (JVM archives), `kafka/` (the embedded broker's data, log
    and address), `checkpoints/`, and more. Only servers' data and checkpoints can't be recreated.
    """
    if configured := os.environ.get("UNSKEW_HOME"):
        return Path(configured).expanduser().absolute()
    root = find_checkout()
    return root / ".unskew" if root else cache_directory()


def jars_directory() -> Path:
    """The directory of the JVM archives: `$UNSKEW_JARS`, or `jars/` in the project's directory.

    Returns
    -------
    An absolute path. With a read-only image, set `$UNSKEW_HOME` elsewhere; the archives stay in the image.
    """
    if configured := os.environ.get("UNSKEW_JARS"):
        return Path(configured).expanduser().absolute()
    return data_directory() / "jars"


def find_checkout() -> Path | None:
    """The root of the checkout that this code runs from. None for a copy in site-packages."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def cache_directory() -> Path:
    """The user's cache, for what all checkouts share and takes long to create: server programs.

    Returns
    -------
    `$XDG_CACHE_HOME/unskew`, by default `~/.cache/unskew`, which may not exist yet.
    """
    configured = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(configured).expanduser().absolute() / "unskew"
