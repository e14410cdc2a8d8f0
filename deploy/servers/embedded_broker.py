"""The embedded broker, which runs on between commands: one command starts it, the others find it."""

from collections.abc import Mapping
from pathlib import Path

from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.process import end
from unskew.errors import EnvironmentFault
from unskew.file_locks import write_private
from unskew.kafka.embedded_broker import Address, address_of, current_file, default_data, running


def start(data: Path | None = None, port: int | None = None, properties: Mapping[str, str] | None = None) -> Address:
    """Start a broker that outlives this process, for all commands to find. If one runs already, return that.

    Parameters
    ----------
    data, port, properties
        As of `Broker`. By default: `default_data()`, the port of its last run or a free one, and no properties.

    Raises
    ------
    EnvironmentFault
        If it can't be started, or a broker with other data or another port runs already.
    """
    if address := running():
        require_none_other(address, data, port)
        return address
    broker = Broker(data or default_data(), port=port, properties=properties)
    broker.start(detached=True)
    return announce(broker)


def announce(broker: Broker) -> Address:
    """Make a running broker the one that commands find."""
    current = current_file()
    current.parent.mkdir(parents=True, exist_ok=True)
    write_private(current, f"{broker.data}\n")
    address = address_of(broker.data)
    if address is None:
        raise EnvironmentFault(f"the broker ended right after its start; its log is {broker.log}")
    return address


def require_none_other(address: Address, data: Path | None, port: int | None) -> None:
    """Refuse a running broker if the user wants another data directory or another port.

    Raises
    ------
    EnvironmentFault
        If it is another one. The message says how to stop the broker.
    """
    other_data = data is not None and data.absolute() != address.data
    if other_data or (port is not None and port != address.port):
        raise EnvironmentFault(
            f"a broker runs already at {address.bootstrap_servers} with its data in {address.data}; "
            "stop it first: `unskew kafka stop`"
        )


def stop() -> Address | None:
    """Stop the broker that runs in an orderly way, and wait until it has ended. Its data stay.

    Returns
    -------
    Address or None
        The broker that was stopped. None if none ran.
    """
    address = running()
    if address is not None:
        end(address.pid, lambda: running() == address)
    return address
