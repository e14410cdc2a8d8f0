"""A dashboard as a picture: its panels at their positions in the grid, each kind drawn as Grafana draws it."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from io import BytesIO
from math import ceil, log2
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.dates as mdates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from unskew.dashboards.preview.data_sources import Mark, Table
from unskew.dashboards.preview.panels import Panel
from unskew.dashboards.preview.selection import Selection

#: How many times an axis names. With fewer at most, matplotlib has no unit for 150 to 180 s, say, and warns.
LEAST_TICKS, MOST_TICKS = 3, 7

#: As many bars have their names above them. More have them on their left, so that names and numbers don't overlap.
MOST_ABOVE = 4

_WIDTH = 16.0  # inches, 24 columns
_ROW = 0.36  # inches
_HEAD = 0.98  # inches: title, description, selection
_GAP = 0.06  # inches around a panel
_GREY = "#6e6e6e"
_FAINT = "#e3e3e3"
# A stat's names and figures. Sizes are in points; widths don't grow evenly with them, so texts are measured.
_SIZES = (21.0, 18.0, 16.0, 14.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.5, 6.5, 6.0, 5.0, 4.5, 3.0, 2.0, 1.0)
_LABEL = 7.5  # the largest of a name
_READABLE = 6.0  # the smallest of a name in a list
_TINY = 4.5  # from here down, names that are too long are cut
_CUT = 20  # characters that they keep at least
_APART = 8  # pixels from a name to its figure; twice that to the next column
_FILLED = 0.97  # of a row's height is text
_LEGEND = 0.56  # inches below the axes to the legend's bottom
_CHARACTERS = 8.0  # of a table, in the width of a column of the grid


def draw(dashboard: Mapping[str, Any], panels: Sequence[Panel], marks: Sequence[Mark], selection: Selection) -> bytes:
    """The picture of a dashboard's JSON, as PNG. Marks are vertical lines, and the selection is named at the top."""
    rows = max(panel.spec["gridPos"]["y"] + panel.spec["gridPos"]["h"] for panel in panels)
    height = _HEAD + rows * _ROW
    # A key with two dollar signs is no formula.
    with mpl.rc_context({"font.size": 9, "font.family": "DejaVu Sans", "text.parse_math": False}):
        figure = Figure(figsize=(_WIDTH, height), dpi=100, facecolor="#f4f5f5")
        FigureCanvasAgg(figure)  # measures texts with the renderer that draws them
        figure.text(0.006, 1 - 0.3 / height, dashboard["title"], fontsize=17, fontweight="bold", va="center")
        small = {"fontsize": 8.5, "color": _GREY, "va": "center"}
        figure.text(0.006, 1 - 0.58 / height, dashboard["description"], **small)
        figure.text(0.006, 1 - 0.81 / height, _caption(selection, panels), **small)
        for panel in panels:
            _panel(figure, height, panel, selection, marks)
        picture = BytesIO()
        figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


def _panel(figure: Any, height: float, panel: Panel, selection: Selection, marks: Sequence[Mark]) -> None:
    at = panel.spec["gridPos"]
    column = _WIDTH / 24
    left, wide = at["x"] * column + _GAP, at["w"] * column - 2 * _GAP
    high = at["h"] * _ROW - 2 * _GAP
    bottom = height - _HEAD - (at["y"] + at["h"]) * _ROW + _GAP
    card = (left / _WIDTH, bottom / height), wide / _WIDTH, high / height
    figure.add_artist(Rectangle(*card, facecolor="white", edgecolor="#dcdcdc", linewidth=0.8, zorder=-1))
    title = (left + 0.1) / _WIDTH, (bottom + high - 0.17) / height
    figure.text(*title, panel.title, fontsize=9.5, fontweight="bold", va="center", color="#222222")
    inner = _inner(panel, left, bottom, wide, high)
    axes = figure.add_axes((inner[0] / _WIDTH, inner[1] / height, inner[2] / _WIDTH, inner[3] / height))
    if panel.undrawable or panel.empty:
        axes.set_axis_off()
        text = f"the preview can't draw this: it {panel.undrawable}" if panel.undrawable else panel.no_data
        # As many characters a line as the panel's width has room for.
        text = fill(text, 5 * panel.spec["gridPos"]["w"])
        axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=min(12, 2.4 * at["w"]), color="#767676")
    elif panel.kind == "timeseries":
        timeseries(axes, panel, selection, marks)
    else:
        TIMELESS[panel.kind](axes, panel)


