"""Work that one process at a time may do, on this machine."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Wait for the lock file's lock and hold it; the kernel frees it however we end."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def workshop(directory: Path) -> Iterator[Path]:
    """A temporary directory in one that the caller holds exclusively; what killed processes left there is removed."""
    for left in directory.glob("making-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=directory) as temporary:
        yield Path(temporary)
