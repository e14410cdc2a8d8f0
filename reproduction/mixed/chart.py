"""What was followed as a report: a table of all numbers, and pictures."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reproduction.mixed import sweeps
from reproduction.mixed.follow import Outcome, Point
from reproduction.page import Cell, Report, Sizing
from unskew.apps.monitoring.colours import colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The columns of a sweep's numbers, and each one's number for the picture.
NUMBERS: dict[str, Callable[[Outcome], float]] = {
    "plan, ms": lambda outcome: outcome.milliseconds,
    "state moved, %": lambda outcome: outcome.migration,
    "table": lambda outcome: outcome.table,
    "θ, %": lambda outcome: outcome.theta,
}
#: Lines often lie on each other, and one family's colours are alike.
MARKERS: dict[str, str] = dict(zip(sweeps.ALL, "os^Dx", strict=True))


def sweep_report(title: str, name: str, points: Sequence[Point], notes: Sequence[str]) -> Report:
    """All points of a sweep over the parameter ``name``, one row each, and a panel for each number."""

    def draw(figure: "Figure") -> None:
        values = list(dict.fromkeys(point.value for point in points))
        follows_name = name == "intervals"
        lines = dict.fromkeys((None if follows_name else point.window, point.scheme) for point in points)
        for panel, (label, number) in zip(figure.subplots(2, 2, sharex=True).flat, NUMBERS.items(), strict=True):
            for window, scheme in lines:
                own = {p.value: number(p.outcome) for p in points if p.scheme == scheme and window in (None, p.window)}
                panel.plot(
                    range(len(values)),
                    [own.get(value, math.nan) for value in values],
                    color=colour(scheme),
                    linestyle="--" if window == 5 else "-",
                    marker=MARKERS[scheme],
                    markersize=4,
                    label=scheme if window is None else f"{scheme}, w = {window}",
                )
            panel.set_ylabel(label)
            panel.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        figure.axes[0].set_yscale("log")
        for panel in figure.axes[2:]:
            panel.set_xlabel(name)
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small"
        )

    return Report(title, (name, "w", "scheme", *NUMBERS), [_row(point) for point in points], notes, draw)


def _row(point: Point) -> Sequence[Cell]:
    outcome = point.outcome
    return (
        point.value,
        point.window,
        point.scheme,
        outcome.milliseconds,
        outcome.migration,
        round(outcome.table),
        outcome.theta,
    )


def figure_18(settings: Sizing) -> Report:
    """How MINMIG's routing table grows with the number of adjustments."""
    points = sweeps.growth(settings)
    length = len(points[0].outcome.tables)
    shown = sorted({round(length ** (i / 8)) for i in range(9)})
    case = sweeps.base(settings)
    most = case.workload.keys * (case.workers - 1) / case.workers

    def draw(figure: "Figure") -> None:
        panel = figure.subplots()
        for point, style in zip(points, ("-", "--", ":"), strict=True):
            panel.plot(point.outcome.tables, style, color=colour("MINMIG"), label=f"θmax = {point.value:g}")
        panel.axhline(most, color=colour("KEY"), label="K·(N_D − 1)/N_D")
        panel.set_xlabel("adjustments")
        panel.set_ylabel("entries of the routing table")
        panel.legend()

    return Report(
        "Mixed, figure 18: MINMIG's routing table",
        ("adjustments", *(f"θmax = {point.value:g}" for point in points)),
        [(n, *(point.outcome.tables[n - 1] for point in points)) for n in shown],
        [
            "The paper's tables converge to about 9350 entries; smaller θmax gets there faster. Why ours go on growing",
            "is said in 'Mixed: what the paper says'.",
        ],
        draw,
    )
