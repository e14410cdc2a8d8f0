"""Work that one process at a time may do, on this machine."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path


def exclusive(lock: Path) -> AbstractContextManager[object]:
    """Wait for the lock file's lock and hold it; the kernel frees it however we end."""
    from filelock import FileLock  # here: this module is read before anything is installed

    return FileLock(lock)


@contextmanager
def workshop(directory: Path) -> Iterator[Path]:
    """A temporary directory in one that the caller holds exclusively; what killed processes left there is removed."""
    for left in directory.glob("making-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=directory) as temporary:
        yield Path(temporary)
