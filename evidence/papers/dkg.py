"""The DKG paper (Dalabasmaz and Can, *Dynamic Key Grouping*) again: STD_DEV and DIST_COST on the country streams."""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from evidence.papers.page import Cell, Remarks, Report, Sizing, add_legend, headings
from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.grouping import create, encode_keys
from unskew.grouping.keys import Keys
from unskew.grouping.registry import get_colour
from unskew.grouping.simulator import SimulationOutcome, make_workload, simulate
from unskew.kafka.connection import Connection

RECORDS, SECONDS = 10_000_000, 1000.0  # 10 workers at 1 ms a tuple take 1,000 s for 10 M
SOURCES = 5
GROUPINGS = ("SHUFFLE", "KEY", "PARTIAL_KEY", "DYNAMIC_KEY", "DYNAMIC_KEY_DECAY")
#: The original's README, "How It Compares": balance, and what is split.
README = {
    "SHUFFLE": "optimal; all keys split",
    "KEY": "poor; none split",
    "PARTIAL_KEY": "good; 2 workers a key",
    "DYNAMIC_KEY": "good; adaptive, 2 to W",
    "DYNAMIC_KEY_DECAY": None,
}
_SHARES = Remarks.of(
    "DKG: measures and reasons",
    "The paper's figures aren't among our sources; its README's words stand in their place. DYNAMIC_KEY_DECAY is ours.",
    "STD_DEV: of the workers' shares, %, since the start; last minute: of the last 60 s alone. DIST_COST: workers a",
    "key.",
    "a: shares count from the start, so a worker that joins a hot key's pool gets nearly all of that key until its",
    "total has caught up: balanced on the whole, and at no time. DYNAMIC_KEY_DECAY mends that.",
    "b: above p1 = 2/W two workers can't hold the hottest key; the README has hot keys handled partially.",
    "c: while the key is hot as b; in the last minute it's cold, and its two workers get little until the others'",
    "totals have caught up with theirs, because loads count from the start.",
)


def over_skew(settings: Sizing) -> Report:
    """R0 to R100 with ten workers."""
    points = ((f"R{ratio}", _keys(f"COUNTRY_SKEW_R{ratio}", settings), 10) for ratio in range(0, 101, 10))
    return _report("DKG: STD_DEV and DIST_COST over the skew, W = 10", "skew", points, settings)


def over_workers(settings: Sizing) -> Report:
    """R80 with 5 to 100 workers."""
    keys = _keys("COUNTRY_SKEW_R80", settings)
    return _report(
        "DKG: STD_DEV and DIST_COST over the workers, R80",
        "W",
        ((str(w), keys, w) for w in (5, 10, 20, 50, 100)),
        settings,
    )


def half_skew(settings: Sizing) -> Report:
    """A hot key that turns cold in the middle."""
    keys = _keys("COUNTRY_HALF_SKEW_R80", settings)
    return _report("DKG: a hot key turns cold (HALF_SKEW_R80), W = 10", "stream", [("half R80", keys, 10)], settings)


def _keys(name: str, settings: Sizing) -> Keys:
    n = settings.of(RECORDS, least=200_000)
    return encode_keys(StreamSpec(name, n, settings.seed, Connection.of).read().keys)


def _report(title: str, what: str, points: Iterable[tuple[str, Keys, int]], settings: Sizing) -> Report:
    rows: list[tuple[Cell, ...]] = []
    curves: dict[str, list[SimulationOutcome]] = {}
    labels: list[str] = []
    for label, keys, workers in points:
        labels.append(label)
        load = make_workload(keys, np.arange(len(keys)) * (1000 * SECONDS / len(keys)), 0.0)
        for name in GROUPINGS:
            made = partial(create, name, workers, seed=settings.seed)
            outcome = simulate(made, load, sources=SOURCES, samples=round(SECONDS / 60))
            curves.setdefault(name, []).append(outcome)
            last = float(outcome.series["recent_std_dev"][-1])
            ours = outcome.std_dev, last, outcome.replication, _hottest(outcome, keys)
            rows.append((label, name, README[name], *ours, _why(name, curves, keys)))
    columns = headings(
        f"{what} | grouping | paper (README) | ours: STD_DEV | last minute | DIST_COST | workers of the hottest key | "
        "why they differ"
    )
    n = settings.of(RECORDS, least=200_000)
    notes = [f"{n:,} tuples in {SECONDS:g} s (the original: 10 M), {SOURCES} sources."]
    return Report(title, columns, rows, notes, lambda figure: _draw(figure, what, labels, curves), _SHARES)


def _hottest(outcome: SimulationOutcome, keys: Keys) -> int:
    first = np.bincount(keys.codes).argmax()
    return len(np.unique(outcome.assigned[keys.codes == first]))


def _why(name: str, curves: dict[str, list[SimulationOutcome]], keys: Keys) -> str | None:
    """Does the figure bear the README's word out?"""
    here = curves[name][-1]
    if name == "DYNAMIC_KEY":
        return "a" if here.series["recent_std_dev"][-1] > 2 * here.std_dev + 1 else "as there"
    if name == "PARTIAL_KEY" and here.std_dev > 1:
        return "c" if _has_cooled(keys) else "b"
    return None if README[name] is None else "as there"


def _has_cooled(keys: Keys) -> bool:
    """Whether the hottest key of the whole stream is rare in its last minute."""
    first = np.bincount(keys.codes).argmax()
    recent = keys.codes[-round(60 / SECONDS * len(keys)) :]
    return bool((recent == first).mean() < (keys.codes == first).mean() / 2)


def _draw(figure: Figure, what: str, labels: list[str], curves: dict[str, list[SimulationOutcome]]) -> None:
    panels = {
        "STD_DEV since the start, %": lambda o: o.std_dev,
        "STD_DEV of the last minute, %": lambda o: o.series["recent_std_dev"][-1],
        "DIST_COST": lambda o: o.replication,
    }
    figure.set_size_inches(12, 4)
    for axes, (title, value) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        for name, outcomes in curves.items():
            axes.plot(labels, [value(o) for o in outcomes], marker="o", color=get_colour(name), label=name)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(what)
    add_legend(figure, ncols=5)


EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {
    "skew": over_skew,
    "workers": over_workers,
    "half-skew": half_skew,
}
