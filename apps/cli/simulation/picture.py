"""Pictures of a simulation: its measures over time, and over the number of workers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullLocator

from unskew.grouping.registry import get_colour
from unskew.grouping.simulator import SimulationOutcome

_FLOOR = 1e-3  # what is more even than that is drawn as this
_STYLES = ("-", "--", ":", "-.")


def draw_over_time(outcomes: Mapping[str, SimulationOutcome], title: str, file: Path) -> None:
    """Draw four panels over the tuples, with a line for each label."""
    panels = {
        "recent_imbalance_fraction": ("imbalance of recent tuples (share)", 1e-4),
        "imbalance": ("imbalance since the start (tuples)", 1),
        "longest_queue": ("longest queue (tuples)", 1),
        "p99_completion": ("completion of recent tuples, p99 (ms)", 1),
    }
    figure = Figure(figsize=(11, 7), layout="constrained")
    for axes, (name, (what, threshold)) in zip(_make_grid(figure), panels.items(), strict=True):
        for label, outcome in outcomes.items():
            axes.plot(outcome.series["tuples"], outcome.series[name], **_choose_style(label, outcomes))
        axes.set_title(what, fontsize=10)
        axes.xaxis.set_major_formatter(EngFormatter())
        _scale_from_zero(axes, threshold)
    _save_figure(figure, title, "tuples", file)


def draw_by_workers(
    outcomes: Mapping[tuple[str, int], SimulationOutcome], counts: Sequence[int], title: str, file: Path
) -> None:
    """Draw four panels over W, with a line for each label."""
    panels: dict[str, tuple[Callable[[SimulationOutcome], float], float | None]] = {
        "imbalance at the end (share of tuples)": (lambda o: o.final_imbalance, 1e-4),
        "replication (workers a key)": (lambda o: o.replication, None),
        "completion, p99 (ms)": (lambda o: o.p99_completion, 1),
        "makespan (s)": (lambda o: o.makespan / 1000, None),
    }
    labels = {label: outcome for (label, _), outcome in outcomes.items()}
    figure = Figure(figsize=(11, 7), layout="constrained")
    for axes, (what, (value, threshold)) in zip(_make_grid(figure), panels.items(), strict=True):
        for label in labels:
            values = [value(outcomes[label, count]) for count in counts]
            axes.plot(counts, values, marker="o", **_choose_style(label, labels))
        axes.set_title(what, fontsize=10)
        axes.set_xscale("log")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.xaxis.set_minor_locator(NullLocator())
        if threshold is None:
            axes.set_ylim(bottom=0)
        else:
            _scale_from_zero(axes, threshold)
    _save_figure(figure, title, "workers", file)


def draw_sweep(rows: Sequence[tuple[str, str, str, float, float]], file: Path) -> None:
    """Draw the worst window over the added states, a panel a stream.

    A row is (stream, label, grouping, states besides each key's first, worst max/mean).
    """
    streams = list(dict.fromkeys(row[0] for row in rows))
    across = min(5, len(streams))
    down = -(-len(streams) // across)
    width = max(10, 3 * across)
    figure = Figure(figsize=(width, 2 + 3 * down), layout="constrained")
    panels = list(figure.subplots(down, across, sharey=True, squeeze=False).flat)
    for axes in panels[len(streams) :]:
        axes.axis("off")
    for axes, stream in zip(panels, streams, strict=False):
        for _, label, grouping, added, worst in (row for row in rows if row[0] == stream):
            shown = {"color": get_colour(grouping), "label": label, "zorder": 3, "clip_on": False}
            axes.scatter(added, max(worst - 1, _FLOOR), **shown)
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xlim(left=-2)
        axes.set_title(stream, fontsize=9, parse_math=False)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set(yscale="log", ylim=(0.8 * _FLOOR, 2 * max(row[4] for row in rows)))
    figure.supxlabel("states besides each key's first", fontsize=10)
    figure.supylabel(f"worst window's max/mean − 1 (≥ {_FLOOR:g})", fontsize=10)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=width // 2, fontsize="small")
    figure.savefig(file, dpi=75)


def _make_grid(figure: Figure) -> list[Axes]:
    return list(figure.subplots(2, 2, sharex=True).flat)


def _scale_from_zero(axes: Axes, threshold: float) -> None:
    """Logarithmic, but with a zero below the threshold."""
    axes.set_yscale("symlog", linthresh=threshold)
    axes.set_ylim(bottom=0)


def _choose_style(label: str, outcomes: Mapping[str, SimulationOutcome]) -> dict[str, Any]:
    """A grouping's colour; its variants differ in style."""
    grouping = outcomes[label].grouping
    variants = [other for other, outcome in outcomes.items() if outcome.grouping == grouping]
    return {
        "label": label,
        "color": get_colour(grouping),
        "linestyle": _STYLES[variants.index(label) % len(_STYLES)],
    }


def _save_figure(figure: Figure, title: str, below: str, file: Path) -> None:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    for axes in figure.axes[2:]:
        axes.set_xlabel(below)
    legend = figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    # Names of files and fields are no formulas. (The ticks of logarithmic axes are.)
    for text in (figure.suptitle(title), *legend.get_texts()):
        text.set_parse_math(False)
    figure.savefig(file, dpi=110)
