"""A real InfluxDB 2.7 in a process of its own on the loopback interface, for trying out and for tests."""

import json
import secrets
from pathlib import Path

from unskew.deploy.installation.programs.influxd import influxd
from unskew.deploy.servers.http_server import HttpServer
from unskew.deploy.servers.loopback import ask
from unskew.errors import EnvironmentFault


class InfluxDB(HttpServer):
    """InfluxDB with an organisation, a bucket and a token that may do anything; as a context manager it runs inside.

    It is set up at the first start on a directory; later ones find what was set up then. Written points survive
    `stop`, `kill` and `restart`.

    Parameters
    ----------
    directory
        Its own: data, log, the token.
    port
        Where clients connect; a free port by default.
    token
        What clients show; the one that the directory was set up with, or a random one, by default.
    org, bucket
        The organisation and the bucket to make; only read when the directory is new.

    Examples
    --------
    >>> from influxdb_client import InfluxDBClient
    >>> with InfluxDB(Path("out/influxdb")) as server:  # doctest: +SKIP
    ...     client = InfluxDBClient(server.url, server.token, org=server.org)
    """

    name = "InfluxDB"
    health = "/health"

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        token: str | None = None,
        org: str = "unskew",
        bucket: str = "unskew",
    ) -> None:
        super().__init__(directory, port=port)
        self._access = self.directory / "access.json"
        kept = json.loads(self._access.read_text()) if self._access.is_file() else {}
        self.token: str = token or kept.get("token") or secrets.token_urlsafe(32)
        self.org: str = kept.get("org", org)
        self.bucket: str = kept.get("bucket", bucket)

    def _command(self) -> list[str | Path]:
        return [
            influxd(),
            f"--http-bind-address={self.listens}",
            f"--bolt-path={self.directory / 'influxd.bolt'}",
            f"--sqlite-path={self.directory / 'influxd.sqlite'}",
            f"--engine-path={self.directory / 'engine'}",
            "--log-level=warn",
            "--reporting-disabled",
            "--ui-disabled",  # our build has none
        ]

    def _ready(self) -> None:
        if not ask(f"{self.url}/api/v2/setup")["allowed"]:
            return
        access = {"token": self.token, "org": self.org, "bucket": self.bucket}
        self._access.touch(mode=0o600)
        self._access.write_text(json.dumps(access))
        # The password is for the web interface, which isn't there.
        login = {"username": "unskew", "password": secrets.token_urlsafe(32)}
        try:
            ask(f"{self.url}/api/v2/setup", {**access, **login})
        except OSError as error:
            raise EnvironmentFault(f"InfluxDB refuses to be set up: {error}") from error

    def _announcement(self) -> dict[str, str]:
        return {**super()._announcement(), "token": self.token, "org": self.org, "bucket": self.bucket}
