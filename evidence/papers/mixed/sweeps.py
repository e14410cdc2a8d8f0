"""The sweeps of the routing table paper's figures 8 to 12 and 17 to 21, each done once a process, and their reports."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from matplotlib.figure import Figure

from evidence.papers.mixed.follow import Case, Outcome, Point, Workload, sweep
from evidence.papers.page import Remarks, Report, Sizing
from unskew.grouping.registry import get_colour

ALL = ("MIXED", "MINTABLE", "MINMIG", "MIXED_BF", "READJ")
_KEYS = 10_000  # of table 2
#: The brute force version tries as many plans as the table has entries: beyond this many keys, not here.
MOST_KEYS_BY_FORCE = 100_000
_COMMON = Remarks.of(
    "Mixed: sweeps",
    "Scaled: intervals (the paper's 50 × scale, 3 at least) and the largest key domain. Times are CPU times here.",
)


def base(settings: Sizing) -> Case:
    """Table 2's defaults."""
    return Case(Workload(keys=settings.of(_KEYS, least=_KEYS), seed=settings.seed))


class Sweep(NamedTuple):
    """A parameter that is swept: its name on the page and in ``Case``, and its values.

    ``schemes``: w → the schemes that are run with it. ``plans``, ``least``: How many plans are averaged at scale 1,
    and at any scale; the paper looks at 50 intervals.
    """

    title: str
    label: str
    parameter: str
    values: Sequence[float]
    schemes: Mapping[int, Sequence[str]]
    plans: int = 50
    least: int = 3


_W_1 = {1: ALL}
_BOTH = {1: ALL, 5: ("MIXED", "MINTABLE")}  # as in the figures
_OF_F = ("MIXED", "MINTABLE", "MIXED_BF", "READJ")
SWEEPS = {
    "figure-8": Sweep("figure 8: workers", "workers", "workers", (5, 10, 15, 20, 30, 40), _BOTH),
    "figure-9": Sweep("figure 9: imbalance tolerance", "θmax", "theta_max", (0.0, 0.02, 0.05, 0.08, 0.15, 0.3), _BOTH),
    "figure-10": Sweep("figure 10: key domain", "keys", "keys", (), _BOTH),
    "figure-12": Sweep("figure 12: fluctuation", "f", "f", (0.1, 0.2, 0.5, 1.0, 1.5, 2.0), {1: _OF_F, 5: _OF_F}),
    # In the range where the bound decides something.
    "figure-17": Sweep("figure 17: table bound", "Amax", "table_max", (0, 30, 60, 80, 90, 100, 120, 300, 3000), _W_1),
    "figure-18": Sweep(
        "figure 18: MINMIG's routing table", "θmax", "theta_max", (0.0, 0.02, 0.08), {1: ("MINMIG",)}, 2000, 200
    ),
    "figure-19": Sweep("figure 19: window", "intervals", "window", (1, 5, 10, 15, 20), _W_1, least=20),
    "figures-20-21": Sweep(
        "figures 20 and 21: β", "β", "beta", (1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0), {5: ("MINMIG",)}, 10, 10
    ),
}


@cache
def run_sweep(name: str, settings: Sizing) -> list[Point]:
    """The points of a sweep. The largest key domain is scaled, to a hundred thousand keys at least."""
    swept, values, large = SWEEPS[name], SWEEPS[name].values, list[int]()
    if swept.parameter == "keys":
        keys = {*(settings.of(n, least=n) for n in (5_000, 10_000, 100_000)), settings.of(1_000_000, least=100_000)}
        values = sorted(n for n in keys if n <= MOST_KEYS_BY_FORCE)
        large = sorted(keys.difference(values))
    plans = settings.of(swept.plans, least=swept.least)
    points: list[Point] = []
    for window, schemes in swept.schemes.items():
        points += sweep(base(settings).at(window=window), swept.parameter, values, schemes, plans)
    others = [scheme for scheme in ALL if scheme != "MIXED_BF"]
    return points + sweep(base(settings), swept.parameter, large, others, plans)


#: The columns of a sweep's numbers, and each one's number for the picture.
NUMBERS: dict[str, Callable[[Outcome], float]] = {
    "plan, ms": lambda outcome: outcome.milliseconds,
    "state moved, %": lambda outcome: outcome.migration,
    "table": lambda outcome: round(outcome.table),
    "θ, %": lambda outcome: outcome.theta,
}
#: Lines often lie on each other, and one family's colours are alike.
MARKERS: dict[str, str] = dict(zip(ALL, "os^Dx", strict=True))


def report_sweep(name: str, settings: Sizing) -> Report:
    """The report of a sweep: a row for each point, and a panel for each number."""
    points, label = run_sweep(name, settings), SWEEPS[name].label

    def draw(figure: Figure) -> None:
        values = list(dict.fromkeys(point.value for point in points))
        follows_label = label == "intervals"
        lines = dict.fromkeys((None if follows_label else point.window, point.scheme) for point in points)
        for panel, (what, number) in zip(figure.subplots(2, 2, sharex=True).flat, NUMBERS.items(), strict=True):
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
            panel.set_ylabel(what)
            panel.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        figure.axes[0].set_yscale("log")
        for panel in figure.axes[2:]:
            panel.set_xlabel(label)
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small"
        )

    columns = (label, "w", "scheme", *NUMBERS)
    rows = [(at.value, at.window, at.scheme, *(number(at.outcome) for number in NUMBERS.values())) for at in points]
    notes = [f"MIXED_BF is left out above {MOST_KEYS_BY_FORCE:,} keys."] if label == "keys" else []
    return Report(f"Mixed, {SWEEPS[name].title}", columns, rows, notes, draw, _COMMON)


def figure_18(settings: Sizing) -> Report:
    """How MINMIG's routing table grows with the number of adjustments."""
    points = run_sweep("figure-18", settings)
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
        f"Mixed, {SWEEPS['figure-18'].title}",
        ("adjustments", *(f"θmax = {point.value:g}" for point in points)),
        [(n, *(point.outcome.tables[n - 1] for point in points)) for n in shown],
        [
            "The paper's tables converge to about 9350 entries; smaller θmax gets there faster. Why ours go on growing",
            "is said in 'Mixed: what the paper says'.",
        ],
        draw,
    )
