"""Figures 13 to 16, live: schemes in a topology with a workload that changes every few batches.

``live_claims`` sets what the paper says of these figures beside ours.
"""

from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

from evidence.papers.mixed.claims import Claim
from evidence.papers.mixed.follow import Workload
from evidence.papers.page import Cell, Remarks, Report, Sizing, headings
from evidence.papers.stage import Course, Stage
from unskew.apps.metrics.colours import get_colour
from unskew.grouping import create, get_parameters
from unskew.grouping.keys import hash_keys
from unskew.grouping.table.router import TableRouter

WORKERS, KEYS = 10, 10_000
STEADY = 4  # batches between two changes; in the paper it is minutes
F, THETAS = (0.2, 1.0, 2.0), (0.02, 0.08, 0.3)
STREAMS = {"Social": 0.85, "Stock": 0.5}
_COMMON = Remarks.of(
    "Mixed, live: setting",
    f"N_D = {WORKERS}, {KEYS:,} keys, a tuple costs 1 ms times the scale; frequencies change every {STEADY} batches.",
    "Tuples/s: as many as if a batch were over when its slowest worker is; what a batch costs all schemes alike is",
    "left out. Latency: from a batch's beginning to the end of the tuple's worker's share. Without the first batch.",
)
_DATA = (
    "The paper's data isn't available: Social is the synthetic workload with z = 0.85, Stock with z = 0.5, f = 1; both",
    "are counted by key, where Stock was a self-join.",
)
_READJ = "READJ has its default σ; the paper reports its best one."


def course(stage: Stage, settings: Sizing, grouping: str, f: float, theta_max: float = 0.08, z: float = 0.85) -> Course:
    """The course of a scheme's run over the workload."""
    return _course(stage, settings, grouping, f, theta_max if "theta_max" in get_parameters(grouping) else None, z)


@cache
def _course(stage: Stage, settings: Sizing, grouping: str, f: float, theta_max: float | None, z: float) -> Course:
    options = {} if theta_max is None else {"theta_max": theta_max}
    keys, batch = stream(settings, f, z)
    topic = f"mixed-{f:g}-{z:g}-{settings.scale:g}"
    how: dict[str, Any] = {"process_ms": settings.scale, "options": options, "run": f"{theta_max}"}
    return stage.play(grouping, topic, keys, workers=WORKERS, batch=batch, **how).within(1)


def stream(settings: Sizing, f: float, z: float) -> tuple[NDArray[np.int64], int]:
    """The tuples' keys, by frequencies of the workload that change every ``STEADY`` batches; and a batch's size."""
    random = np.random.default_rng((settings.seed, 7))
    batch, changes = settings.of(40_000, least=40_000), max(2, settings.of(30, least=3))
    router = create("MIXED", WORKERS)
    assert isinstance(router, TableRouter)
    home = router.home(hash_keys(pa.array(map(str, range(KEYS)))))
    parts = []
    for frequency in islice(Workload(keys=KEYS, z=z, f=f, seed=settings.seed).intervals(home, WORKERS), changes):
        parts += [random.choice(KEYS, batch, p=frequency / frequency.sum()) for _ in range(STEADY)]
    return np.concatenate(parts), batch


def figure_13(settings: Sizing, stage: Stage) -> Report:
    """Over the fluctuation f."""
    schemes = {"SHUFFLE": "Ideal", "MIXED": "Mixed", "READJ": "Readj", "KEY": "Storm"}
    found = {(f, name): course(stage, settings, name, f) for f in F for name in schemes}
    rows: list[tuple[Cell, ...]] = [
        (f, shown, found[f, name].throughput, found[f, name].completion, found[f, name].theta)
        for f in F
        for name, shown in schemes.items()
    ]
    lines = {shown: (name, [found[f, name].throughput for f in F]) for name, shown in schemes.items()}
    title = "Mixed, figure 13: throughput and latency over the fluctuation, live"
    columns = headings("f | scheme | tuples/s | latency, ms | θ, %")
    return Report(title, columns, rows, [_READJ], lambda figure: _draw(figure, "f", F, lines), _COMMON)


