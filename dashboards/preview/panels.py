"""A panel with its data, read as Grafana reads it: names, colours, units.

The preview can't draw every panel that Grafana can. ``Panel.undrawable`` says why not.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

from unskew.dashboards.preview.data_sources import Answer, DataSources, Series, Table, fill_labels
from unskew.dashboards.preview.selection import Selection

#: Grafana's types of panel that the preview can draw: of series, and of a table.
OF_SERIES = ("timeseries", "stat", "bargauge")
OF_TABLE = ("barchart", "table")


#: As many series has a panel's text.
MOST_SAID = 24

_LONGEST = 200  # characters of a name
_SI = ("", " k", " M", " G", " T")
_BYTES = (" B", " KiB", " MiB", " GiB", " TiB")
_TIMES = ((1e-9, " ns"), (1e-6, " µs"), (1e-3, " ms"), (1, " s"), (60, " min"), (3600, " h"), (86400, " d"))


@dataclass(frozen=True)
class Panel:
    """A panel of a dashboard and its data."""

    spec: Mapping[str, Any]  #: The panel's JSON.
    data: Answer  #: list of Series, or Table: The answer to its query.

    @classmethod
    def of(cls, spec: Mapping[str, Any], sources: DataSources, selection: Selection) -> Self:
        """The panel with its data. The data are read only if the preview can draw the panel."""
        if cls(spec, []).undrawable:
            return cls(spec, [])
        uid, width = spec["datasource"]["uid"], spec["gridPos"]["w"]
        return cls(spec, sources.answer(uid, spec["targets"][0], selection, width))

    @property
    def undrawable(self) -> str:
        """Why the preview can't draw the panel. Empty if it can."""
        return next(self._obstacles(), "")

    def _obstacles(self) -> Iterator[str]:
        if self.kind not in OF_SERIES + OF_TABLE:
            yield f"is a {self.kind}"
        if self.kind == "barchart" and "xField" not in self.options:
            yield "has no xField"
        for transformation in self.spec.get("transformations", ()):
            if transformation["id"] != "organize":
                yield f"uses {transformation['id']}"
        targets = self.spec.get("targets") or ()
        if len(targets) != 1:
            yield f"has {len(targets)} queries"
        uid = self.spec["datasource"]["uid"]
        if uid not in {f"${{{source.name}}}" for source in fields(DataSources)}:
            yield f"asks data source {uid}"
        if not self.empty and isinstance(self.data, Table) != (self.kind in OF_TABLE):
            yield f"is a {self.kind} of {'a table' if isinstance(self.data, Table) else 'series'}"

    @property
    def kind(self) -> str:
        """Grafana's type of panel."""
        return self.spec["type"]

    @property
    def title(self) -> str:
        """The panel's title, which is a question."""
        return self.spec["title"]

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of this kind of panel."""
        return self.spec.get("options", {})

    @property
    def custom(self) -> Mapping[str, Any]:
        """The settings of how lines and bars are drawn."""
        return self.spec["fieldConfig"]["defaults"].get("custom", {})

    @property
    def empty(self) -> bool:
        if isinstance(self.data, Table):
            return not any(self.data.columns.values())
        return not any(series.values for series in self.data)

    @property
    def no_data(self) -> str:
        """What the panel says if it is empty."""
        return self.spec["fieldConfig"]["defaults"].get("noValue") or "no data"

    @property
    def text(self) -> str:
        """What the panel shows, in words: each series' newest value, or each run's largest in a table's columns."""
        if self.undrawable or self.empty:
            return "" if self.undrawable else self.no_data
        if isinstance(self.data, Table):
            numbers = {
                name: [value for value in values if isinstance(value, int | float)]
                for name, values in self.table.columns.items()
            }
            said = [f"{name} up to {self.write(max(of), name)}" for name, of in numbers.items() if of]
        else:
            said = [f"{self.name(series)}: {self.write(series.values[-1])}" for series in self.series]
        more = f"; and {len(said) - MOST_SAID} more" if len(said) > MOST_SAID else ""
        lines = "".join(f"; dashed: {self.write(value)}" for value, _ in self.thresholds)
        return "; ".join(said[:MOST_SAID]) + more + lines

    @property
    def thresholds(self) -> list[tuple[float, str]]:
        """The values at which the panel has a line, each with its colour."""
        if self.custom.get("thresholdsStyle", {}).get("mode", "off") == "off":
            return []
        steps = self.spec["fieldConfig"]["defaults"]["thresholds"]["steps"]
        return [(step["value"], step["color"]) for step in steps if step["value"] is not None]

    @property
    def series(self) -> list[Series]:
        """Its series, by name."""
        assert not isinstance(self.data, Table)
        return sorted((series for series in self.data if series.values), key=self.name)

    @property
    def table(self) -> Table:
        """Its table, with the columns in the panel's order and with its headings."""
        assert isinstance(self.data, Table)
        columns = dict(self.data.columns)
        for transformation in self.spec.get("transformations", ()):
            options = transformation["options"]  # of "organize", the only one that can be drawn
            ordered = sorted(columns, key=lambda name: options["indexByName"].get(name, len(columns)))
            columns = {options["renameByName"].get(name, name): columns[name] for name in ordered}
        return Table(
            {
                shorten(name): [shorten(value) if isinstance(value, str) else value for value in values]
                for name, values in columns.items()
            }
        )

    def name(self, series: Series) -> str:
        """The name that the panel shows for a series."""
        template = self.spec["fieldConfig"]["defaults"].get("displayName")
        return shorten(fill_labels(template, series.labels) if template else series.name)

    def colour(self, name: str) -> str:
        """The colour of the series or column of that name: if no rule gives it one, its own, in every picture."""
        fixed = find_override(self.spec, name, "color")
        return fixed["fixedColor"] if fixed else f"C{sum(name.encode()) % 10}"

    def line(self, name: str) -> tuple[float, tuple[float, ...]]:
        """How the series of that name is drawn: its width, and its dashes and gaps, which a solid line has none of."""
        width = find_override(self.spec, name, "custom.lineWidth") or self.custom.get("lineWidth", 1)
        return width, tuple((find_override(self.spec, name, "custom.lineStyle") or {}).get("dash", ()))

    def write(self, value: float | str | datetime | None, column: str = "") -> str:
        """A value as text, in the panel's unit or in that of a table's column."""
        if isinstance(value, datetime):
            return value.astimezone().strftime("%H:%M:%S")
        defaults = self.spec["fieldConfig"]["defaults"]
        unit = find_override(self.spec, column, "unit") or defaults.get("unit", "none")
        return format_value(value, unit, defaults.get("decimals"))


