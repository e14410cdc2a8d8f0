"""What the servers answer, as Grafana would see it: series or a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from unskew.dashboards.preview.chosen import Chosen, labelled
from unskew.errors import EnvironmentFault

_TIMEOUT = 30  # s
_TIME = "dateTime:RFC3339"


@dataclass(frozen=True)
class Series:
    """Values in the course of time.

    Attributes
    ----------
    labels : dict
        Label → value.
    name : str
        What its source calls it; a panel may call it otherwise.
    times : list of datetime
        Ascending.
    values : list of float
        As many.

    """

    labels: Mapping[str, str]
    name: str
    times: Sequence[datetime]
    values: Sequence[float]


@dataclass(frozen=True)
class Table:
    """Columns of equal length, by name, in their order."""

    columns: Mapping[str, Sequence[Any]]


Answer = list[Series] | Table


class InfluxDB:
    """Asks an InfluxDB 2 in Flux.

    Parameters
    ----------
    url, token, org, bucket : str
        As its data source in Grafana has them.

    """

    def __init__(self, url: str, token: str, org: str, bucket: str) -> None:
        self.url, self.bucket = url, bucket
        self._access = {"url": url, "token": token, "org": org, "timeout": 1000 * _TIMEOUT}

    def answer(self, target: Mapping[str, Any], chosen: Chosen, width: int = 24) -> Answer:
        """The answer to a panel's query.

        Raises
        ------
        EnvironmentFault
            It doesn't answer, or refuses.

        """
        from influxdb_client.client.influxdb_client import InfluxDBClient
        from influxdb_client.rest import ApiException
        from urllib3.exceptions import HTTPError as ConnectionFault

        query = chosen.in_flux(target["query"], self.bucket, width)
        try:
            with InfluxDBClient(**self._access) as client:
                tables = client.query_api().query(query)
        except ApiException as error:
            raise EnvironmentFault(f"InfluxDB at {self.url} refuses: {_said(error.body) or error.reason}") from error
        except (ConnectionFault, OSError) as error:
            raise EnvironmentFault(f"InfluxDB does not answer at {self.url}: {error}") from error
        if tables and not _in_time(tables[0]):
            columns = [str(c.label) for c in tables[0].columns if c.label not in ("result", "table")]
            rows = [record.values for table in tables for record in table.records]
            return Table({name: [row.get(name) for row in rows] for name in columns})
        return [_series(table) for table in tables]


class Prometheus:
    """Asks a Prometheus; every query over the time range, as Grafana's panels do.

    Parameters
    ----------
    url : str
        Its address.

    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def answer(self, target: Mapping[str, Any], chosen: Chosen, width: int = 24) -> Answer:
        """The answer to a panel's query.

        Raises
        ------
        EnvironmentFault
            It doesn't answer, or refuses.

        """
        step = chosen.interval(width)
        # Grafana sets the times to whole steps too: the same points at every look.
        start, stop = (int(time.timestamp()) // step * step for time in (chosen.start, chosen.stop))
        asked = {"query": chosen.in_promql(target["expr"], width), "start": start, "end": stop, "step": step}
        try:
            with urlopen(f"{self.url}/api/v1/query_range?{urlencode(asked)}", timeout=_TIMEOUT) as page:  # noqa: S310
                found = json.load(page)["data"]["result"]
        except HTTPError as error:
            said = _said(error.read().decode(errors="replace"))
            raise EnvironmentFault(f"Prometheus at {self.url} refuses: {said or error.reason}") from error
        except (URLError, OSError) as error:
            raise EnvironmentFault(f"Prometheus does not answer at {self.url}: {error}") from error
        return [
            Series(
                one["metric"],
                labelled(target.get("legendFormat", ""), one["metric"]),
                [datetime.fromtimestamp(time, UTC) for time, _ in one["values"]],
                [float(value) for _, value in one["values"]],
            )
            for one in found
        ]


def _in_time(table: Any) -> bool:
    """Whether Grafana takes it for a series: it has a value, and a time of any name."""
    kinds = {column.label: column.data_type for column in table.columns}
    return "_value" in kinds and any(str(kind).startswith(_TIME) for kind in kinds.values())


def _series(table: Any) -> Series:
    tags = [c.label for c in table.columns if c.data_type == "string" and c.label != "result" and c.label[0] != "_"]
    first = table.records[0].values
    points = [(record.values["_time"], record.values["_value"]) for record in table.records]
    points = [(time, value) for time, value in points if value is not None]
    labels = {tag: first[tag] for tag in tags}
    return Series(labels, str(first.get("_field", "")), [time for time, _ in points], [value for _, value in points])


def _said(body: str | None) -> str:
    try:
        answer = json.loads(body or "{}")
    except ValueError:
        return str(body)[:300]
    return str(answer.get("message") or answer.get("error") or "")[:300]
