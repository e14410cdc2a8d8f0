"""Which InfluxDB to use, and its token: one description for the writers and readers of points."""

from dataclasses import dataclass
from typing import Self

from unskew.deploy.servers import stack
from unskew.errors import UsageError


def require_http(option: str, url: str) -> None:
    """Check that a URL is a server's http or https address.

    Raises
    ------
    UsageError
        If it isn't.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{option} {url}: no address; valid: http://HOST:PORT or https://HOST:PORT")


@dataclass(frozen=True)
class InfluxTarget:
    """A bucket of an InfluxDB."""

    url: str  #: InfluxDB's URL, token, organisation and bucket.
    token: str
    org: str
    bucket: str

    def __post_init__(self) -> None:
        """Check what can be checked without a server.

        Raises
        ------
        UsageError
            If the URL isn't one, or there is no token.
        """
        require_http("InfluxDB's URL", self.url)
        if not self.token:
            raise UsageError(f"InfluxDB at {self.url} needs a token: INFLUXDB_V2_TOKEN")

    @classmethod
    def of(cls, url: str | None, token: str | None, org: str | None, bucket: str | None) -> Self | None:
        """The target that the options name, or else the running stack's. None if there is neither.

        Raises
        ------
        UsageError
            If the URL is invalid, or there is no token for it.
        """
        if url is not None:
            return cls(url, token or "", org or "unskew", bucket or "unskew")
        found = stack.find_server("influxdb")
        if found is None:
            return None
        return cls(found.url, found.access["token"], found.access["org"], bucket or found.access["bucket"])
