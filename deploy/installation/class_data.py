"""Class-data archives: classes in a JVM's memory format, which it needn't parse and verify.

With an archive, Spark reaches its first batches after two thirds of the CPU time.
`unskew.apps.driver.class_data_archive` creates the archives once per installation. Without an archive, or with one of
other jars, which the JVM detects, it only starts more slowly.
"""

import hashlib
import os
from pathlib import Path

from unskew.deploy.installation.jars import description_hash
from unskew.deploy.installation.machine import find_java
from unskew.directories import data_directory

#: Our JVM programs with an archive.
PROGRAMS = ("spark", "broker")
#: If this variable is set, programs record the classes that they load, and write an archive at their end.
RECORD = "UNSKEW_RECORD_CLASSES"

_SILENT = "-Xlog:cds*=off"  # no message if an archive doesn't fit


def archives_directory() -> Path:
    return data_directory() / "class-data"


def archive_path(program: str) -> Path:
    """The file of a program's archive for this Java and these jars, which may not exist."""
    java = find_java()
    modules = (java.home / "lib" / "modules").stat()  # an update of Java changes it
    parts = (java.home, modules.st_size, modules.st_mtime_ns, description_hash())
    return archives_directory() / f"{program}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}.jsa"


def recording_path(program: str) -> Path:
    """The file that a recording program writes, complete when the program has ended."""
    return archive_path(program).with_suffix(".part")


def has_missing_archive() -> bool:
    return not all(archive_path(program).is_file() for program in PROGRAMS)


def jvm_options(program: str) -> list[str]:
    """JVM options with which a program records, or uses its archive if there is one."""
    if os.environ.get(RECORD):
        quick = "-XX:TieredStopAtLevel=1"  # recording needn't be fast
        return [f"-XX:ArchiveClassesAtExit={recording_path(program)}", "-Xlog:disable", quick]
    found = archive_path(program)
    return [f"-XX:SharedArchiveFile={found}", _SILENT] if found.is_file() else []
