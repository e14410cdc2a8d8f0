"""InfluxDB and Prometheus that live on between commands, and how the others find them; no Docker needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unskew.deploy.home import home
from unskew.deploy.installation.programs import influxd, prometheus
from unskew.deploy.servers.child import end
from unskew.deploy.servers.http_server import HttpServer
from unskew.deploy.servers.influxdb import InfluxDB
from unskew.deploy.servers.occupancy import read_address
from unskew.deploy.servers.prometheus import Prometheus
from unskew.errors import EnvironmentFault

RULES = tuple(sorted((Path(__file__).parents[1] / "rules").glob("*.yml")))
_EVERY = 2  # seconds between scrapes: a topology's batches take one or a few

_SERVERS: dict[str, type[HttpServer]] = {"influxdb": InfluxDB, "prometheus": Prometheus}
PARTS = tuple(_SERVERS)


@dataclass(frozen=True)
class Running:
    """A server of the stack that runs.

    Attributes
    ----------
    name
        As people know it.
    url
        `http://host:port`.
    pid
        Its process.
    directory
        Its data and log.
    access
        What clients of InfluxDB have to know too: `token`, `org`, `bucket`.
    """

    name: str
    url: str
    pid: int
    directory: Path
    access: Mapping[str, str]

    @property
    def log(self) -> Path:
        """Its log file."""
        return self.directory / f"{self.name.lower()}.log"


def running(part: str) -> Running | None:
    """The server of that part (one of `PARTS`); None if it doesn't run, however it ended."""
    name = _SERVERS[part].name
    found = read_address(_directory(part), name)
    if found is None:
        return None
    return Running(name, found.pop("url"), found.pop("pid"), _directory(part), found)


def start(part: str, port: int | None = None) -> Running:
    """Start a server that outlives this process, for all commands to find; one that runs already is the answer.

    Parameters
    ----------
    part
        One of `PARTS`.
    port
        Where clients connect; a free port by default.

    Raises
    ------
    EnvironmentFault
        If it can't be had or started, or runs already on another port.
    """
    found = running(part)
    if found is None:
        server = _server(part, port)
        server.start(detached=True)
        found = running(part)
        if found is None:
            raise EnvironmentFault(f"{server.name} ended right after its start; its log is {server.log}")
    elif port is not None and not found.url.endswith(f":{port}"):
        raise EnvironmentFault(f"{found.name} runs already at {found.url}; stop it first: `unskew stack stop`")
    return found


def at_hand(part: str) -> bool:
    """Whether its program is on this machine, so that a start takes no minutes.

    Raises
    ------
    EnvironmentFault
        If the user has named a program that is not the one.
    """
    return (influxd.present() if part == "influxdb" else prometheus.present()) is not None


def stop(part: str) -> Running | None:
    """Stop the server, in good order, and wait until it has ended; its data stay.

    Returns
    -------
    Running or None
        What was stopped; None if it didn't run.
    """
    found = running(part)
    if found is not None:
        end(found.pid, lambda: running(part) == found)
    return found


def _server(part: str, port: int | None) -> HttpServer:
    if part == "influxdb":
        return InfluxDB(_directory(part), port=port)
    return Prometheus(_directory(part), port=port, targets_from=targets(), rules=RULES, every=_EVERY)


def _directory(part: str) -> Path:
    return home() / part


def targets() -> Path:
    """The directory in which its Prometheus looks for the processes that it shall scrape."""
    return _directory("prometheus") / "targets"
