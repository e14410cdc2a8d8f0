"""The embedded broker's hold on its data directory, and its address while it runs."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from deploy import occupancy

_WHAT = "broker"


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
    found = occupancy.read_address(data, _WHAT)
    return Address(**found, data=data) if found else None


def write_address(data: Path, bootstrap_servers: str, pid: int) -> None:
    """Write down where the broker that has just started is to be found."""
    occupancy.write_address(data, _WHAT, {"bootstrap_servers": bootstrap_servers, "pid": pid})


def locked(data: Path, patience: float = 0) -> AbstractContextManager[int]:
    """Hold the directory for a broker, as `occupied` does.

    Kafka's own lock comes too late: by then a second broker has already written to the first one's metadata.
    """
    return occupancy.occupied(data, _WHAT, patience)
