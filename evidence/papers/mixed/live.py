"""Figures 13 to 16, live: schemes in a topology with a workload that changes every few batches.

``live_claims`` sets what the paper says of these figures beside ours.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import cycle, islice
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

from evidence.papers.mixed import stock
from evidence.papers.mixed.claims import SLACK, Claim, falls, report_claims
from evidence.papers.mixed.follow import Workload
from evidence.papers.mixed.q5 import operators, runs
from evidence.papers.page import Cell, Remarks, Report, Sizing, add_legend, headings
from evidence.papers.stage import Course, Stage, shipped
from unskew.grouping import create, get_parameters
from unskew.grouping.keys import hash_keys
from unskew.grouping.registry import get_colour
from unskew.grouping.table.router import TableRouter

WORKERS, KEYS = 10, 10_000
STEADY = 4  # batches between two changes; in the paper it is minutes
F, THETAS = (0.2, 1.0, 2.0), (0.02, 0.08, 0.3)
_Z = 0.85
_TRADE = 4  # ms times the scale
_COMMON = Remarks.of(
    "Mixed, live: setting",
    f"N_D = {WORKERS}, {KEYS:,} keys, a tuple costs 1 ms times the scale; frequencies change every {STEADY} batches.",
    "Tuples/s: as many as if a batch were over when its slowest worker is; what a batch costs all schemes alike is",
    "left out. Latency: from a batch's beginning to the end of the tuple's worker's share. Without the first batch.",
)
_DATA = (
    f"The paper's data isn't available: Social is the synthetic workload with z = {_Z:g}, f = 1, counted by key. Stock",
    f"is drawn: trades of {stock.DAYS} days in {stock.STOCKS:,} stocks, of which others burst each day. `keyed_map`",
    "joins them with themselves over a day: a purchase and a later sale by the same player. A batch is three hours, a",
    f"trade costs {_TRADE} ms times the scale. Each run's pairs are those that DuckDB finds, once each. States moved:",
    "stocks whose trades of the last day went to another worker. A batch, s: by Spark's clock, with what moving states",
    "costs. PKG does not support joins.",
)
_OLD_PLAN = {
    "Social": "one batch of four has the old plan; READJ's time to plan doesn't count",
    "Stock": f"two batches of {stock.BATCHES_A_DAY} have the old plan; READJ's time to plan doesn't count",
}
_LITTLE_STATE = "a whole batch's time has Spark's own in it; a state is small beside that"
_READJ = "READJ has its default σ; the paper reports its best one."


def course(stage: Stage, settings: Sizing, grouping: str, f: float, theta_max: float = 0.08) -> Course:
    """The course of a scheme's run over the workload."""
    return _course(stage, settings, grouping, f, theta_max if "theta_max" in get_parameters(grouping) else None)


@cache
def _course(stage: Stage, settings: Sizing, grouping: str, f: float, theta_max: float | None) -> Course:
    options = {} if theta_max is None else {"theta_max": theta_max}
    keys, batch = stream(settings, f)
    topic = f"mixed-{f:g}-{settings.scale:g}"
    how: dict[str, Any] = {"process_ms": settings.scale, "options": options, "run": f"{theta_max}"}
    return stage.play(grouping, topic, keys, workers=WORKERS, batch=batch, **how).within(1)


def stream(settings: Sizing, f: float) -> tuple[NDArray[np.int64], int]:
    """The tuples' keys, by frequencies of the workload that change every ``STEADY`` batches; and a batch's size."""
    random = np.random.default_rng((settings.seed, 7))
    batch, changes = settings.of(40_000, least=40_000), max(2, settings.of(30, least=3))
    router = create("MIXED", WORKERS)
    assert isinstance(router, TableRouter)
    home = router.home(hash_keys(pa.array(map(str, range(KEYS)))))
    parts = []
    for frequency in islice(Workload(keys=KEYS, z=_Z, f=f, seed=settings.seed).intervals(home, WORKERS), changes):
        parts += [random.choice(KEYS, batch, p=frequency / frequency.sum()) for _ in range(STEADY)]
    return np.concatenate(parts), batch


def join_trades(stage: Stage, settings: Sizing, grouping: str, theta_max: float | None = 0.08) -> Course:
    """The course of a scheme's self-join of the trades."""
    theta_max = theta_max if "theta_max" in get_parameters(grouping) else None
    return _join_trades(stage, settings, grouping, theta_max, WORKERS, 0, None).within(1)


