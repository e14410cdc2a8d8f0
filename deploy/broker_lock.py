"""One broker per data directory, and its address while it runs: what no crash can make wrong."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.errors import EnvironmentFault

_LOCK, _ADDRESS = "broker.lock", "broker.address"


@dataclass(frozen=True)
class Address:
    """A running broker: where clients connect, its JVM's process id, its data directory."""

    bootstrap_servers: str
    pid: int
    data: Path

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def log(self) -> Path:
        """Its log file."""
        return self.data / "broker.log"


def address_of(data: Path) -> Address | None:
    """The broker that runs on this directory; None if none does or it isn't ready yet."""
    try:
        with locked(data):
            return None
    except FileNotFoundError:
        return None
    except EnvironmentFault:
        pass
    try:
        return Address(**json.loads((data / _ADDRESS).read_text()), data=data)
    except FileNotFoundError:
        return None


def write_address(data: Path, bootstrap_servers: str, pid: int) -> None:
    """Write down where the broker that has just started is to be found."""
    temporary = data / f"{_ADDRESS}.new"
    temporary.write_text(json.dumps({"bootstrap_servers": bootstrap_servers, "pid": pid}))
    temporary.replace(data / _ADDRESS)


@contextmanager
def locked(data: Path, patience: float = 0) -> Iterator[int]:
    """Hold the directory for a broker; yields the descriptor that its process shall inherit.

    The kernel frees the lock when we and that process have let go of it. Kafka's own lock comes too late: by then a
    second broker has already written to the first one's metadata. `patience` is how many seconds to try.

    Raises
    ------
    EnvironmentFault
        If another broker has it.
    """
    lock = os.open(data / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + patience
    try:
        while not _try(lock):
            if time.monotonic() >= deadline:
                raise EnvironmentFault(f"another broker uses {data}; stop that, or choose another directory")
            time.sleep(0.05)
        (data / _ADDRESS).unlink(missing_ok=True)  # a former broker's
        yield lock
    finally:
        os.close(lock)


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