def find_override(panel: Mapping[str, Any], name: str, setting: str) -> Any:
    """A panel's override of a setting for the series or column of a name, or None."""
    found = None
    for override in panel["fieldConfig"]["overrides"]:
        if _matches(override["matcher"], name):
            for one in override["properties"]:
                found = one["value"] if one["id"] == setting else found
    return found


def _matches(matcher: Mapping[str, str], name: str) -> bool:
    if matcher["id"] != "byRegexp":
        return matcher["options"] == name
    # Grafana searches for a pattern between slashes. Without them the whole name must match.
    if between := re.fullmatch("/(.*)/", matcher["options"]):
        return bool(re.search(between[1], name))
    return bool(re.fullmatch(matcher["options"], name))


def shorten(text: str) -> str:
    r"""A text as a picture has room for it, such as a key of the stream's, which may be anything: a line, and cut.

    >>> shorten("a\nb"), len(shorten("k" * 65_536))
    ('a b', 201)
    """
    line = "".join(character if character.isprintable() else " " for character in text[:_LONGEST])
    return line if len(text) <= _LONGEST else f"{line}…"


def format_value(value: float | str | None, unit: str, decimals: int | None = None) -> str:
    """A value as text, with its unit by Grafana's name. A text stays as it is, and None is shown as a dash.

    A unit that isn't known here is written after the number, as Grafana does. By default there are three significant
    digits.

    >>> (
    ...     format_value(12345.6, "short"),
    ...     format_value(0.00071, "s"),
    ...     format_value(7.4392, "percent", 2),
    ...     format_value(None, "s"),
    ... )
    ('12.3 k', '710 µs', '7.44 %', '–')
    >>> format_value(12345.6, "si: tuples/s"), format_value(8, "furlongs")
    ('12.3 k tuples/s', '8 furlongs')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if decimals is not None and unit in ("percent", "none"):
        return f"{value:.{decimals}f}{' %' if unit == 'percent' else ''}"
    if unit.startswith("si:"):
        return f"{_scale_value(value, 1000, _SI)}{unit.removeprefix('si:')}"
    return FORMATS[unit](value) if unit in FORMATS else f"{_digits(value)} {unit}"


def _scale_value(value: float, step: float, names: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= step and power < len(names) - 1:
        value, power = value / step, power + 1
    return f"{_digits(value)}{names[power]}"


def _digits(value: float) -> str:
    """Three significant ones, no needless zeros.

    >>> [_digits(value) for value in (0, 0.004567, 1.5, 12.345, 1234.5)]
    ['0', '0.00457', '1.5', '12.3', '1234']
    """
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def _time(seconds: float) -> str:
    fitting = [(size, name) for size, name in _TIMES if abs(seconds) >= size]
    size, name = fitting[-1] if fitting else _TIMES[0 if seconds else 3]
    return f"{_digits(seconds / size)}{name}"


#: Grafana's name of a unit → how a value is written.
FORMATS: dict[str, Callable[[float], str]] = {
    "none": _digits,
    "short": lambda value: _scale_value(value, 1000, _SI),
    "percent": lambda value: f"{_digits(value)} %",
    "percentunit": lambda value: f"{_digits(100 * value)} %",
    "s": _time,
    "ms": lambda value: _time(value / 1e3),
    "ns": lambda value: _time(value / 1e9),
    "bytes": lambda value: _scale_value(value, 1024, _BYTES),
}
