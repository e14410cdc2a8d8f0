"""One server per directory, and where that server is to be found while it runs: what no crash can make wrong."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unskew.errors import EnvironmentFault


@contextmanager
def occupied(directory: Path, what: str, patience: float = 0) -> Iterator[int]:
    """Hold the directory for a server; yields the descriptor that its process shall inherit.

    The kernel frees the directory when we and that process have let go of the descriptor, however they ended. (Kafka's
    own lock comes too late: by then a second broker has already written to the first one's metadata.)

    Parameters
    ----------
    directory
        The server's own.
    what
        The kind of server, such as `broker`; directories are held per kind.
    patience
        Seconds to try.

    Raises
    ------
    EnvironmentFault
        If another server of this kind has it.
    """
    lock = os.open(directory / f"{what}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    try:
        while not _try(lock):
            if time.monotonic() >= deadline:
                raise EnvironmentFault(f"another {what} uses {directory}; stop that, or choose another directory")
            time.sleep(0.05)
        _address(directory, what).unlink(missing_ok=True)  # a former server's
        yield lock
    finally:
        os.close(lock)


def write_address(directory: Path, what: str, address: Mapping[str, Any]) -> None:
    """Write down where the server that has just started is to be found."""
    path = _address(directory, what)
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(json.dumps(address))
    temporary.chmod(0o600)
    temporary.replace(path)


def read_address(directory: Path, what: str) -> dict[str, Any] | None:
    """What the server that runs on this directory wrote down; None if none runs or it isn't ready yet."""
    try:
        with occupied(directory, what):
            return None
    except FileNotFoundError:
        return None
    except EnvironmentFault:
        pass
    try:
        return json.loads(_address(directory, what).read_text())
    except FileNotFoundError:
        return None


def _address(directory: Path, what: str) -> Path:
    return directory / f"{what}.address"


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
