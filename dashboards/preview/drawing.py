"""A dashboard as a picture: its panels where they are in the grid."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from unskew.dashboards.preview.answers import Table
from unskew.dashboards.preview.chosen import Chosen
from unskew.dashboards.preview.panels import Panel
from unskew.dashboards.preview.sources import Mark

_WIDTH = 16.0  # inches, 24 columns
_ROW = 0.36  # inches
_HEAD = 0.75  # inches
_GAP = 0.06  # inches around a panel


def draw(dashboard: Mapping[str, Any], panels: Sequence[Panel], marks: Sequence[Mark], chosen: Chosen) -> bytes:
    """The picture, as PNG.

    Parameters
    ----------
    dashboard : dict
        Its JSON.
    panels : sequence of Panel
        With their data.
    marks : sequence of Mark
        What happened.
    chosen : Chosen
        Time range and values, named above.

    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = max(panel.spec["gridPos"]["y"] + panel.spec["gridPos"]["h"] for panel in panels)
    height = _HEAD + rows * _ROW
    with mpl.rc_context({"font.size": 9, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(_WIDTH, height), dpi=100, facecolor="#f4f5f5")
        figure.text(0.006, 1 - 0.3 / height, dashboard["title"], fontsize=17, fontweight="bold", va="center")
        figure.text(0.006, 1 - 0.58 / height, dashboard["description"], fontsize=8.5, color="#6e6e6e", va="center")
        figure.text(
            0.994, 1 - 0.3 / height, _said(chosen, panels), fontsize=9, color="#6e6e6e", va="center", ha="right"
        )
        for panel in panels:
            _panel(figure, height, panel, chosen, marks)
        picture = BytesIO()
        figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


def _panel(figure: Any, height: float, panel: Panel, chosen: Chosen, marks: Sequence[Mark]) -> None:
    from matplotlib.patches import Rectangle

    from unskew.dashboards.preview.kinds import TIMELESS, timeseries

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
    if panel.empty:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "no data", ha="center", va="center", fontsize=12, color="#999999")
    elif panel.kind == "timeseries":
        timeseries(axes, panel, chosen, marks)
    else:
        TIMELESS[panel.kind](axes, panel)


def _inner(panel: Panel, left: float, bottom: float, wide: float, high: float) -> tuple[float, float, float, float]:
    """Where a panel's axes go (inches): beside tick labels, above the legend, below the title."""
    from unskew.dashboards.preview.kinds import LEGEND

    before, below = 0.15, 0.1
    if not panel.empty and panel.kind in ("timeseries", "barchart"):
        before, below = (1.2 if "/s" in panel.write(0) else 0.75), LEGEND + 0.06
        if panel.options.get("orientation") == "horizontal":
            before = 1.25
    return left + before, bottom + below, wide - before - 0.2, high - below - 0.36


def _said(chosen: Chosen, panels: Sequence[Panel]) -> str:
    """Which streams, when, and what was chosen."""
    names = {panel.name(series) for panel in panels if not isinstance(panel.data, Table) for series in panel.data}
    streams = sorted({name.split(" · ")[1] for name in names if " · " in name})
    start, stop = chosen.start.astimezone(), chosen.stop.astimezone()
    values = "   ".join(f"{name}: {', '.join(values)}" for name, values in chosen.values.items() if values)
    end = f"{stop:%H:%M:%S}" if stop.date() == start.date() else f"{stop:%Y-%m-%d %H:%M:%S}"
    return f"{', '.join(streams[:3])}   {start:%Y-%m-%d %H:%M:%S} – {end}" + (f"   {values}" if values else "")