def figure_14(settings: Sizing, stage: Stage) -> Report:
    """Over θmax, two streams."""
    rows: list[tuple[Cell, ...]] = []
    lines: dict[str, tuple[str, list[float]]] = {}
    for data, z in STREAMS.items():
        for name, shown in (("KEY", "Storm"), ("PARTIAL_KEY", "PKG")):
            rate = course(stage, settings, name, 1.0, z=z)
            rows.append((data, None, shown, rate.throughput, rate.completion, rate.theta))
            lines[f"{data}, {shown}"] = name, [rate.throughput] * len(THETAS)
        for name, shown in (("MIXED", "Mixed"), ("MINTABLE", "MinTable"), ("READJ", "Readj")):
            found = [course(stage, settings, name, 1.0, theta, z) for theta in THETAS]
            rows += [(data, t, shown, c.throughput, c.completion, c.theta) for t, c in zip(THETAS, found, strict=True)]
            lines[f"{data}, {shown}"] = name, [each.throughput for each in found]
    title = "Mixed, figure 14: throughput on two streams over θmax, live"
    columns = headings("data | θmax | scheme | tuples/s | latency, ms | θ, %")
    notes = [*_DATA, _READJ]
    return Report(title, columns, rows, notes, lambda figure: _draw(figure, "θmax", THETAS, lines), _COMMON)


@cache
def scaled_out(stage: Stage, settings: Sizing, grouping: str) -> list[Course]:
    """The courses of a run before and after it gets one more worker; the workload stays as it is."""
    options = {"theta_max": 0.08} if "theta_max" in get_parameters(grouping) else {}
    keys, batch = stream(settings, 0.0, 0.85)
    half = len(keys) // batch // 2 * batch
    topic = f"mixed-out-{grouping}-{settings.scale:g}"
    how: dict[str, Any] = {"batch": batch, "process_ms": settings.scale, "options": options}
    steps = (WORKERS - 1, half), (WORKERS, len(keys))
    return [stage.play(grouping, topic, keys[:until], workers=workers, **how) for workers, until in steps]


def figure_15(settings: Sizing, stage: Stage) -> Report:
    """A worker more: throughput before, at once, and when the new one has its share."""
    schemes = {"MIXED": "Mixed", "READJ": "Readj", "PARTIAL_KEY": "PKG"}
    found = {name: scaled_out(stage, settings, name) for name in schemes}
    rows: list[tuple[Cell, ...]] = []
    for name, shown in schemes.items():
        before, after = (course.throughputs for course in found[name])
        # One batch more has the old number of workers; in the next one plans can't know of the new one yet.
        rows.append((shown, float(before[1:].mean()), float(after[0]), float(after[1]), float(after[2:].mean())))
    courses = {name: np.concatenate([part.throughputs for part in parts]) for name, parts in found.items()}
    notes = [f"From {WORKERS - 1} to {WORKERS} workers: the run is started again on its checkpoint."]
    columns = headings("scheme | tuples/s before | first batch | second | from then on")
    title = "Mixed, figure 15: a worker more, live"
    return Report(title, columns, rows, notes, lambda figure: _draw_courses(figure, courses), _COMMON)


def figure_16(settings: Sizing, stage: Stage) -> Report:
    """Throughput through time, as the workload changes."""
    found = {"Storm": ("KEY", course(stage, settings, "KEY", 1.0))}
    for theta in THETAS:
        found[f"Mixed, θmax = {theta:g}"] = "MIXED", course(stage, settings, "MIXED", 1.0, theta)
    rows: list[tuple[Cell, ...]] = [
        (shown, float(of.throughputs.mean()), float(of.throughputs.min()), float(of.throughputs.max()), of.theta)
        for shown, (_, of) in found.items()
    ]
    notes = ["TPC-H's query 5, a join of joins, is not done: it is the synthetic workload, f = 1, counted by key."]
    courses = {shown: of.throughputs for shown, (_, of) in found.items()}
    columns = headings("scheme | tuples/s, mean | worst batch | best | θ, %")
    title = "Mixed, figure 16: throughput through time, live"
    return Report(title, columns, rows, notes, lambda figure: _draw_courses(figure, courses), _COMMON)


def _draw(figure: Figure, name: str, values: tuple[float, ...], lines: dict[str, tuple[str, list[float]]]) -> None:
    axes = figure.subplots()
    for label, (grouping, rates) in lines.items():
        style = "--" if label.startswith("Stock") else "-"
        axes.plot(range(len(values)), rates, "o" + style, color=get_colour(grouping), label=label)
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set_xlabel(name)
    axes.set_ylabel("tuples/s")
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5, frameon=False, fontsize="small")


