"""`unskew kafka start|stop|status`: the embedded broker as a command."""

from pathlib import Path
from typing import Annotated

import typer

from unskew.deploy.servers import embedded_broker
from unskew.deploy.servers.broker import Broker
from unskew.deploy.servers.embedded_broker import BrokerAddress
from unskew.deploy.servers.process import ForegroundCommand
from unskew.deploy.servers.server import describe_move
from unskew.errors import EnvironmentFault
from unskew.kafka.connection import Connection
from unskew.kafka.topics import list_topics
from unskew.shell import parse_pairs

app = typer.Typer(help="The embedded Kafka broker: start it, stop it, see whether it runs.", no_args_is_help=True)


@app.command()
def start(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port for clients.", show_default="that of its last run, or a free one"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Directory for the broker's topics, settings and log. They are kept.", show_default="in UNSKEW_HOME"
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A further property of the broker; repeatable."),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in the foreground, and stop the broker on Ctrl-C.")
    ] = False,
) -> None:
    """Start a broker on this machine and leave it running. The other commands then use it."""
    extra = parse_pairs("--property", properties or [])
    if foreground:
        _stay_with_broker(Broker(data or embedded_broker.default_data(), port=port, properties=extra))
        return
    before = embedded_broker.find_broker()
    if not before:
        print("starting Kafka ...", flush=True)
    address = embedded_broker.start_broker(data, port, extra)
    _print_broker("runs already" if before else "is ready", address)
    print("stop it:         unskew kafka stop")


@app.command()
def stop() -> None:
    """Stop the broker. Its topics are kept for the next start."""
    address = embedded_broker.stop_broker()
    if address is None:
        print("no embedded broker is running")
    else:
        print(f"stopped the broker at {address.bootstrap_servers}; its topics are kept in {address.data}")


@app.command()
def status() -> None:
    """Show whether the broker runs, at which address, and its topics. Exit code 1: it doesn't run."""
    address = embedded_broker.find_broker()
    if address is None:
        raise EnvironmentFault("no embedded broker is running; start one with `unskew kafka start`")
    _print_broker("runs", address)
    found = list_topics(Connection(address.bootstrap_servers))
    listed = ", ".join(f"{name} ({partitions})" for name, partitions in found.items())
    print(f"topics:          {listed or 'none'}")


def _stay_with_broker(broker: Broker) -> None:
    if address := embedded_broker.find_broker():
        raise EnvironmentFault(f"a broker runs already at {address.bootstrap_servers}; stop it: `unskew kafka stop`")
    print("starting Kafka ...", flush=True)
    with broker:
        foreground = ForegroundCommand()
        _print_broker("is ready", embedded_broker.announce_broker(broker))
        print("stop it:         Ctrl-C", flush=True)
        stopped = foreground.stay(lambda: broker.alive)
    if stopped:
        print(f"\nstopped; its topics are kept in {broker.data}")
    else:  # by `unskew kafka stop` in another terminal, or by a crash
        print(f"Kafka has ended; its log is {broker.log}")


def _print_broker(state: str, address: BrokerAddress) -> None:
    print(f"Kafka {state} at {address.bootstrap_servers}")
    if address.moved_from is not None:
        print(describe_move("Kafka", address.moved_from))
    print("use it:          unskew commands find it by themselves; for other clients")
    print(f"                 export KAFKA_BOOTSTRAP_SERVERS={address.bootstrap_servers}")
    print(f"data, log:       {address.data}, {address.log}")
