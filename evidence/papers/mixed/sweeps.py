"""The sweeps of the routing table paper's figures 8 to 12 and 17 to 21, each done once a process, and their reports."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from matplotlib.figure import Figure

from evidence.papers.mixed.follow import Case, Outcome, Point, Workload, sweep
from evidence.papers.page import Cell, Remarks, Report, Sizing
from unskew.grouping.registry import get_colour

ALL = ("MIXED", "MINTABLE", "MINMIG", "MIXED_BF", "READJ")
_KEYS = 10_000  # of table 2
#: The brute force version tries as many plans as the table has entries: beyond this many keys, not here.
MOST_KEYS_BY_FORCE = 100_000


def base(settings: Sizing) -> Case:
    """Table 2's defaults."""
    return Case(Workload(keys=settings.of(_KEYS, least=_KEYS), seed=settings.seed))


def intervals(settings: Sizing) -> int:
    """Plans that are averaged; the paper looks at 50 intervals."""
    return settings.of(50, least=3)


def _both_windows(settings: Sizing, name: str, values: Sequence[Any]) -> list[Point]:
    """All schemes with w = 1; MIXED and MINTABLE with w = 5 as well, as in the figures."""
    return [
        *sweep(base(settings), name, values, ALL, intervals(settings)),
        *sweep(base(settings).at(window=5), name, values, ("MIXED", "MINTABLE"), intervals(settings)),
    ]


@cache
def over_workers(settings: Sizing) -> list[Point]:
    """Figure 8."""
    return _both_windows(settings, "workers", (5, 10, 15, 20, 30, 40))


@cache
def over_theta_max(settings: Sizing) -> list[Point]:
    """Figure 9."""
    return _both_windows(settings, "theta_max", (0.0, 0.02, 0.05, 0.08, 0.15, 0.3))


@cache
def over_keys(settings: Sizing) -> list[Point]:
    """Figure 10; up to a million keys, times the scale, but a hundred thousand."""
    values = sorted(
        {*(settings.of(n, least=n) for n in (5_000, 10_000, 100_000)), settings.of(1_000_000, least=100_000)}
    )
    points = _both_windows(settings, "keys", [keys for keys in values if keys <= MOST_KEYS_BY_FORCE])
    schemes = [scheme for scheme in ALL if scheme != "MIXED_BF"]
    for keys in values:
        if keys > MOST_KEYS_BY_FORCE:
            points += sweep(base(settings), "keys", [keys], schemes, intervals(settings))
    return points


@cache
def over_f(settings: Sizing) -> list[Point]:
    """Figure 12."""
    schemes, values = ("MIXED", "MINTABLE", "MIXED_BF", "READJ"), (0.1, 0.2, 0.5, 1.0, 1.5, 2.0)
    return [
        point
        for window in (1, 5)
        for point in sweep(base(settings).at(window=window), "f", values, schemes, intervals(settings))
    ]


@cache
def over_table_max(settings: Sizing) -> list[Point]:
    """Figure 17, in the range where the bound decides something."""
    values = (0, 30, 60, 80, 90, 100, 120, 300, 3000)
    return sweep(base(settings), "table_max", values, ALL, intervals(settings))


@cache
def over_window(settings: Sizing) -> list[Point]:
    """Figure 19."""
    return sweep(base(settings), "window", (1, 5, 10, 15, 20), ALL, settings.of(50, least=20))


@cache
def over_beta(settings: Sizing) -> list[Point]:
    """Figures 20 and 21, 10 adjustments each as there."""
    return sweep(
        base(settings).at(window=5), "beta", (1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0), ("MINMIG",), settings.of(10, least=10)
    )


@cache
def growth(settings: Sizing) -> list[Point]:
    """Figure 18: MINMIG's table over many adjustments."""
    return sweep(base(settings), "theta_max", (0.0, 0.02, 0.08), ("MINMIG",), settings.of(2000, least=200))


#: The columns of a sweep's numbers, and each one's number for the picture.
NUMBERS: dict[str, Callable[[Outcome], float]] = {
    "plan, ms": lambda outcome: outcome.milliseconds,
    "state moved, %": lambda outcome: outcome.migration,
    "table": lambda outcome: outcome.table,
    "θ, %": lambda outcome: outcome.theta,
}
#: Lines often lie on each other, and one family's colours are alike.
MARKERS: dict[str, str] = dict(zip(ALL, "os^Dx", strict=True))


def sweep_report(
    title: str, name: str, points: Sequence[Point], notes: Sequence[str], common: Remarks | None = None
) -> Report:
    """The report of a sweep over the parameter ``name``: a row for each point, and a panel for each number."""

    def draw(figure: Figure) -> None:
        values = list(dict.fromkeys(point.value for point in points))
        follows_name = name == "intervals"
        lines = dict.fromkeys((None if follows_name else point.window, point.scheme) for point in points)
        for panel, (label, number) in zip(figure.subplots(2, 2, sharex=True).flat, NUMBERS.items(), strict=True):
            for window, scheme in lines:
                own = {p.value: number(p.outcome) for p in points if p.scheme == scheme and window in (None, p.window)}
                panel.plot(
                    range(len(values)),
                    [own.get(value, math.nan) for value in values],
                    color=get_colour(scheme),
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

    return Report(title, (name, "w", "scheme", *NUMBERS), [_row(point) for point in points], notes, draw, common)


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
    points = growth(settings)
    length = len(points[0].outcome.tables)
    shown = sorted({round(length ** (i / 8)) for i in range(9)})
    case = base(settings)
    most = case.workload.keys * (case.workers - 1) / case.workers

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        for point, style in zip(points, ("-", "--", ":"), strict=True):
            panel.plot(point.outcome.tables, style, color=get_colour("MINMIG"), label=f"θmax = {point.value:g}")
        panel.axhline(most, color=get_colour("KEY"), label="K·(N_D − 1)/N_D")
        panel.set(xlabel="adjustments", ylabel="entries of the routing table")
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
