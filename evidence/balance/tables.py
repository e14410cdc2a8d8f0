"""Files of figures: CSV, compressed where the name ends in ``.gz``."""

import gzip
from pathlib import Path
from typing import IO


def open_table(path: Path, mode: str = "r") -> IO[str]:
    """A file of text, for the ``csv`` module. ``mode``: ``r`` or ``w``."""
    if path.suffix == ".gz":
        return gzip.open(path, f"{mode}t", newline="", encoding="utf-8")
    return path.open(mode, newline="", encoding="utf-8")
