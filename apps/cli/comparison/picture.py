"""The picture of a comparison: groupings side by side, each in its colour."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from unskew.apps.cli.comparison.run_record import RunRecord
from unskew.grouping import measures
from unskew.grouping.registry import get_colour

_A_ROW = 4  # panels of loads in a row
_GREY = "#777777"


def draw_comparison(runs: Sequence[RunRecord], picture: Path, subtitle: str = "") -> None:
    """Draw runs over the same stream side by side.

    The upper row shows each worker's load. The lower row shows what changes in the course of the stream, beside the
    sums: STD_DEV of the windows, and the workers' time in the batches. Each run needs a batch and a window at least.
    The suffix of the file determines its format.
    """
    look: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False}
    with mpl.rc_context(look):
        rows = -(-len(runs) // _A_ROW)
        figure = Figure(figsize=(11, 2.2 * rows + 5.8), dpi=110, layout="constrained")
        parts: Any = figure.subfigures(2, 1, height_ratios=[2.2 * rows + 0.6, 5.2])
        above, below = parts
        above.suptitle(subtitle, fontsize=9, color=_GREY)
        _draw_loads(above, runs, rows)
        (std_dev, time), (std_dev_bars, cost_bars, time_bars) = _make_panels(below)
        _draw_std_dev(std_dev, runs)
        _draw_worker_time(time, runs)
        summaries = [run.summary for run in runs]
        _draw_bars(std_dev_bars, [(each.grouping, each.std_dev) for each in summaries], "STD_DEV (%)")
        _draw_bars(cost_bars, [(each.grouping, each.dist_cost) for each in summaries], "DIST_COST (workers a key)")
        _draw_bars(time_bars, [(each.grouping, each.straggling) for each in summaries], "slowest / mean worker's time")
        figure.savefig(picture)


def _make_panels(figure: SubFigure) -> tuple[tuple[Axes, ...], tuple[Axes, ...]]:
    grid = figure.add_gridspec(2, 6)
    upper = figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])
    lower = tuple(figure.add_subplot(grid[1, at : at + 2]) for at in (0, 2, 4))
    return upper, lower


def _draw_loads(figure: SubFigure, runs: Sequence[RunRecord], rows: int) -> None:
    panels = figure.subplots(rows, min(len(runs), _A_ROW), squeeze=False, sharey=True).ravel()
    for panel in panels[len(runs) :]:
        panel.set_visible(False)
    for panel, run in zip(panels, runs, strict=False):
        shares = measures.load_shares(run.loads)
        panel.bar(np.arange(len(shares)), shares, color=get_colour(run.grouping))
        panel.axhline(100 / len(shares), color=_GREY, linewidth=0.8, linestyle="--")
        panel.set_title(run.grouping, loc="left", fontweight="bold", color=get_colour(run.grouping))
        panel.set_xlabel("worker")
        if len(shares) <= 20:
            panel.set_xticks(np.arange(len(shares)))
    for panel in panels[::_A_ROW]:
        panel.set_ylabel("share of the load (%)")
    end, axes = (1, 100 / len(runs[0].loads)), ("axes fraction", "data")
    panels[0].annotate(
        "ideal", end, (0, 2), xycoords=axes, textcoords="offset points", ha="right", color=_GREY, fontsize=8
    )


def _draw_std_dev(panel: Axes, runs: Sequence[RunRecord]) -> None:
    for run in runs:
        line = _drop_remainders([(window.tuples, window.std_dev) for window in run.windows])
        _draw_line(panel, run.grouping, line)
    _label_tuples(panel, "STD_DEV of each window (%)")


def _draw_worker_time(panel: Axes, runs: Sequence[RunRecord]) -> None:
    for run in runs:
        line = _drop_remainders([(batch.tuples, batch.slowest) for batch in run.batches])
        _draw_line(panel, run.grouping, line)
    at, mean = _drop_remainders([(batch.tuples, batch.mean) for batch in runs[0].batches])
    panel.plot(at, mean, color=_GREY, linewidth=0.8, linestyle="--", label=f"mean worker ({runs[0].grouping})")
    _label_tuples(panel, "slowest worker's time in each batch (s)")
    panel.set_ylim(top=1.25 * panel.get_ylim()[1])
    panel.legend(frameon=False, fontsize=8, loc="upper right", ncols=3)


def _draw_line(panel: Axes, name: str, line: tuple[list[int], list[float]]) -> None:
    panel.plot(*line, color=get_colour(name), label=name, marker=".", linewidth=1.5)


def _label_tuples(panel: Axes, title: str) -> None:
    panel.set_title(title, loc="left")
    panel.set_ylim(bottom=0)
    panel.set_xlim(left=0)
    panel.set_xlabel("tuples so far")
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.locator_params(axis="x", nbins=6)


def _drop_remainders(parts: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    """(Tuples so far, value) of each part; without parts that are too small to have a balance (a tenth of the mean)."""
    sizes = np.array([tuples for tuples, _ in parts])
    kept = sizes > sizes.mean() / 10
    return np.cumsum(sizes)[kept].tolist(), np.array([value for _, value in parts])[kept].tolist()


def _draw_bars(panel: Axes, values: Sequence[tuple[str, float]], title: str) -> None:
    at = np.arange(len(values))
    bars = panel.barh(at, [value for _, value in values], color=[get_colour(name) for name, _ in values])
    panel.bar_label(bars, fmt="{:.2f}", padding=2)
    panel.set_yticks(at, [name for name, _ in values])
    panel.invert_yaxis()
    panel.set_title(title, loc="left")
    panel.margins(x=0.18)
