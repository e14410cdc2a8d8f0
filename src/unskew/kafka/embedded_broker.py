"""Finds the running embedded broker, which a command has started."""

from dataclasses import dataclass
from pathlib import Path

from unskew.directories import data_directory
from unskew.errors import EnvironmentFault
from unskew.server_addresses import read_address

#: The kind of server, which names its directory's lock and address.
KIND = "broker"


@dataclass(frozen=True)
class BrokerAddress:
    """A running broker."""

    bootstrap_servers: str  #: `host:port` for clients.
    pid: int  #: The process id of its JVM.
    data: Path  #: Its data directory.
    moved_from: int | None = None  #: The port of its previous run, if another program has taken that.

    @property
    def port(self) -> int:
        """The port for clients."""
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def log(self) -> Path:
        """Its log file."""
        return self.data / "broker.log"


def read_broker_address(data: Path) -> BrokerAddress | None:
    """The broker that runs on this directory, if it is ready."""
    found = read_address(data, KIND)
    return BrokerAddress(**found, data=data) if found else None


def default_data() -> Path:
    """The broker's default directory of topics."""
    return data_directory() / "kafka" / "data"


def find_broker() -> BrokerAddress | None:
    """The running embedded broker, if any."""
    try:
        data = Path(current_file().read_text().strip())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentFault(f"cannot read {current_file()}: {error.strerror}") from error
    return read_broker_address(data)


def current_file() -> Path:
    """The file with the directory of the broker for commands."""
    return data_directory() / "kafka" / "current"
