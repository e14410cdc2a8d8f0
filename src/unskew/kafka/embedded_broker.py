"""Where the embedded broker listens, if it runs: one command starts it, the others find it."""

from dataclasses import dataclass
from pathlib import Path

from unskew.directories import data_directory
from unskew.errors import EnvironmentFault
from unskew.server_addresses import read_address

#: The kind of server, by which its directory's lock and address are named.
KIND = "broker"


@dataclass(frozen=True)
class BrokerAddress:
    """A running broker.

    Attributes
    ----------
    bootstrap_servers
        `host:port` for clients.
    pid
        The process id of its JVM.
    data
        Its data directory.
    moved_from
        The port of its previous run, if another program has taken that.
    """

    bootstrap_servers: str
    pid: int
    data: Path
    moved_from: int | None = None

    @property
    def port(self) -> int:
        """The port for clients."""
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def log(self) -> Path:
        """Its log file."""
        return self.data / "broker.log"


def read_broker_address(data: Path) -> BrokerAddress | None:
    """The broker that runs on this directory. None if none runs or it isn't ready yet."""
    found = read_address(data, KIND)
    return BrokerAddress(**found, data=data) if found else None


def default_data() -> Path:
    """The directory in which the broker keeps its topics by default."""
    return data_directory() / "kafka" / "data"


def find_broker() -> BrokerAddress | None:
    """The embedded broker that runs now. None if there is none, however it ended."""
    try:
        data = Path(current_file().read_text().strip())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentFault(f"cannot read {current_file()}: {error.strerror}") from error
    return read_broker_address(data)


def current_file() -> Path:
    """The file that names the directory of the broker that commands find."""
    return data_directory() / "kafka" / "current"
