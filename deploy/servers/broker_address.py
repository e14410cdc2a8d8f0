"""Where the broker of a data directory is to be found while it runs."""

from dataclasses import dataclass
from pathlib import Path

from unskew.deploy.servers import occupancy
from unskew.deploy.servers.broker import Broker


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
    found = occupancy.read_address(data, Broker.name)
    return Address(**found, data=data) if found else None