def _inner(panel: Panel, left: float, bottom: float, wide: float, high: float) -> tuple[float, float, float, float]:
    """Where a panel's axes go (inches): beside tick labels, above the legend, below the title."""
    before, after, below, above = 0.15, 0.35, 0.1, 0.36
    if panel.kind == "stat":
        before, after, below, above = 0.1, 0.1, 0.06, 0.3
    if not panel.undrawable and not panel.empty and panel.kind in ("timeseries", "barchart"):
        before, below = (1.2 if "/s" in panel.write(0) else 0.75), _LEGEND + 0.06
        if panel.options.get("orientation") == "horizontal":
            before = 1.25
    return left + before, bottom + below, wide - before - after, high - below - above


def _caption(selection: Selection, panels: Sequence[Panel]) -> str:
    """Which streams, when, and the values that were selected."""
    names = {panel.name(series) for panel in panels if not isinstance(panel.data, Table) for series in panel.data}
    streams = sorted({name.split(" · ")[1] for name in names if " · " in name})
    start, stop = selection.start.astimezone(), selection.stop.astimezone()
    values = "   ".join(f"{name}: {', '.join(values)}" for name, values in selection.values.items() if values)
    end = f"{stop:%H:%M:%S}" if stop.date() == start.date() else f"{stop:%Y-%m-%d %H:%M:%S}"
    return f"{', '.join(streams[:3])}   {start:%Y-%m-%d %H:%M:%S} – {end}" + (f"   {values}" if values else "")


def timeseries(axes: Axes, panel: Panel, selection: Selection, marks: Sequence[Mark]) -> None:
    """Lines over time. The marks are vertical lines."""
    for mark in marks:
        axes.axvline(mdates.date2num(mark.time), color=mark.colour, linewidth=0.7, linestyle=(0, (3, 3)), alpha=0.5)
    named: dict[str, Any] = {}
    for series in panel.series:
        name = panel.name(series)
        times = mdates.date2num(series.times)
        points = "o" if len(times) < 3 or panel.custom.get("showPoints") == "always" else None
        step = "steps-pre" if panel.custom.get("lineInterpolation") == "stepBefore" else "default"
        style: dict[str, Any] = {"color": panel.colour(name), "marker": points, "ms": 3, "drawstyle": step}
        (named[name],) = axes.plot(times, series.values, **style)
        width, dashes = panel.line(name)
        named[name].set_linewidth(0.6 * width + 0.2)
        if dashes:
            named[name].set_dashes([length / 2 for length in dashes])
    axes.set_xlim(*mdates.date2num([selection.start, selection.stop]).tolist())
    axes.xaxis.set_major_locator(mdates.AutoDateLocator(minticks=LEAST_TICKS, maxticks=MOST_TICKS))
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M:%S", tz=selection.start.astimezone().tzinfo))
    _values(axes, panel, "y")
    # As in Grafana, a threshold that is far above all lines doesn't make them flat: it isn't shown.
    for value, colour in panel.thresholds:
        if value <= axes.get_ylim()[1]:
            axes.axhline(value, color=colour, linewidth=0.8, linestyle=(0, (6, 4)))
    axes.tick_params(axis="x", pad=7)  # below the lowest label of the other axis
    if panel.options.get("legend", {}).get("showLegend", True):
        _legend(axes, panel, list(named.values()), list(named))


