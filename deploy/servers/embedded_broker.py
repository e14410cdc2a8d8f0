"""Starts and stops the embedded broker, which runs between commands for all to find."""

from collections.abc import Mapping
from pathlib import Path

from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.process import end_process
from unskew.errors import EnvironmentFault
from unskew.file_locks import write_private
from unskew.kafka.embedded_broker import BrokerAddress, current_file, default_data, find_broker, read_broker_address


def start_broker(
    data: Path | None = None, port: int | None = None, properties: Mapping[str, str] | None = None
) -> BrokerAddress:
    """Start a broker that outlives this process, for all commands to find, or return the running one.

    By default its data are in `default_data()`, and its port is that of its last run, or a free one.

    Raises ``EnvironmentFault`` if it can't be started, or a broker with other data or another port is running.
    """
    if address := find_broker():
        other_data = data is not None and data.absolute() != address.data
        if other_data or (port is not None and port != address.port):
            raise EnvironmentFault(
                f"a broker runs already at {address.bootstrap_servers} with its data in {address.data}; "
                "stop it first: `unskew kafka stop`"
            )
        return address
    broker = Broker(data or default_data(), port=port, properties=properties)
    broker.start(detached=True)
    return announce_broker(broker)


def announce_broker(broker: Broker) -> BrokerAddress:
    """Register a running broker as the one that commands find."""
    current = current_file()
    current.parent.mkdir(parents=True, exist_ok=True)
    write_private(current, f"{broker.data}\n")
    address = read_broker_address(broker.data)
    if address is None:
        raise EnvironmentFault(f"the broker ended right after its start; its log is {broker.log}")
    return address


def stop_broker() -> BrokerAddress | None:
    """Shut down the running broker, and wait until it has ended. Its data stay. Returns it, if any ran."""
    address = find_broker()
    if address is not None:
        end_process(address.pid, lambda: find_broker() == address)
    return address
