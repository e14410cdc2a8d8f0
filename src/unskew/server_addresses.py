"""Records a server's address in its directory, and finds it there if the server runs.

The directory has a lock that the running server holds, and its address for clients.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unskew.errors import EnvironmentFault
from unskew.file_locks import write_private


@contextmanager
def lock_directory(directory: Path, kind: str, patience: float = 0) -> Iterator[int]:
    """Lock the directory for a server, and yield the file descriptor for the server's process to inherit.

    The kernel releases the lock when we and that process have closed the descriptor, however they ended. Kafka's lock
    comes too late: by then a second broker has written to the first one's metadata. Each ``kind`` of server has a lock.
    Raises ``EnvironmentFault`` if another server of this kind has the directory for ``patience`` (s).
    """
    lock = os.open(directory / f"{kind}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    try:
        while not _try_lock(lock):
            if time.monotonic() >= deadline:
                raise EnvironmentFault(f"another {kind} uses {directory}; stop that, or choose another directory")
            time.sleep(0.05)
        _address_file(directory, kind).unlink(missing_ok=True)  # of an ended server
        yield lock
    finally:
        os.close(lock)


def write_address(directory: Path, kind: str, address: Mapping[str, Any]) -> None:
    """Record the address of a started server for clients."""
    write_private(_address_file(directory, kind), json.dumps(address))


def read_address(directory: Path, kind: str) -> dict[str, Any] | None:
    """The recorded address of the server that runs on this directory, or None if none runs or is ready.

    Besides the server's announcement, it has `pid`, and perhaps `moved_from`: the port of the previous run, if another
    program has taken it.
    """
    try:
        with lock_directory(directory, kind):
            return None
    except FileNotFoundError:
        return None
    except EnvironmentFault:
        pass
    try:
        return json.loads(_address_file(directory, kind).read_text())
    except FileNotFoundError:
        return None


def _address_file(directory: Path, kind: str) -> Path:
    return directory / f"{kind}.address"


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
