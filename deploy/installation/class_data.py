"""Class-data archives: classes as a JVM has them in its memory, so that it needn't read and check each one anew.

With an archive, Spark is at its first batches after two thirds of the CPU. `unskew.apps.run.training` makes them, once
an installation. Without an archive, or with one of other jars (the JVM checks that), a JVM only starts more slowly.
"""

import hashlib
import os
from pathlib import Path

from unskew.deploy.directories import data_directory
from unskew.deploy.installation.jars import identity
from unskew.deploy.installation.machine import find_java

#: What runs in a JVM of ours and has an archive.
PROGRAMS = ("spark", "broker")
#: With this variable set, programs record which classes they load, and write an archive of them when they end.
RECORD = "UNSKEW_RECORD_CLASSES"

_SILENT = "-Xlog:cds*=off"  # a user needn't know that an archive doesn't fit


def folder() -> Path:
    """Where the archives are."""
    return data_directory() / "class-data"


def archive(program: str) -> Path:
    """The file of a program's archive for this Java and these jars, whether it exists or not."""
    java = find_java()
    modules = (java.home / "lib" / "modules").stat()  # an update of Java changes it
    parts = (java.home, modules.st_size, modules.st_mtime_ns, identity())
    return folder() / f"{program}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}.jsa"


def recorded(program: str) -> Path:
    """The file that a program writes if it records; it is whole when the program has ended."""
    return archive(program).with_suffix(".part")


def missing() -> bool:
    """Whether a program has no archive."""
    return not all(archive(program).is_file() for program in PROGRAMS)


def options(program: str) -> list[str]:
    """Options for a program's JVM: to use the archive if there is one, or to record."""
    if os.environ.get(RECORD):
        quick = "-XX:TieredStopAtLevel=1"  # to record, code needn't be fast
        return [f"-XX:ArchiveClassesAtExit={recorded(program)}", "-Xlog:disable", quick]
    found = archive(program)
    return [f"-XX:SharedArchiveFile={found}", _SILENT] if found.is_file() else []
