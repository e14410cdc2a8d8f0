"""Which InfluxDB, and the right to use it: said once by the user, for those who write points and those who ask."""

from dataclasses import dataclass
from typing import Self

from unskew.deploy.servers import stack
from unskew.errors import UsageError


def require_http(option: str, url: str) -> None:
    """Check a server's address.

    Raises
    ------
    UsageError
        It isn't one.

    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{option} {url}: no address; valid: http://HOST:PORT or https://HOST:PORT")


@dataclass(frozen=True)
class Target:
    """A bucket of an InfluxDB.

    Attributes
    ----------
    url, token, org, bucket : str
        As InfluxDB has them.

    """

    url: str
    token: str
    org: str
    bucket: str

    def __post_init__(self) -> None:
        """Check what can be checked without a server.

        Raises
        ------
        UsageError
            The URL isn't one, or there is no token.

        """
        require_http("--influx-url", self.url)
        if not self.token:
            raise UsageError("--influx-url needs --influx-token (or INFLUXDB_V2_TOKEN)")

    @classmethod
    def of(cls, url: str | None, token: str | None, org: str | None, bucket: str | None) -> Self | None:
        """What the options say, else the running stack's; None: there is neither.

        Raises
        ------
        UsageError
            The URL isn't one, or there is a URL but no token.

        """
        if url is not None:
            return cls(url, token or "", org or "unskew", bucket or "unskew")
        found = stack.running("influxdb")
        if found is None:
            return None
        return cls(found.url, found.access["token"], found.access["org"], bucket or found.access["bucket"])
