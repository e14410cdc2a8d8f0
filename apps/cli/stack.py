"""`unskew stack start|stop|status`: InfluxDB and Prometheus on this machine, without Docker."""

import json
from functools import partial
from typing import Annotated, Any

import typer

from unskew.apps.cli.option_groups import JsonOption
from unskew.deploy.servers import stack
from unskew.deploy.servers.server import describe_move
from unskew.errors import EnvironmentFault, UsageError
from unskew.loopback import fetch_response

app = typer.Typer(help="Start and stop InfluxDB and Prometheus on this machine, without Docker.", no_args_is_help=True)

_port_option = partial(typer.Option, min=1, max=65535, show_default="that of its last run, or a free one")
PartsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="influxdb|prometheus", help="Which of the two.", show_default="both")
]


@app.command()
def start(
    parts: PartsArgument = None,
    influxdb_port: Annotated[int | None, _port_option(help="InfluxDB's port.")] = None,
    prometheus_port: Annotated[int | None, _port_option(help="Prometheus' port.")] = None,
) -> None:
    """Start InfluxDB and Prometheus, and leave them running. `unskew topology` then sends its metrics to them.

    Their programs must be on this machine. If one is missing, the error says how to get it.
    """
    ports = {"influxdb": influxdb_port, "prometheus": prometheus_port}
    for part in _select_programs(parts):
        before = stack.find_server(part)
        server = stack.start_server(part, ports[part])
        _print_server("runs already" if before else "is ready", server)
    print("use them:        unskew topology ...; it finds them by itself")
    print("stop them:       unskew stack stop")


@app.command()
def stop(parts: PartsArgument = None) -> None:
    """Stop InfluxDB and Prometheus. Their data are kept for the next start."""
    stopped = [server for part in _select_programs(parts) if (server := stack.stop_server(part))]
    for server in stopped:
        print(f"stopped {server.name} at {server.url}; its data are kept in {server.directory}")
    if not stopped:
        print("nothing of the stack is running")


@app.command()
def status(parts: PartsArgument = None, as_json: JsonOption = False) -> None:
    """Show which of the two run, at which addresses, and what Prometheus scrapes. Exit code 1: none runs."""
    found = [server for part in _select_programs(parts) if (server := stack.find_server(part))]
    if not found:
        raise EnvironmentFault("nothing of the stack is running; start it with `unskew stack start`")
    if as_json:
        print(json.dumps([_describe_server(server) for server in found], indent=2))
        return
    for server in found:
        _print_server("runs", server)


def _select_programs(named: list[str] | None) -> list[str]:
    for part in named or []:
        if part not in stack.PARTS:
            raise UsageError(f"{part!r} is no part of the stack; valid: {', '.join(stack.PARTS)}")
    return [part for part in stack.PARTS if not named or part in named]


def _print_server(state: str, server: stack.StackServer) -> None:
    print(f"{server.name} {state} at {server.url}")
    if server.moved_from is not None:
        print(describe_move(server.name, server.moved_from))
    if server.access:
        variables = {"URL": server.url, **{name.upper(): value for name, value in server.access.items()}}
        pairs = " ".join(f"INFLUXDB_V2_{name}={value}" for name, value in variables.items())
        print(f"for others:      export {pairs}")
    else:
        print(f"scrapes:         {', '.join(_list_targets(server)) or 'nothing yet'}")
    print(f"data, log:       {server.directory}, {server.log}")


def _describe_server(server: stack.StackServer) -> dict[str, Any]:
    own = {"access": dict(server.access)} if server.access else {"scrapes": _list_targets(server)}
    return {"name": server.name, "url": server.url, **own, "data": str(server.directory), "log": str(server.log)}


def _list_targets(server: stack.StackServer) -> list[str]:
    try:
        found = fetch_response(f"{server.url}/api/v1/targets?state=active")["data"]["activeTargets"]
    except OSError as error:
        raise EnvironmentFault(f"{server.name} does not answer at {server.url}: {error} (log: {server.log})") from error
    return [f"{target['scrapeUrl']} ({target['health']})" for target in found]
