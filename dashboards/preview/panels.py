"""A panel with what its queries answer, read as Grafana reads it: names, colours, units."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from unskew.dashboards.preview.answers import Answer, Series, Table
from unskew.dashboards.preview.chosen import labelled
from unskew.dashboards.units import written

# For series that no rule gives a colour: by their names, the same at every look.
_PALETTE = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)


@dataclass(frozen=True)
class Panel:
    """A panel of a dashboard and its data.

    Attributes
    ----------
    spec : dict
        Its JSON.
    data : list of Series, or Table
        What its query answers.

    """

    spec: Mapping[str, Any]
    data: Answer

    @property
    def kind(self) -> str:
        """Grafana's type of panel."""
        return self.spec["type"]

    @property
    def title(self) -> str:
        """The question."""
        return self.spec["title"]

    @property
    def options(self) -> Mapping[str, Any]:
        """What only its kind has."""
        return self.spec["options"]

    @property
    def custom(self) -> Mapping[str, Any]:
        """How lines and bars are drawn."""
        return self.spec["fieldConfig"]["defaults"].get("custom", {})

    @property
    def empty(self) -> bool:
        """Whether there is no data."""
        if isinstance(self.data, Table):
            return not any(self.data.columns.values())
        return not any(series.values for series in self.data)

    @property
    def series(self) -> list[Series]:
        """Its series, by name."""
        assert not isinstance(self.data, Table)
        return sorted((series for series in self.data if series.values), key=self.name)

    @property
    def table(self) -> Table:
        """Its table, with the columns' order and headings that it asks for."""
        assert isinstance(self.data, Table)
        columns = dict(self.data.columns)
        for transformation in self.spec.get("transformations", ()):
            options = transformation["options"]  # of "organize", the only one
            ordered = sorted(columns, key=lambda name: options["indexByName"].get(name, len(columns)))
            columns = {options["renameByName"].get(name, name): columns[name] for name in ordered}
        return Table(columns)

    def name(self, series: Series) -> str:
        """What a series is called."""
        template = self.spec["fieldConfig"]["defaults"].get("displayName")
        return labelled(template, series.labels) if template else series.name

    def colour(self, name: str) -> str:
        """The colour of the series or column of that name."""
        fixed = self._override(name, "color")
        return fixed["fixedColor"] if fixed else _PALETTE[sum(name.encode()) % len(_PALETTE)]

    def write(self, value: float | str | datetime | None, column: str = "") -> str:
        """A value as text, in the panel's unit or that of a table's column."""
        if isinstance(value, datetime):
            return value.astimezone().strftime("%H:%M:%S")
        defaults = self.spec["fieldConfig"]["defaults"]
        unit = self._override(column, "unit") or defaults["unit"]
        return written(value, unit, defaults.get("decimals"))

    def _override(self, name: str, what: str) -> Any:
        found = None
        for override in self.spec["fieldConfig"]["overrides"]:
            matcher = override["matcher"]
            if matcher["id"] == "byRegexp":
                fits = bool(re.search(matcher["options"], name))
            else:
                fits = matcher["options"] == name
            for one in override["properties"] if fits else []:
                found = one["value"] if one["id"] == what else found
        return found
