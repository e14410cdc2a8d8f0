"""The project's directories: one for what it fetches and its servers store, one for what all checkouts share."""

import os
from pathlib import Path


def data_directory() -> Path:
    """The project's own directory: `$UNSKEW_HOME`, or `.unskew/` of the checkout, or the user's cache.

    Returns
    -------
    An absolute path. The directory need not exist yet. It has `jars/` (JVM archives), `kafka/` (the embedded broker's
    data, log and address), `checkpoints/`, and more. Only the servers' data and the checkpoints can't be made again.
    """
    if configured := os.environ.get("UNSKEW_HOME"):
        return Path(configured).expanduser().absolute()
    root = find_checkout()
    return root / ".unskew" if root else cache_directory()


def jars_directory() -> Path:
    """Where the JVM archives are: `$UNSKEW_JARS`, or `jars/` of the project's own directory.

    Returns
    -------
    An absolute path. Whoever runs an image whose files can't be written sets `$UNSKEW_HOME` elsewhere; the archives
    stay where the image has them.
    """
    if configured := os.environ.get("UNSKEW_JARS"):
        return Path(configured).expanduser().absolute()
    return data_directory() / "jars"


def find_checkout() -> Path | None:
    """The root of the checkout that this code is run from. None for a copy installed into site-packages."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def cache_directory() -> Path:
    """The user's cache, for what takes long to make and is the same for all checkouts: server programs.

    Returns
    -------
    `$XDG_CACHE_HOME/unskew`, by default `~/.cache/unskew`. The directory need not exist yet.
    """
    configured = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(configured).expanduser().absolute() / "unskew"