@cache
def _join_trades(
    stage: Stage,
    settings: Sizing,
    grouping: str,
    theta_max: float | None,
    workers: int,
    first: int,
    stop: int | None,
) -> Course:
    """The course of a self-join of some of the batches of trades, whose pairs must be those that DuckDB finds.

    Raises ValueError: They are not.
    """
    shipped(stock, operators)
    options = {} if theta_max is None else {"theta_max": theta_max, "window": stock.BATCHES_A_DAY}
    batches = stock.draw_trades(settings)[first:stop]
    name = f"stock-{settings.scale:g}-{settings.seed}-{grouping}-{theta_max}-{workers}-{first}"
    course, found = stage.play_operator(
        grouping, name, batches, stock.TradeJoin(_TRADE * settings.scale), workers=workers, key="stock", time="at",
        ttl="25 hours", **options,
    )  # fmt: skip
    faults = stock.compare_pairs(found, stock.find_pairs(batches))
    if any(faults):
        raise ValueError(f"{name}: pairs are wrong, {faults}")
    return course


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


def _count_words(stage: Stage, settings: Sizing, grouping: str, theta_max: float) -> Course:
    return course(stage, settings, grouping, 1.0, theta_max)


#: The real workloads → a scheme's run over it.
_STREAMS: dict[str, Callable[[Stage, Sizing, str, float], Course]] = {"Social": _count_words, "Stock": join_trades}


def figure_14(settings: Sizing, stage: Stage) -> Report:
    """Over θmax, two streams."""
    rows: list[tuple[Cell, ...]] = []
    lines: dict[str, tuple[str, list[float]]] = {}

    def add(data: str, theta: float | None, shown: str, of: Course) -> None:
        join = (int(of.moved.sum()), float(of.seconds.mean())) if data == "Stock" else (None, None)
        rows.append((data, theta, shown, of.throughput, of.completion, of.theta, *join))

    for data, play in _STREAMS.items():
        for name, shown in (("KEY", "Storm"), ("PARTIAL_KEY", "PKG")):
            if data == "Stock" and shown == "PKG":
                continue
            found = [play(stage, settings, name, THETAS[0])]
            add(data, None, shown, found[0])
            lines[f"{data}, {shown}"] = name, [found[0].throughput] * len(THETAS)
        for name, shown in (("MIXED", "Mixed"), ("MINTABLE", "MinTable"), ("READJ", "Readj")):
            found = [play(stage, settings, name, theta) for theta in THETAS]
            for theta, of in zip(THETAS, found, strict=True):
                add(data, theta, shown, of)
            lines[f"{data}, {shown}"] = name, [each.throughput for each in found]
    title = "Mixed, figure 14: throughput on two streams over θmax, live"
    columns = headings("data | θmax | scheme | tuples/s | latency, ms | θ, % | states moved | a batch, s")
    notes = [*_DATA, _READJ]
    return Report(title, columns, rows, notes, lambda figure: _draw(figure, "θmax", THETAS, lines), _COMMON)


@cache
def scaled_out(stage: Stage, settings: Sizing, grouping: str) -> list[Course]:
    """The courses of a run before and after it gets one more worker; the workload stays as it is."""
    options = {"theta_max": 0.08} if "theta_max" in get_parameters(grouping) else {}
    keys, batch = stream(settings, 0.0)
    half = len(keys) // batch // 2 * batch
    topic = f"mixed-out-{grouping}-{settings.scale:g}"
    how: dict[str, Any] = {"batch": batch, "process_ms": settings.scale, "options": options}
    steps = (WORKERS - 1, half), (WORKERS, len(keys))
    return [stage.play(grouping, topic, keys[:until], workers=workers, **how) for workers, until in steps]


def scale_out_join(stage: Stage, settings: Sizing, grouping: str) -> list[Course]:
    """The courses of the self-join before and after it gets one more worker, in the middle of the second day.

    ``keyed_map`` takes no checkpoint of another number of workers. So a second query begins with the last day's trades.
    """
    half = stock.DAYS * stock.BATCHES_A_DAY // 2
    parts = (WORKERS - 1, 0, half), (WORKERS, half - stock.BATCHES_A_DAY, None)
    return [_join_trades(stage, settings, grouping, 0.08, *part) for part in parts]


