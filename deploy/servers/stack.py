"""InfluxDB and Prometheus without Docker, which run between commands for all to find.

A process that exports metrics registers with Prometheus by ``registered_target``.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unskew.deploy.servers import influxdb, prometheus
from unskew.deploy.servers.influxdb import InfluxDBServer
from unskew.deploy.servers.process import end_process
from unskew.deploy.servers.prometheus import PrometheusServer
from unskew.deploy.servers.server import HttpServer
from unskew.directories import data_directory
from unskew.errors import EnvironmentFault
from unskew.file_locks import is_locked, lock_and_rename
from unskew.loopback import LOOPBACK
from unskew.server_addresses import read_address

RULES = tuple(sorted((Path(__file__).parents[1] / "rules").glob("*.yml")))
_EVERY = 2  # seconds between scrapes: batches take one or a few
_OWN_TARGET = re.compile(r"[0-9]{1,9}-[0-9]+")  # the name of a process's file of targets

_SERVERS: dict[str, type[HttpServer]] = {"influxdb": InfluxDBServer, "prometheus": PrometheusServer}
PARTS = tuple(_SERVERS)


@dataclass(frozen=True)
class StackServer:
    """A running server."""

    name: str  #: Its name for users.
    url: str  #: `http://host:port`.
    pid: int  #: The id of its process.
    directory: Path  #: Its data and log.
    access: Mapping[str, str]  #: What InfluxDB's clients need besides the URL: `token`, `org`, `bucket`.
    moved_from: int | None = None  #: The port of its previous run, if another program has taken that.

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name.lower()}.log"


def find_server(part: str) -> StackServer | None:
    """The running server of this part, one of `PARTS`, if any."""
    name = _SERVERS[part].name
    found = read_address(_server_directory(part), name)
    if found is None:
        return None
    url, pid, moved_from = found.pop("url"), found.pop("pid"), found.pop("moved_from", None)
    return StackServer(name, url, pid, _server_directory(part), found, moved_from)


def start_server(part: str, port: int | None = None) -> StackServer:
    """Start a server that outlives this process, for all commands to find, or return the running one.

    By default its port is that of its last run, or a free one.

    Raises ``EnvironmentFault`` if the program is missing, can't be started, or is running on another port.
    """
    found = find_server(part)
    if found is None:
        server = _make_server(part, port)
        server.start(detached=True)
        found = find_server(part)
        if found is None:
            raise EnvironmentFault(f"{server.name} ended right after its start; its log is {server.log}")
    elif port is not None and not found.url.endswith(f":{port}"):
        raise EnvironmentFault(f"{found.name} runs already at {found.url}; stop it first: `unskew stack stop`")
    return found


def has_program(part: str) -> bool:
    """Whether the part's program is on this machine.

    Raises ``EnvironmentFault`` if the program that the user has named is another one.
    """
    return (influxdb.find_influxd() if part == "influxdb" else prometheus.find_programs()) is not None


def stop_server(part: str) -> StackServer | None:
    """Shut down the server, and wait until it has ended. Its data stay. Returns it, if it ran."""
    found = find_server(part)
    if found is not None:
        end_process(found.pid, lambda: find_server(part) == found)
    return found


def _make_server(part: str, port: int | None) -> HttpServer:
    if part == "influxdb":
        return InfluxDBServer(_server_directory(part), port=port)
    return PrometheusServer(
        _server_directory(part), port=port, targets_from=targets_directory(), rules=RULES, every=_EVERY
    )


def _server_directory(part: str) -> Path:
    return data_directory() / part


def targets_directory() -> Path:
    """The directory of targets of the stack's Prometheus."""
    return _server_directory("prometheus") / "targets"


@contextmanager
def registered_target(port: int) -> Iterator[None]:
    """Inside the block, the stack's Prometheus, if it runs, scrapes `/metrics` on this machine's `port`.

    If the process is killed inside the block, it is shown as down until another process enters one.
    """
    if find_server("prometheus") is None:
        yield
        return
    for file in targets_directory().glob("*.json"):
        if _OWN_TARGET.fullmatch(file.stem) and not is_locked(file):  # other names are a user's
            file.unlink(missing_ok=True)
    own = targets_directory() / f"{os.getpid()}-{port}.json"  # a process may have several pages
    new = own.with_suffix(".new")
    new.write_text(json.dumps([{"targets": [f"{LOOPBACK}:{port}"]}]))
    held = lock_and_rename(new, own)
    try:
        yield
    finally:
        own.unlink(missing_ok=True)
        os.close(held)