def _draw_courses(figure: Figure, courses: dict[str, NDArray[np.float64]]) -> None:
    axes = figure.subplots()
    for (label, rates), style in zip(courses.items(), ("-", "--", ":", "-."), strict=False):
        axes.plot(range(1, len(rates) + 1), rates, style, label=label)
    axes.set_xlabel("batch")
    axes.set_ylabel("tuples/s")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)


def live_claims(settings: Sizing, stage: Stage) -> Report:
    """One row for each."""
    rows = [*_fluctuation(settings, stage), *_tolerance(settings, stage), *_scale_out(settings, stage)]
    title = "Mixed: what the paper says of its live figures, and what comes out"
    return Report(title, ("figure", "paper", "ours", "why they differ"), rows)


def _fluctuation(settings: Sizing, stage: Stage) -> list[Claim]:
    def rates(name: str) -> np.ndarray:
        return np.array([course(stage, settings, name, f).throughput for f in F])

    ideal, mixed, readj, storm = (rates(name) for name in ("SHUFFLE", "MIXED", "READJ", "KEY"))
    at = ", ".join(f"{f:g}" for f in F)
    return [
        Claim("13", "Ideal is the best always", f"f = {at}: Mixed has {_shares(mixed / ideal)} of its throughput"),
        Claim(
            "13",
            "Mixed is very close to it, whatever f",
            f"from {min(mixed / ideal):.0%} to {max(mixed / ideal):.0%}; Storm {_shares(storm / ideal)}",
            "after each change a batch has the old plan: one of four here, a small part of an interval there",
        ),
        Claim(
            "13",
            "Readj works well only with small f",
            f"{_shares(readj / mixed)} of Mixed's throughput",
            "it is planned by batches, in which READJ's time to plan doesn't count",
        ),
    ]


def _tolerance(settings: Sizing, stage: Stage) -> list[Claim]:
    found: list[Claim] = []
    for data, z in STREAMS.items():
        by = {
            name: np.array([course(stage, settings, name, 1.0, theta, z).throughput for theta in THETAS])
            for name in ("MIXED", "MINTABLE", "READJ")
        }
        storm, pkg = (course(stage, settings, name, 1.0, z=z) for name in ("KEY", "PARTIAL_KEY"))
        mixed = by["MIXED"]
        found += [
            Claim("14", f"{data}: Mixed is best with the strictest θmax", f"{THETAS}: {_rates(mixed)} tuples/s"),
            Claim(
                "14",
                f"{data}: about twice Storm's and Readj's with small θmax",
                f"{mixed[0] / storm.throughput:.2f} and {mixed[0] / by['READJ'][0]:.2f} times",
                "one batch of four has the old plan; READJ's time to plan doesn't count",
            ),
            Claim(
                "14",
                f"{data}: MinTable is slower, because it moves more",
                f"{_shares(by['MINTABLE'] / mixed)} of Mixed's",
                "counts move with no key here; what moving states costs: `python -m evidence.speed.migration`",
            ),
        ]
        if data == "Social":
            less = 1 - course(stage, settings, "MIXED", 1.0, THETAS[0], z).completion / pkg.completion
            found.append(
                Claim(
                    "14",
                    "Social: 10 % more throughput than PKG, 40 % less latency",
                    f"{mixed[0] / pkg.throughput - 1:.0%} more, {less:.0%} less",
                    "merging the partial counts is part of a batch's fixed cost here, which is left out",
                )
            )
    return found


def _scale_out(settings: Sizing, stage: Stage) -> list[Claim]:
    mixed, readj = (scaled_out(stage, settings, name) for name in ("MIXED", "READJ"))
    storm = course(stage, settings, "KEY", 1.0).throughputs
    bound = [course(stage, settings, "MIXED", 1.0, theta).throughputs for theta in THETAS]
    gains = f"from the third batch on {_gain(mixed)} and {_gain(readj)} times the throughput before"
    means = np.array([each.mean() for each in bound])
    return [
        Claim(
            "15",
            "Mixed is balanced over the new worker much sooner than Readj (5 minutes)",
            gains,
            "READJ's time to plan is small with few keys",
        ),
        Claim(
            "16",
            "without balancing throughput is poor, Mixed's is best at any θmax",
            f"Mixed {_shares(means / storm.mean())} of Storm's",
        ),
    ]


def _gain(courses: list) -> str:
    before, after = (course.throughputs for course in courses)
    return f"{after[2:].mean() / before[1:].mean():.2f}"


def _shares(values: np.ndarray) -> str:
    return ", ".join(f"{value:.0%}" for value in values)


def _rates(values: np.ndarray) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)
