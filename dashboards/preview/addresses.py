"""Which servers to ask: those that are named, else those of the running stack."""

from dashboards.preview.answers import InfluxDB, Prometheus
from dashboards.preview.sources import Sources
from deploy import stack
from deploy.errors import EnvironmentFault, UsageError


def sources(
    url: str | None = None,
    token: str | None = None,
    org: str | None = None,
    bucket: str | None = None,
    prometheus: str | None = None,
) -> Sources:
    """The servers.

    Raises
    ------
    UsageError
        A URL isn't one, or there is a URL of InfluxDB but no token.
    EnvironmentFault
        Nothing is named, and no stack runs.

    """
    for option, said in (("--influx-url", url), ("--prometheus-url", prometheus)):
        if said is not None and not said.startswith(("http://", "https://")):
            raise UsageError(f"{option} {said}: no address; valid: http://HOST:PORT")
    return Sources(_influxdb(url, token, org, bucket), Prometheus(prometheus or _running("prometheus").url))


def _influxdb(url: str | None, token: str | None, org: str | None, bucket: str | None) -> InfluxDB:
    if url is None:
        found = _running("influxdb")
        return InfluxDB(found.url, found.access["token"], found.access["org"], found.access["bucket"])
    if not token:
        raise UsageError("--influx-url needs --influx-token (or INFLUXDB_V2_TOKEN)")
    return InfluxDB(url, token, org or "unskew", bucket or "unskew")


def _running(part: str) -> stack.Running:
    found = stack.running(part)
    if found is None:
        option = "--influx-url" if part == "influxdb" else "--prometheus-url"
        raise EnvironmentFault(f"no {part} of ours runs; start it with `unskew stack start`, or name one by {option}")
    return found
