"""How each kind of panel is drawn into its part of the picture."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.dates as mdates
import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from unskew.dashboards.preview.chosen import Chosen
from unskew.dashboards.preview.panels import Panel
from unskew.dashboards.preview.sources import Mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY = "#6e6e6e"
_FAINT = "#e3e3e3"
LEGEND = 0.56  # inches below the axes to the legend's bottom
_CHARACTERS = 8.0  # a column of the grid's width in characters of a table


def timeseries(axes: "Axes", panel: Panel, chosen: Chosen, marks: Sequence[Mark]) -> None:
    """Lines in the course of time; what happened as upright lines."""
    for mark in marks:
        axes.axvline(mdates.date2num(mark.time), color=mark.colour, linewidth=0.7, linestyle=(0, (3, 3)), alpha=0.5)
    width = 0.6 * panel.custom.get("lineWidth", 1) + 0.2
    named: dict[str, Any] = {}
    for series in panel.series:
        name = panel.name(series)
        times = mdates.date2num(series.times)
        single = "o" if len(times) < 3 else None
        (named[name],) = axes.plot(times, series.values, color=panel.colour(name), lw=width, marker=single, ms=3)
    axes.set_xlim(*mdates.date2num([chosen.start, chosen.stop]).tolist())
    locator = mdates.AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M:%S", tz=chosen.start.astimezone().tzinfo))
    _values(axes, panel, "y")
    if panel.options["legend"]["showLegend"]:
        _legend(axes, panel, list(named.values()), list(named))


def stat(axes: "Axes", panel: Panel) -> None:
    """The newest value of each series, large, in its colour."""
    axes.set_axis_off()
    count = len(panel.series)
    texts = [panel.write(series.values[-1]) for series in panel.series]
    size = min(21.0, 44.0 / (count + 0.6), 150.0 / max(map(len, texts)))
    names = [panel.name(series) for series in panel.series]
    for at, (name, shown) in enumerate(zip(names, _shortened(names), strict=True)):
        middle = 1 - (at + 0.5) / count
        style: dict[str, Any] = {"color": panel.colour(name), "va": "center", "transform": axes.transAxes}
        axes.text(0.98, middle, texts[at], ha="right", fontsize=size, fontweight="bold", **style)
        axes.text(0.0, middle, shown, ha="left", fontsize=7.5, **style)


def bargauge(axes: "Axes", panel: Panel) -> None:
    """The newest value of each series as a bar."""
    names = [panel.name(series) for series in panel.series]
    values = [series.values[-1] for series in panel.series]
    at = np.arange(len(names))
    bars = axes.barh(at, values, color=[panel.colour(name) for name in names], height=0.55)
    axes.bar_label(bars, [panel.write(value) for value in values], padding=4, fontweight="bold", fontsize=10)
    for where, name in zip(at, names, strict=True):
        axes.text(0, where - 0.33, name, va="bottom", fontsize=7.5, color=GREY)
    axes.set_ylim(len(names) - 0.6, -0.75)
    # Room for the text beside the longest bar, however long it is.
    longest = max(len(panel.write(value)) for value in values) / (4 * panel.spec["gridPos"]["w"])
    axes.set_xlim(0, max([*values, 1e-9]) / max(0.4, 0.96 - longest))
    axes.set_axis_off()


def barchart(axes: "Axes", panel: Panel) -> None:
    """For each value of a column, the runs' bars beside each other."""
    columns = dict(panel.table.columns)
    most = panel.options["xTickLabelMaxLength"]
    ticks = [x if len(x) <= most else f"{x[:most]}…" for x in columns.pop(panel.options["xField"])]
    names = sorted(columns)
    lying = panel.options["orientation"] == "horizontal"
    height = panel.options["groupWidth"] / max(1, len(names))
    at = np.arange(len(ticks))
    for number, name in enumerate(names):
        values = [value if value is not None else np.nan for value in columns[name]]
        offset = (number - (len(names) - 1) / 2) * height
        draw = axes.barh if lying else axes.bar
        draw(at + offset, values, height * panel.options["barWidth"], color=panel.colour(name), label=name)
    if lying:
        axes.set_yticks(at, ticks)
        axes.invert_yaxis()
    else:
        few = -(-len(ticks) // 25)
        axes.set_xticks(at[::few], ticks[::few])
        axes.set_xlabel(panel.options["xField"], color=GREY, fontsize=8, labelpad=0)
    _values(axes, panel, "x" if lying else "y")
    _legend(axes, panel, *axes.get_legend_handles_labels())


def table(axes: "Axes", panel: Panel) -> None:
    """As many rows as fit."""
    axes.set_axis_off()
    columns = panel.table.columns
    fit = 2 * panel.spec["gridPos"]["h"] - 4
    texts = {name: [panel.write(value, name) for value in values[:fit]] for name, values in columns.items()}
    widths = [max(len(text) for text in [name, *column]) + 2 for name, column in texts.items()]
    whole = max(sum(widths), panel.spec["gridPos"]["w"] * _CHARACTERS)
    left = np.cumsum([0, *widths]) / whole
    rows = max(fit, 1) + 1
    for (name, column), at, wide in zip(texts.items(), left[:-1], widths, strict=True):
        number = bool(columns[name]) and isinstance(next((v for v in columns[name] if v is not None), ""), int | float)
        x, side = (at + (wide - 2) / whole, "right") if number else (at, "left")
        axes.text(x, 1 - 0.5 / rows, name, ha=side, va="center", fontsize=8, fontweight="bold", color=GREY)
        for row, text in enumerate(column, 1):
            colour = panel.colour(text) if name == "run" else "#222222"
            axes.text(x, 1 - (row + 0.5) / rows, text, ha=side, va="center", fontsize=8, color=colour)
    for row in range(1, 1 + max(map(len, texts.values()))):
        axes.axhline(1 - row / rows, color=_FAINT, linewidth=0.6)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


#: Grafana's type of panel → what draws it, where time is no axis.
TIMELESS: dict[str, Callable[["Axes", Panel], None]] = {
    "stat": stat,
    "bargauge": bargauge,
    "barchart": barchart,
    "table": table,
}


def _values(axes: "Axes", panel: Panel, which: str) -> None:
    axis = axes.yaxis if which == "y" else axes.xaxis
    if "axisSoftMin" in panel.custom:
        low, high = axes.dataLim.intervaly if which == "y" else axes.dataLim.intervalx
        low = min(low, panel.custom["axisSoftMin"])
        (axes.set_ylim if which == "y" else axes.set_xlim)(low, high + 0.06 * (high - low) if high > low else low + 1)
    axis.set_major_locator(MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: panel.write(value)))
    axes.grid(axis="y" if which == "y" else "x", color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8, colors="#444444")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")


def _legend(axes: "Axes", panel: Panel, handles: Sequence[Any], names: Sequence[str]) -> None:
    shown = _shortened(names)
    columns = max(1, panel.spec["gridPos"]["w"] * 10 // (max(map(len, shown)) + 6))
    if len(names) > 2 * columns:
        return  # two lines fit below the tick labels
    figure, place = axes.figure, axes.get_position()
    foot = place.y0 - LEGEND * figure.dpi / figure.bbox.height
    figure.legend(
        handles, shown, loc="lower left", bbox_to_anchor=(place.x0, foot), ncols=columns,
        frameon=False, fontsize=7.5, handlelength=1.2, columnspacing=1.2, borderaxespad=0, borderpad=0,
    )  # fmt: skip


def _shortened(names: Sequence[str]) -> list[str]:
    """Names without the stream, where all have the same; the picture's head has it."""
    parts = [name.split(" · ") for name in names]
    if len(names) > 1 and all(len(part) > 1 for part in parts) and len({part[1] for part in parts}) == 1:
        return [" · ".join([part[0], *part[2:]]) for part in parts]
    return list(names)
