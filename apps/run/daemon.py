"""Spark's Python daemon with our imports done: workers fork from it, so each starts in milliseconds, not seconds."""

import sys
from pathlib import Path


def installed(entry: str) -> bool:
    """Whether an entry of the path is one of Spark's archives, of a pyspark that is installed and on the path, too.

    Spark puts its archives first. What comes from an archive is compiled in each process, which takes a second; the
    packages beside it are the same, and compiled already.
    """
    archive = Path(entry)
    if archive.suffix != ".zip" or archive.parent.parts[-3:] != ("pyspark", "python", "lib"):
        return False
    packages = archive.parents[3]
    return str(packages) in sys.path and (packages / "pyspark").is_dir() and (packages / "py4j").is_dir()


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if not installed(entry)]
    from unskew.apps.run.preloaded import serve

    serve()
