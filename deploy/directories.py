"""The directories of the project: one for what it fetches and its servers store, one for what all checkouts share."""

import os
from pathlib import Path


def data_directory() -> Path:
    """The project's own directory: `$UNSKEW_HOME`, else `.unskew/` of the checkout, else the user's cache.

    Returns
    -------
    An absolute path; the directory need not exist yet. It has `jars/` (JVM archives), `kafka/` (the embedded broker's
    data, log and address), `checkpoints/`, and more. All but the servers' data and the checkpoints can be had again.
    """
    if configured := os.environ.get("UNSKEW_HOME"):
        return Path(configured).expanduser().absolute()
    root = checkout()
    return root / ".unskew" if root else cache_directory()


def checkout() -> Path | None:
    """The root of the checkout that this code is run from; None for a copy installed into site-packages."""
    root = Path(__file__).resolve().parents[1]
    return root if (root / "pyproject.toml").is_file() else None


def cache_directory() -> Path:
    """The user's cache of what takes long to make and is the same for all checkouts: server programs.

    Returns
    -------
    `$XDG_CACHE_HOME/unskew`, by default `~/.cache/unskew`; the directory need not exist yet.
    """
    configured = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(configured).expanduser().absolute() / "unskew"
