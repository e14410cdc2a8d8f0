"""Locks files while a process lives, and writes files that only their owner may read."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether there is a process with this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def lock_and_rename(new: Path, path: Path) -> int:
    """Lock a new file or folder, and then rename it to ``path``, so that no other process takes it for abandoned.

    Others find it under that name, so an unlocked one is abandoned.

    The kernel releases the lock when this process ends, however it ends, or closes the returned descriptor. Other
    containers see a lock, unlike a process id. A forked child has it, too, unless it starts a program.
    """
    descriptor = os.open(new, os.O_RDONLY)
    with suppress(OSError):  # no locks in this file system: `is_locked` is always true
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    new.replace(path)
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a live process may hold the file or folder. True if unknown."""
    try:
        # Don't follow another user's link, or wait for another user's pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, so that two callers don't see each other
        finally:
            os.close(descriptor)
    except OSError:
        return True
    return False


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, atomically."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)  # an interruption may have left one
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)