def figure_15(settings: Sizing, stage: Stage) -> Report:
    """A worker more: throughput before, at once, and when the new one has its share."""
    social = {"MIXED": "Mixed", "READJ": "Readj", "PARTIAL_KEY": "PKG"}
    found = {("Social", shown): scaled_out(stage, settings, name) for name, shown in social.items()}
    found |= {("Stock", social[name]): scale_out_join(stage, settings, name) for name in ("MIXED", "READJ")}
    rows: list[tuple[Cell, ...]] = []
    for (data, shown), parts in found.items():
        before, after = (part.throughputs for part in parts)
        # Social: one batch more has the old number of workers; in the next one plans can't know of the new one yet.
        rows.append((data, shown, float(before[1:].mean()), float(after[0]), float(after[1]), float(after[2:].mean())))
    courses = {
        f"{data}, {shown}": np.concatenate([part.throughputs for part in parts])
        for (data, shown), parts in found.items()
    }
    notes = [
        f"From {WORKERS - 1} to {WORKERS} workers. Social: the run is started again on its checkpoint. Stock:",
        "`keyed_map` takes no checkpoint of another number of workers, so a second query begins with the trades of the",
        "last day.",
    ]
    columns = headings("data | scheme | tuples/s before | first batch | second | from then on")
    title = "Mixed, figure 15: a worker more, live"
    return Report(title, columns, rows, notes, lambda figure: _draw_courses(figure, courses), _COMMON)


def figure_16(settings: Sizing, stage: Stage) -> Report:
    """Throughput of TPC-H's query 5 through time, as the workload changes."""
    found = runs.run_all(settings, stage)
    rows: list[tuple[Cell, ...]] = [
        (
            scheme,
            *(float(of) for of in (run.throughputs.mean(), run.throughputs.min(), run.throughputs.max())),
            *(course.theta for course in run.operators.values()),
            run.moved,
            f"{run.wrong} sums are wrong" if run.wrong else "exact",
        )
        for scheme, run in found.items()
    ]
    courses = {scheme: run.throughputs for scheme, run in found.items()}
    thetas = [f"θ of {key}, %" for key in found[runs.STORM].operators]
    columns = [*headings("scheme | items/s, mean | worst batch | best"), *thetas, "states moved", "revenue"]
    title = "Mixed, figure 16: TPC-H's query 5 through time, live"
    return Report(title, columns, rows, runs.SETTING, partial(_draw_courses, courses=courses, unit="items/s"))


def _draw(figure: Figure, name: str, values: tuple[float, ...], lines: dict[str, tuple[str, list[float]]]) -> None:
    axes = figure.subplots()
    for label, (grouping, rates) in lines.items():
        style = "--" if label.startswith("Stock") else "-"
        axes.plot(range(len(values)), rates, "o" + style, color=get_colour(grouping), label=label)
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set(xlabel=name, ylabel="tuples/s")
    add_legend(figure, ncols=5, fontsize="small")


def _draw_courses(figure: Figure, courses: dict[str, NDArray[np.float64]], unit: str = "tuples/s") -> None:
    axes = figure.subplots()
    for (label, rates), style in zip(courses.items(), cycle(("-", "--", ":", "-.")), strict=False):
        axes.plot(range(1, len(rates) + 1), rates, style, label=label)
    axes.set(xlabel="batch", ylabel=unit)
    add_legend(figure, ncols=4)


def live_claims(settings: Sizing, stage: Stage) -> Report:
    """One row for each."""
    found = [
        *_fluctuation(settings, stage),
        *_tolerance(settings, stage),
        *_scale_out(settings, stage),
        _query_5(settings, stage),
    ]
    return report_claims("Mixed: what the paper says of its live figures, and what comes out", found)


def _fluctuation(settings: Sizing, stage: Stage) -> list[Claim]:
    def rates(name: str) -> np.ndarray:
        return np.array([course(stage, settings, name, f).throughput for f in F])

    ideal, mixed, readj, storm = (rates(name) for name in ("SHUFFLE", "MIXED", "READJ", "KEY"))
    at = ", ".join(f"{f:g}" for f in F)
    return [
        Claim(
            "13",
            "Ideal is the best always",
            f"f = {at}: Mixed has {_shares(mixed / ideal)} of its throughput",
            max(mixed / ideal) <= 1 + SLACK,
        ),
        Claim(
            "13",
            "Mixed is very close to it, whatever f",
            f"from {min(mixed / ideal):.0%} to {max(mixed / ideal):.0%}; Storm {_shares(storm / ideal)}",
            min(mixed / ideal) >= 1 - SLACK,
            "after each change a batch has the old plan: one of four here, a small part of an interval there",
        ),
        Claim(
            "13",
            "Readj works well only with small f",
            f"{_shares(readj / mixed)} of Mixed's throughput",
            falls((readj / mixed).round(2).tolist()),
            "it is planned by batches, in which READJ's time to plan doesn't count",
        ),
    ]