def stat(axes: Axes, panel: Panel) -> None:
    """The newest value of each series, in large digits of the series' colour, beside the series' name or below it."""
    axes.set_axis_off()
    names = [panel.name(series) for series in panel.series]
    texts = [panel.write(series.values[-1]) for series in panel.series]
    shown = _shorten_names(names)
    extent = cache(partial(_extent, axes))
    small, large, columns, below = _cells(axes, shown, texts, extent)
    box, rows = axes.get_window_extent(), ceil(len(names) / columns)
    pitch = (box.width + 2 * _APART) / columns
    for at, (name, label, text) in enumerate(zip(names, shown, texts, strict=True)):
        column, row = divmod(at, rows)
        left, wide = column * pitch, pitch - 2 * _APART
        middle = box.height * (1 - (row + 0.5) / rows)
        (length, high), (_, above) = extent(text, large, "bold"), extent(label, small)
        if below:
            places = (left, middle + (high + 1) / 2), (left, middle - (above + 1) / 2)
        else:
            places = (left, middle), (left + wide - length, middle)
            wide -= length + _APART
        for (x, y), what, size, weight in zip(
            places, (_cut(label, small, wide, extent), text), (small, large), ("normal", "bold"), strict=True
        ):
            style: dict[str, Any] = {"color": panel.colour(name), "transform": axes.transAxes}
            axes.text(x / box.width, y / box.height, what, va="center", fontsize=size, fontweight=weight, **style)


#: A text, its size (points) and weight → how wide and high matplotlib draws it (pixels).
_Extent = Callable[..., tuple[float, float]]


class _Cells(NamedTuple):
    """How a stat panel shows its series: sizes of names and figures (points), and where they stand."""

    small: float
    large: float
    columns: int
    below: bool  # a figure is below its name, not beside it


def _cells(axes: Axes, names: Sequence[str], texts: Sequence[str], extent: _Extent) -> _Cells:
    """The layout with the largest names and, of these, the largest figures, in which nothing overlaps.

    A list is easiest to compare. There are two columns only if its names would be hard to read.
    """
    found = [_fit_sizes(axes, names, texts, 1, below, extent) for below in (False, True)]
    if max(found).small < _READABLE:
        found.append(_fit_sizes(axes, names, texts, 2, False, extent))
    return max(found, key=lambda cells: (cells.small, cells.large))


def _fit_sizes(
    axes: Axes, names: Sequence[str], texts: Sequence[str], columns: int, below: bool, extent: _Extent
) -> _Cells:
    """The largest sizes in so many columns. Figures aren't smaller than names, and names that are small may be cut."""
    box = axes.get_window_extent()
    wide = (box.width + 2 * _APART) / columns - 2 * _APART
    high = _FILLED * box.height / ceil(len(names) / columns)

    def fits(name: str, text: str, small: float, large: float) -> bool:
        least = f"{name[:_CUT]}…" if small <= _TINY and len(name) > _CUT else name
        (label, above), (figure, under) = extent(least, small), extent(text, large, "bold")
        if below:
            return max(label, figure) <= wide and above + 1 + under <= high
        return label + _APART + figure <= wide and max(above, under) <= high

    for small in _SIZES[_SIZES.index(_LABEL) :]:
        for large in _SIZES[: _SIZES.index(small) + 1]:
            if all(fits(name, text, small, large) for name, text in zip(names, texts, strict=True)):
                return _Cells(small, large, columns, below)
    return _Cells(_SIZES[-1], _SIZES[-1], columns, below)


def _extent(axes: Axes, text: str, size: float, weight: str = "normal") -> tuple[float, float]:
    drawn = Text(text=text, fontsize=size, fontweight=weight)
    drawn.set_figure(axes.figure)
    box = drawn.get_window_extent()
    return box.width, box.height


