"""One broker per data directory, and a way to know whether one runs there that no crash can make wrong."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.errors import EnvironmentFault


def in_use(data: Path) -> bool:
    """Whether a broker runs on this directory."""
    try:
        with locked(data):
            return False
    except FileNotFoundError:
        return False
    except EnvironmentFault:
        return True


@contextmanager
def locked(data: Path) -> Iterator[int]:
    """Hold the directory for a broker; yields the descriptor that its process shall inherit.

    The kernel frees the lock when we and that process have let go of it. Kafka's own lock comes too late: by then a
    second broker has already written to the first one's metadata.

    Raises
    ------
    EnvironmentFault
        If another broker has it.
    """
    lock = os.open(data / "broker.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield lock
    except BlockingIOError:
        raise EnvironmentFault(f"another broker uses {data}; stop that, or choose another directory") from None
    finally:
        os.close(lock)
