"""The picture: each contestant's rate, a panel for each stream and cost of a tuple."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from unskew.apps.monitoring.colours import COLOURS

_OTHERS = "#bbbbbb"


def draw(rates: Mapping[tuple[str, str, str], float], path: Path) -> None:
    """Draw the rates (tuples/s) of (stream, cost, contestant)."""
    streams = list(dict.fromkeys(stream for stream, _, _ in rates))
    costs = list(dict.fromkeys(cost for _, cost, _ in rates))
    names = list(dict.fromkeys(name for _, _, name in rates))
    size = 1.5 + 2.6 * len(costs), 0.8 + (0.6 + 0.25 * len(names)) * len(streams)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(streams), len(costs), squeeze=False, sharey=True)
    for row, stream in zip(panels, streams, strict=True):
        for axes, cost in zip(row, costs, strict=True):
            values = [rates.get((stream, cost, name), 0.0) for name in names]
            bars = axes.barh(names, values, color=[COLOURS.get(name, _OTHERS) for name in names])
            axes.bar_label(bars, [f"{v:,.0f}" if v else "" for v in values], fontsize=7, padding=2)
            axes.set_title(f"{stream}, a tuple costs {cost}", fontsize=9)
            axes.set_xlim(0, 1.3 * max(values))
            axes.set_xticks([])
            axes.spines[["top", "right", "bottom"]].set_visible(False)
    panels[0][0].invert_yaxis()  # of all: the first name is at the top
    figure.supxlabel("tuples/s", fontsize=9)
    figure.savefig(path, dpi=120)