def _cut(text: str, size: float, wide: float, extent: _Extent) -> str:
    """The text, or as much of it as has room before an ellipsis."""
    if extent(text, size)[0] <= wide:
        return text
    kept = bisect_right(range(len(text)), wide, key=lambda length: extent(f"{text[:length]}…", size)[0]) - 1
    return f"{text[: max(kept, 0)]}…"


def bargauge(axes: Axes, panel: Panel) -> None:
    """The newest value of each series as a bar."""
    names = [panel.name(series) for series in panel.series]
    values = [series.values[-1] for series in panel.series]
    at = np.arange(len(names))
    bars = axes.barh(at, values, color=[panel.colour(name) for name in names], height=0.55)
    many = len(names) > MOST_ABOVE
    large, small = (7, 6.5) if many else (10, 7.5)
    axes.bar_label(bars, [panel.write(value) for value in values], padding=4, fontweight="bold", fontsize=large)
    shown = _shorten_names(names) if many else names
    for where, name in zip(at, shown, strict=True):
        if many:
            axes.annotate(
                name, (0, where), (-4, 0), textcoords="offset points", ha="right", va="center", fontsize=small
            )
        else:
            axes.text(0, where - 0.33, name, va="bottom", fontsize=small, color=_GREY)
    axes.set_ylim(len(names) - 0.4 if many else len(names) - 0.6, -0.6 if many else -0.75)
    # Room for the text beside the longest bar, however long the text is, and for the names before it.
    longest = max(len(panel.write(value)) for value in values) / (4 * panel.spec["gridPos"]["w"])
    whole = max([*values, 1e-9]) / max(0.4, 0.96 - longest)
    before = max(map(len, shown)) / (9 * panel.spec["gridPos"]["w"]) if many else 0
    axes.set_xlim(-whole * before / (1 - min(before, 0.5)), whole)
    axes.set_axis_off()


