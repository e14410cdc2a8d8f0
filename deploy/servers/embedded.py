"""The embedded broker that lives on between commands, and how the others find it."""

from collections.abc import Mapping
from pathlib import Path

from unskew.deploy.home import home
from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.broker_address import Address, address_of
from unskew.deploy.servers.child import end
from unskew.errors import EnvironmentFault


def default_data() -> Path:
    """Where the broker keeps its topics unless told otherwise."""
    return home() / "kafka" / "data"


def running() -> Address | None:
    """The embedded broker that runs now; None if there is none, however it ended."""
    try:
        data = Path(_current().read_text().strip())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentFault(f"cannot read {_current()}: {error.strerror}") from error
    return address_of(data)


def start(data: Path | None = None, port: int | None = None, properties: Mapping[str, str] | None = None) -> Address:
    """Start a broker that outlives this process, for all commands to find; one that runs already is the answer.

    Parameters
    ----------
    data, port, properties
        As of `Broker`; by default `default_data()`, a free port and nothing more.

    Raises
    ------
    EnvironmentFault
        If it can't be started, or one with other data or another port runs already.
    """
    if address := running():
        require_none_other(address, data, port)
        return address
    broker = Broker(data or default_data(), port=port, properties=properties)
    broker.start(detached=True)
    return announce(broker)


def announce(broker: Broker) -> Address:
    """Make a broker that runs the one that commands find."""
    current = _current()
    current.parent.mkdir(parents=True, exist_ok=True)
    current.write_text(f"{broker.data}\n")
    address = address_of(broker.data)
    if address is None:
        raise EnvironmentFault(f"the broker ended right after its start; its log is {broker.log}")
    return address


def require_none_other(address: Address, data: Path | None, port: int | None) -> None:
    """Refuse to take a running broker for one that was asked for with other data or another port."""
    other_data = data is not None and data.absolute() != address.data
    if other_data or (port is not None and port != address.port):
        raise EnvironmentFault(
            f"a broker runs already at {address.bootstrap_servers} with its data in {address.data}; "
            "stop it first: `unskew kafka stop`"
        )


def stop() -> Address | None:
    """Stop the broker that runs, in good order, and wait until it has ended; its data stay.

    Returns
    -------
    Address or None
        What was stopped; None if nothing ran.
    """
    address = running()
    if address is not None:
        end(address.pid, lambda: running() == address)
    return address


def _current() -> Path:
    return home() / "kafka" / "current"
