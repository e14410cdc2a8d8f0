"""InfluxDB 2.7 as a process on the loopback interface, for trying out and for tests."""

import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path

from unskew.deploy.servers.server import HttpServer
from unskew.directories import cache_directory
from unskew.errors import EnvironmentFault
from unskew.file_locks import write_private
from unskew.loopback import fetch_response

#: The version of tests, and of `make servers`.
VERSION = "2.7.12"


def require_influxd() -> Path:
    """The server's program, `influxd`, found by `find_influxd`.

    Raises ``EnvironmentFault`` if there is none, or `$UNSKEW_INFLUXD` isn't InfluxDB 2.
    """
    if found := find_influxd():
        return found
    raise EnvironmentFault(
        "InfluxDB is not on this machine: put an influxd of InfluxDB 2.7 on the PATH or name it in UNSKEW_INFLUXD; "
        "in the project's repository, `make servers` makes one"
    )


def find_influxd() -> Path | None:
    """The `influxd` of `$UNSKEW_INFLUXD`, or the PATH's if it is InfluxDB 2, or the user's cache's, or None.

    Raises ``EnvironmentFault`` if the variable's program isn't InfluxDB 2.
    """
    if named := os.environ.get("UNSKEW_INFLUXD"):
        path = Path(named).expanduser().absolute()
        if not is_version_2(path):
            raise EnvironmentFault(f"UNSKEW_INFLUXD names {path}, which is no influxd of InfluxDB 2")
        return path
    on_path = shutil.which("influxd")
    if on_path and is_version_2(Path(on_path)):
        return Path(on_path)
    return influxd_cache_path() if influxd_cache_path().is_file() else None


def influxd_cache_path() -> Path:
    """The path at which `make servers` installs the program."""
    return cache_directory() / "influxd" / VERSION / "influxd"


def is_version_2(program: Path) -> bool:
    """Whether the program is InfluxDB 2's `influxd` and runs on this machine."""
    try:
        answer = subprocess.run([program, "version"], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return answer.startswith("InfluxDB v2.")


class InfluxDBServer(HttpServer):
    """InfluxDB with an organisation, a bucket and an all-access token. As a context manager it runs inside the block.

    The first start on a directory sets up InfluxDB, with a random token. Later starts find organisation, bucket and
    token there. Points survive `stop`, `kill` and `restart`.

    Examples
    --------
    >>> from influxdb_client import InfluxDBClient
    >>> with InfluxDBServer(Path("out/influxdb")) as server:  # doctest: +SKIP
    ...     client = InfluxDBClient(server.url, server.token, org=server.org)
    """

    name = "InfluxDB"
    health = "/health"

    def __init__(self, directory: Path, *, port: int | None = None) -> None:
        super().__init__(directory, port=port)
        self._kept = self.directory / "access.json"
        new = {"token": secrets.token_urlsafe(32), "org": "unskew", "bucket": "unskew"}
        self._access: dict[str, str] = json.loads(self._kept.read_text()) if self._kept.is_file() else new
        self.token, self.org, self.bucket = (self._access[name] for name in new)

    def _command(self) -> list[str | Path]:
        return [
            require_influxd(),
            f"--http-bind-address={self.listen_address}",
            f"--bolt-path={self.directory / 'influxd.bolt'}",
            f"--sqlite-path={self.directory / 'influxd.sqlite'}",
            f"--engine-path={self.directory / 'engine'}",
            "--log-level=warn",
            "--reporting-disabled",
            "--ui-disabled",  # our build has none
        ]

    def _ready(self) -> None:
        if not fetch_response(f"{self.url}/api/v2/setup")["allowed"]:
            return
        write_private(self._kept, json.dumps(self._access))
        # The password is for the disabled web interface.
        login = {"username": "unskew", "password": secrets.token_urlsafe(32)}
        try:
            fetch_response(f"{self.url}/api/v2/setup", {**self._access, **login})
        except OSError as error:
            raise EnvironmentFault(f"InfluxDB refuses to be set up: {error}") from error

    def _announcement(self) -> dict[str, str]:
        return {**super()._announcement(), **self._access}
