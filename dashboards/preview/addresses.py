"""Which servers to ask: those that are named, else those of the running stack."""

from unskew.dashboards.preview.answers import InfluxDB, Prometheus
from unskew.dashboards.preview.sources import Sources
from unskew.deploy.client.influx_target import Target, require_http
from unskew.deploy.servers import stack
from unskew.errors import EnvironmentFault


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
    target = Target.of(url, token, org, bucket)
    if target is None:
        raise _missing("InfluxDB", "--influx-url")
    if prometheus is None:
        found = stack.running("prometheus")
        if found is None:
            raise _missing("Prometheus", "--prometheus-url")
        prometheus = found.url
    require_http("--prometheus-url", prometheus)
    return Sources(InfluxDB(target.url, target.token, target.org, target.bucket), Prometheus(prometheus))


def _missing(name: str, option: str) -> EnvironmentFault:
    return EnvironmentFault(f"no {name} of ours runs; start it with `unskew stack start`, or name one by {option}")
