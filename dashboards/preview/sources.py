"""The servers behind a dashboard's data source variables, and what they answer for a whole dashboard."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from unskew.dashboards.preview.answers import Answer, InfluxDB, Prometheus, Table
from unskew.dashboards.preview.chosen import Chosen
from unskew.dashboards.preview.panels import Panel


@dataclass(frozen=True)
class Mark:
    """Something that happened: a line across the panels.

    Attributes
    ----------
    time : datetime
        When.
    kind : str
        What, as the dashboard calls it.
    colour : str
        The line's.

    """

    time: datetime
    kind: str
    colour: str


@dataclass(frozen=True)
class Sources:
    """The servers that the dashboards' data source variables stand for."""

    influxdb: InfluxDB
    prometheus: Prometheus

    def panel(self, spec: Mapping[str, Any], chosen: Chosen) -> Panel:
        """A panel with its data."""
        (target,) = spec["targets"]
        return Panel(spec, self._ask(target, chosen, spec["gridPos"]["w"]))

    def marks(self, dashboard: Mapping[str, Any], chosen: Chosen) -> list[Mark]:
        """The dashboard's annotations."""
        marks = []
        for annotation in dashboard["annotations"]["list"]:
            answer = self._ask(annotation["target"], chosen, 24)
            times = answer.columns["time"] if isinstance(answer, Table) else ()
            marks += [Mark(time, annotation["name"], annotation["iconColor"]) for time in times]
        return marks

    def _ask(self, target: Mapping[str, Any], chosen: Chosen, width: int) -> Answer:
        source = getattr(self, target["datasource"]["uid"].strip("${}"))
        return source.answer(target, chosen, width)