def _tolerance(settings: Sizing, stage: Stage) -> list[Claim]:
    found: list[Claim] = []
    for data, play in _STREAMS.items():
        by = {name: [play(stage, settings, name, theta) for theta in THETAS] for name in ("MIXED", "MINTABLE", "READJ")}
        mixed, mintable, readj = (np.array([each.throughput for each in of]) for of in by.values())
        storm = play(stage, settings, "KEY", THETAS[0]).throughput
        found += [
            Claim(
                "14",
                f"{data}: Mixed is best with the strictest θmax",
                f"{THETAS}: {_rates(mixed)} tuples/s",
                mixed[0] >= (1 - SLACK) * max(mixed),
            ),
            Claim(
                "14",
                f"{data}: about twice Storm's and Readj's with small θmax",
                f"{mixed[0] / storm:.2f} and {mixed[0] / readj[0]:.2f} times",
                mixed[0] >= 2 * (1 - SLACK) * max(storm, readj[0]),
                _OLD_PLAN[data],
            ),
        ]
        paper = f"{data}: MinTable is slower, because it moves more"
        if data == "Social":
            why = "counts move with no key here; what moving states costs: `python -m evidence.speed.migration`"
            shares = mintable / mixed
            found.append(Claim("14", paper, f"{_shares(shares)} of Mixed's", max(shares.round(2)) < 1, why))
            found.append(_compare_with_pkg(settings, stage, by["MIXED"][0]))
        else:
            found.append(_compare_moves(paper, by["MIXED"], by["MINTABLE"]))
    return found


def _compare_with_pkg(settings: Sizing, stage: Stage, mixed: Course) -> Claim:
    pkg = _count_words(stage, settings, "PARTIAL_KEY", THETAS[0])
    more, less = mixed.throughput / pkg.throughput - 1, 1 - mixed.completion / pkg.completion
    return Claim(
        "14",
        "Social: 10 % more throughput than PKG, 40 % less latency",
        f"{more:.0%} more, {less:.0%} less",
        more >= (1 - SLACK) * 0.1 and less >= (1 - SLACK) * 0.4,
        "merging the partial counts is part of a batch's fixed cost here, which is left out",
    )


def _compare_moves(paper: str, mixed: Sequence[Course], mintable: Sequence[Course]) -> Claim:
    """MinTable's rate by whole batches, in which states move, and how many moved."""
    rates = np.array([ours.rate / theirs.rate for ours, theirs in zip(mintable, mixed, strict=True)])
    moved = (", ".join(f"{each.moved.sum():,}" for each in of) for of in (mintable, mixed))
    ours = "{} of Mixed's; it moves {} states, Mixed {}".format(_shares(rates), *moved)
    return Claim("14", paper, ours, max(rates.round(2)) < 1, _LITTLE_STATE)


def _scale_out(settings: Sizing, stage: Stage) -> list[Claim]:
    found: list[Claim] = []
    for data, play in (("Social", scaled_out), ("Stock", scale_out_join)):
        mixed, readj = (_gain(play(stage, settings, name)) for name in ("MIXED", "READJ"))
        found.append(
            Claim(
                "15",
                f"{data}: Mixed is balanced over the new worker much sooner than Readj (5 minutes)",
                f"from the third batch on {mixed:.2f} and {readj:.2f} times the throughput before",
                mixed > (1 + SLACK) * readj,
                "READJ's time to plan is small with few keys",
            )
        )
    return found


def _query_5(settings: Sizing, stage: Stage) -> Claim:
    means = {scheme: run.throughputs.mean() for scheme, run in runs.run_all(settings, stage).items()}
    storm, ours = means.pop(runs.STORM), means.pop(runs.OURS)
    mixed = np.array([*means.values()]) / storm
    return Claim(
        "16",
        "without balancing throughput is poor, Mixed's is best at any θmax",
        f"Mixed {_shares(mixed)} of Storm's; {runs.OURS}: {ours / storm:.2f} times it",
        min(mixed) > 1 + SLACK,
        "an order is hot for the 5 minutes of its window, and a plan is of the batch before",
    )


def _gain(courses: Sequence[Course]) -> float:
    before, after = (course.throughputs for course in courses)
    return float(after[2:].mean() / before[1:].mean())


def _shares(values: np.ndarray) -> str:
    return ", ".join(f"{value:.0%}" for value in values)


def _rates(values: np.ndarray) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)