def barchart(axes: Axes, panel: Panel) -> None:
    """The runs' bars side by side, for each value of a column."""
    columns = dict(panel.table.columns)
    most = panel.options.get("xTickLabelMaxLength")
    ticks = [x if not most or len(x) <= most else f"{x[:most]}…" for x in columns.pop(panel.options["xField"])]
    names = sorted(columns)
    lying = panel.options.get("orientation") == "horizontal"
    height = panel.options.get("groupWidth", 0.7) / max(1, len(names))
    at = np.arange(len(ticks))
    for number, name in enumerate(names):
        values = [value if value is not None else np.nan for value in columns[name]]
        offset = (number - (len(names) - 1) / 2) * height
        draw = axes.barh if lying else axes.bar
        draw(at + offset, values, height * panel.options.get("barWidth", 0.97), color=panel.colour(name), label=name)
    if lying:
        axes.set_yticks(at, ticks)
        axes.invert_yaxis()
    else:
        few = -(-len(ticks) // 25)
        axes.set_xticks(at[::few], ticks[::few])
        axes.set_xlabel(panel.options["xField"], color=_GREY, fontsize=8, labelpad=0)
    _values(axes, panel, "x" if lying else "y")
    _legend(axes, panel, *axes.get_legend_handles_labels())


def table(axes: Axes, panel: Panel) -> None:
    """The table's first rows, as many as fit."""
    axes.set_axis_off()
    columns = panel.table.columns
    fit = 2 * panel.spec["gridPos"]["h"] - 4
    texts = {name: [panel.write(value, name) for value in values[:fit]] for name, values in columns.items()}
    room = panel.spec["gridPos"]["w"] * _CHARACTERS
    widths, headings = _measure_columns(texts, room)
    whole = max(sum(widths), room)
    left = np.cumsum([0, *widths]) / whole
    rows = max(fit, 1) + 1
    for (name, column), heading, at, wide in zip(texts.items(), headings, left[:-1], widths, strict=True):
        number = bool(columns[name]) and isinstance(next((v for v in columns[name] if v is not None), ""), int | float)
        x, side = (at + (wide - 2) / whole, "right") if number else (at, "left")
        axes.text(x, 1 - 0.5 / rows, heading, ha=side, va="center", fontsize=8, fontweight="bold", color=_GREY)
        for row, text in enumerate(column, 1):
            axes.text(x, 1 - (row + 0.5) / rows, text, ha=side, va="center", fontsize=8, color="#222222")
    for row in range(1, 1 + max(map(len, texts.values()))):
        axes.axhline(1 - row / rows, color=_FAINT, linewidth=0.6)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


def _measure_columns(texts: dict[str, list[str]], room: float) -> tuple[list[int], list[str]]:
    """The columns' widths and headings. Headings are cut if all of them wouldn't fit (characters)."""
    names = list(texts)
    for most in (max(map(len, names)), int(room / len(names)) - 2):
        headings = [name if len(name) <= most else f"{name[: most - 1]}…" for name in names]
        columns = zip(headings, texts.values(), strict=True)
        widths = [max(len(text) for text in [heading, *column]) + 2 for heading, column in columns]
        if sum(widths) <= room:
            break
    return widths, headings


#: Grafana's type of panel → what draws it, where time is no axis.
TIMELESS: dict[str, Callable[[Axes, Panel], None]] = {
    "stat": stat,
    "bargauge": bargauge,
    "barchart": barchart,
    "table": table,
}


def _values(axes: Axes, panel: Panel, which: str) -> None:
    axis = axes.yaxis if which == "y" else axes.xaxis
    if "axisSoftMin" in panel.custom:
        low, high = axes.dataLim.intervaly if which == "y" else axes.dataLim.intervalx
        low = min(low, panel.custom["axisSoftMin"])
        (axes.set_ylim if which == "y" else axes.set_xlim)(low, high + 0.06 * (high - low) if high > low else low + 1)
    unit = panel.spec["fieldConfig"]["defaults"].get("unit")
    # Steps of bytes are powers of two, so that they are round numbers of KiB and MiB.
    axis.set_major_locator(
        MaxNLocator(5) if unit != "bytes" else MultipleLocator(binary_step(axis.get_view_interval()[1]))
    )
    axis.set_major_formatter(FuncFormatter(lambda value, _: panel.write(value)))
    axes.grid(axis="y" if which == "y" else "x", color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8, colors="#444444")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")


def binary_step(highest: float) -> float:
    """The power of two by which an axis of bytes from 0 on has at most six ticks.

    >>> binary_step(1_000_000.0), binary_step(0.5)
    (262144.0, 1.0)
    """
    return 2.0 ** max(0, ceil(log2(max(highest, 1) / 5)))


def _legend(axes: Axes, panel: Panel, handles: Sequence[Any], names: Sequence[str]) -> None:
    shown = _shorten_names(names)
    columns = max(1, panel.spec["gridPos"]["w"] * 10 // (max(map(len, shown)) + 6))
    small = len(names) > 2 * columns
    if small:
        columns = max(1, panel.spec["gridPos"]["w"] * 12 // (max(map(len, shown)) + 5))
    if len(names) > 3 * columns:
        return  # three lines of small letters fit below the tick labels
    figure, box = axes.figure, axes.get_position()
    foot = box.y0 - _LEGEND * figure.dpi / figure.bbox.height
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (box.x0, foot), "borderaxespad": 0, "borderpad": 0}
    look: dict[str, Any] = {
        "frameon": False,
        "fontsize": 6 if small else 7.5,
        "handlelength": 1.2,
        "columnspacing": 0.8 if small else 1.2,
        "labelspacing": 0.3 if small else 0.5,
    }
    figure.legend(handles, shown, ncols=columns, **place, **look)


def _shorten_names(names: Sequence[str]) -> list[str]:
    """The names without the stream, if all have the same one, which stands in the picture's head."""
    parts = [name.split(" · ") for name in names]
    if len(names) > 1 and all(len(part) > 1 for part in parts) and len({part[1] for part in parts}) == 1:
        return [" · ".join([part[0], *part[2:]]) for part in parts]
    return list(names)
