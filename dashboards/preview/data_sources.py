"""The servers behind a dashboard's data sources, and their answers as Grafana reads them: series, or a table."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.rest import ApiException
from urllib3.exceptions import HTTPError as ConnectionFault

from unskew.apps.metrics.catalogue import get_metric
from unskew.apps.metrics.outputs import InfluxTarget, require_http
from unskew.dashboards.preview.selection import Selection
from unskew.deploy.servers import stack
from unskew.errors import EnvironmentFault
from unskew.loopback import DIRECT, LOOPBACK

_TIMEOUT = 30  # s
_THIS_MACHINE = (LOOPBACK, "localhost", "::1")
_TIME = "dateTime:RFC3339"
_MARGIN = 0.02  # of the range, on both sides
_FLUX_EXTENT = """
points = from(bucket: v.defaultBucket)
  |> range(start: v.timeRangeStart, stop: v.timeRangeStop)
  |> filter(fn: (r) => r._measurement == "batch" and r._field == "tuples")
  |> filter(fn: (r) => r.run =~ /^${run:regex}$/ and r.grouping =~ /^${grouping:regex}$/)
  |> group()
  |> keep(columns: ["_time"])
union(tables: [points |> sort(columns: ["_time"]) |> limit(n: 1), points |> sort(columns: ["_time"], desc: true)
  |> limit(n: 1)])
  |> rename(columns: {_time: "time"})
