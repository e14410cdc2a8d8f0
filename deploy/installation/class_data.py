"""Class-data archives: a JVM's classes as they lie in its memory, so that it needn't read and check each one anew.

With one, Spark is at its first batches after two thirds of the CPU. `unskew.apps.run.training` makes them, once an
installation. Without one, or with one of other jars (the JVM checks that), a JVM is slow to start, nothing else.
"""

import hashlib
import os
from pathlib import Path

from unskew.deploy.home import home
from unskew.deploy.installation.jars import described
from unskew.deploy.installation.java import find_java

#: What runs in a JVM of ours and has an archive.
PROGRAMS = ("spark", "broker")
#: With this variable set, programs record which classes they load and write them when they end.
RECORD = "UNSKEW_RECORD_CLASSES"

_SILENT = "-Xlog:cds*=off"  # that an archive doesn't fit is not the user's concern


def folder() -> Path:
    """Where the archives are."""
    return home() / "class-data"


def archive(program: str) -> Path:
    """Where the archive of a program for this Java and these jars is, or would be."""
    java = find_java()
    modules = (java.home / "lib" / "modules").stat()  # another one after an update of Java
    parts = (java.home, modules.st_size, modules.st_mtime_ns, described())
    return folder() / f"{program}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}.jsa"


def recorded(program: str) -> Path:
    """Where a program that records writes; whole when the program has ended."""
    return archive(program).with_suffix(".part")


def missing() -> bool:
    """Whether a program has no archive."""
    return not all(archive(program).is_file() for program in PROGRAMS)


def options(program: str) -> list[str]:
    """What to tell a program's JVM: use the archive if there is one, or record."""
    if os.environ.get(RECORD):
        quick = "-XX:TieredStopAtLevel=1"  # code needn't be good for that
        return [f"-XX:ArchiveClassesAtExit={recorded(program)}", "-Xlog:disable", quick]
    found = archive(program)
    return [f"-XX:SharedArchiveFile={found}", _SILENT] if found.is_file() else []
