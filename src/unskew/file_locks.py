"""Files that a process holds while it lives, and files that only their owner may read."""

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
    """Hold a new file or folder, so that no other process takes it for one that was left, and then name it ``path``.

    Others find it under that name, so one that they find unheld was left for good.

    The kernel ends the hold when this process ends, however it ends, or closes the descriptor that is returned. Other
    containers see a hold, where a process id says nothing. A child that is forked holds too, unless it starts a
    program.
    """
    descriptor = os.open(new, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks, on which `is_locked` is always true
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    new.replace(path)
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a process that lives may hold the file or folder. True if the system can't say."""
    try:
        # Another user's link isn't followed, and another user's pipe isn't waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look don't see each other
        finally:
            os.close(descriptor)
    except OSError:
        return True
    return False


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read. Readers find the old file or the new one, never a part."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)  # an interruption may have left one
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)