"""
_BATCH = get_metric("query", "batch").prometheus_name
_EXTENT = {"query": _FLUX_EXTENT, "expr": f'{_BATCH}{{run=~"$run", grouping=~"$grouping"}}'}


@dataclass(frozen=True)
class Series:
    """Values over time."""

    labels: Mapping[str, str]  #: Label → value.
    name: str  #: The name that the data source gives it. A panel may give it another name.
    times: Sequence[datetime]  #: The times, ascending.
    values: Sequence[float]  #: The value at each time.


@dataclass(frozen=True)
class Table:
    """Columns of equal length, by name, in their order."""

    columns: Mapping[str, Sequence[Any]]


Answer = list[Series] | Table


class InfluxDB(InfluxTarget):
    """A data source in Flux: an InfluxDB 2."""

    def answer(self, target: Mapping[str, Any], selection: Selection, width: int = 24) -> Answer:
        """The answer to a panel's query.

        Raises ``EnvironmentFault`` if the server doesn't answer, or refuses the query.
        """
        query = selection.in_flux(target["query"], self.bucket, width)
        try:
            with InfluxDBClient(self.url, self.token, org=self.org, timeout=1000 * _TIMEOUT) as client:
                tables = client.query_api().query(query)
        except ApiException as error:
            raise EnvironmentFault(f"InfluxDB at {self.url} refuses: {_reason(error.body) or error.reason}") from error
        except (ConnectionFault, OSError) as error:
            raise EnvironmentFault(f"InfluxDB does not answer at {self.url}: {error}") from error
        if tables and not _in_time(tables[0]):
            columns = [str(c.label) for c in tables[0].columns if c.label not in ("result", "table")]
            rows = [record.values for table in tables for record in table.records]
            return Table({name: [row.get(name) for row in rows] for name in columns})
        return [_series(table) for table in tables]


class Prometheus:
    """A data source in PromQL: a Prometheus. Its queries cover the time range, as those of Grafana's panels do."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._open = DIRECT.open if urlsplit(url).hostname in _THIS_MACHINE else urlopen

    def answer(self, target: Mapping[str, Any], selection: Selection, width: int = 24) -> Answer:
        """The answer to a panel's query.

        Raises ``EnvironmentFault`` if the server doesn't answer, or refuses the query.
        """
        step = selection.interval(width)
        # Grafana rounds the times to whole steps too, so that a later query has the same points.
        start, stop = (int(time.timestamp()) // step * step for time in (selection.start, selection.stop))
        parameters = {"query": selection.in_promql(target["expr"], width), "start": start, "end": stop, "step": step}
        try:
            with self._open(f"{self.url}/api/v1/query_range?{urlencode(parameters)}", timeout=_TIMEOUT) as page:
                found = json.load(page)["data"]["result"]
        except HTTPError as error:
            reason = _reason(error.read().decode(errors="replace")) or error.reason
            raise EnvironmentFault(f"Prometheus at {self.url} refuses: {reason}") from error
        except (URLError, OSError) as error:
            raise EnvironmentFault(f"Prometheus does not answer at {self.url}: {error}") from error
        except (HTTPException, ValueError, KeyError, TypeError):
            raise EnvironmentFault(f"what answers at {self.url} is not Prometheus") from None
        return [
            Series(
                one["metric"],
                fill_labels(target.get("legendFormat", ""), one["metric"]),
                [datetime.fromtimestamp(time, UTC) for time, _ in one["values"]],
                [float(value) for _, value in one["values"]],
            )
            for one in found
        ]


@dataclass(frozen=True)
class Mark:
    """An event of a run, drawn as a line across the panels."""

    time: datetime  #: The time of the event.
    kind: str  #: The dashboard's name for such events.
    colour: str  #: The line's colour.


@dataclass(frozen=True)
class DataSources:
    """The servers that the dashboards' data source variables stand for."""

    influxdb: InfluxDB | None  #: None: there is only Prometheus.
    prometheus: Prometheus

    @classmethod
    def of(
        cls,
        url: str | None = None,
        token: str | None = None,
        org: str | None = None,
        bucket: str | None = None,
        prometheus: str | None = None,
    ) -> Self:
        """The servers that are named, or else those of the running stack. A named Prometheus may be the only one.

        Raises ``UsageError`` if a URL is invalid, or there is a URL of InfluxDB but no token; ``EnvironmentFault`` if
        no server is named, and no stack runs.
        """
        influxdb = InfluxDB.of(url, token, org, bucket)
        if influxdb is None and prometheus is None:
            raise _missing("InfluxDB", "--influx-url")
        if prometheus is None:
            found = stack.find_server("prometheus")
            if found is None:
                raise _missing("Prometheus", "--prometheus-url")
            prometheus = found.url
        require_http("--prometheus-url", prometheus)
        return cls(influxdb, Prometheus(prometheus))

    def suffice(self, dashboard: Mapping[str, Any]) -> bool:
        """Whether the servers that the dashboard's panels ask are all there."""
        return self.influxdb is not None or all(
            panel["datasource"]["uid"] != "${influxdb}" for panel in dashboard["panels"]
        )

    def answer(self, uid: str, target: Mapping[str, Any], selection: Selection, width: int = 24) -> Answer:
        """The answer of the data source that the variable ``uid`` stands for. Raises as ``InfluxDB.answer`` does."""
        source = getattr(self, uid.strip("${}"))
        if source is None:
            raise _missing("InfluxDB", "--influx-url")
        return source.answer(target, selection, width)

    def marks(self, dashboard: Mapping[str, Any], selection: Selection) -> list[Mark]:
        """The dashboard's annotations."""
        marks = []
        for annotation in dashboard["annotations"]["list"]:
            answer = self.answer(annotation["datasource"]["uid"], annotation["target"], selection)
            marks += [Mark(time, annotation["name"], annotation["iconColor"]) for time in _list_times(answer)]
        return marks


def trim_selection(selection: Selection, sources: DataSources) -> Selection:
    """The selection cut to the time in which the selected runs have batches. If there are none, it isn't cut.

    Prometheus has the newest batch as long as the run's process is there.
    """
    times = sorted(_list_times((sources.influxdb or sources.prometheus).answer(_EXTENT, selection)))
    if not times:
        return selection
    margin = max(timedelta(seconds=2), _MARGIN * (times[-1] - times[0]))
    start, stop = max(selection.start, times[0] - margin), min(selection.stop, times[-1] + margin)
    return Selection(start, stop, selection.values)


def fill_labels(text: str, labels: Mapping[str, Any]) -> str:
    """A name in which ``${__field.labels.x}`` or ``{{x}}`` is replaced by the label x."""
    return re.sub(
        r"\$\{__field\.labels\.(\w+)\}|\{\{\s*(\w+)\s*\}\}", lambda f: str(labels.get(f[1] or f[2], "")), text
    )


def _list_times(answer: Answer) -> list[datetime]:
    """The times of events: those in a table, or where a series is above 0, as Grafana takes them."""
    if isinstance(answer, Table):
        return list(answer.columns["time"])
    points = (point for series in answer for point in zip(series.times, series.values, strict=True))
    return [time for time, value in points if value > 0]


def _in_time(table: Any) -> bool:
    """Whether Grafana takes the table for a series: it has a value, and a time of any name."""
    kinds = {column.label: column.data_type for column in table.columns}
    return "_value" in kinds and any(str(kind).startswith(_TIME) for kind in kinds.values())


def _series(table: Any) -> Series:
    tags = [c.label for c in table.columns if c.data_type == "string" and c.label != "result" and c.label[0] != "_"]
    first = table.records[0].values
    points = [(record.values["_time"], record.values["_value"]) for record in table.records]
    points = [(time, value) for time, value in points if value is not None]
    labels = {tag: first[tag] for tag in tags}
    return Series(labels, str(first.get("_field", "")), [time for time, _ in points], [value for _, value in points])


def _reason(body: str | None) -> str:
    """The reason in a refusal's body."""
    try:
        answer = json.loads(body or "{}")
    except ValueError:
        return str(body)[:300]
    return str(answer.get("message") or answer.get("error") or "")[:300]


def _missing(name: str, option: str) -> EnvironmentFault:
    return EnvironmentFault(f"no {name} of ours runs; start it with `unskew stack start`, or name one by {option}")
