"""Figures 11 and 12, the prototype: POSG and round robin in a topology."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evidence.papers.page import Cell, Remarks, Report, Sizing
from evidence.papers.posg import work
from evidence.papers.posg.time_series import CHANGE, FACTORS, K, M
from evidence.papers.posg.work import Drifting
from evidence.papers.stage import Course, Stage, shipped
from unskew.grouping import streams
from unskew.grouping.registry import get_colour

SCHEMES = ("SHUFFLE", "POSG")
_BATCHES = 30  # of the time series; the paper's points are of 2,000 tuples
_TWEETS, _ENTITIES, _P1 = 500_000, 35_000, 0.065
_CLASSES = "1,5,25"  # ms: others, politicians, media
_COMMON = Remarks.of(
    "POSG, live: completion times",
    "A batch's tuples are all there as it begins: completion is from then to the end of the worker's share. What a",
    "batch costs besides, alike for both, is left out, and times are made shorter than the paper's: compare ratios.",
)


def figure_11(settings: Sizing, stage: Stage) -> Report:
    """The load changes in mid-stream; a point is a batch."""
    shipped(work)
    m, unit = settings.of(M, least=M), settings.scale / 5
    batch = max(1, m // _BATCHES)
    change = round(m * CHANGE / M)
    keys = streams.zipf(1.0, 4096).take(0, m, seed=settings.seed)
    operator = Drifting(unit, tuple(np.arange(1, 65.0)), change, tuple(FACTORS[0]), tuple(FACTORS[1]))
    how: dict[str, Any] = {"process_ms": 1e-6, "work": operator, "work_columns": ("offset",)}
    found = {name: stage.play(name, f"posg-11-{m}", keys, workers=K, batch=batch, **how) for name in SCHEMES}
    robin, posg = (found[name] for name in SCHEMES)
    start, turn = _running(posg), change // batch
    renewed = _sketches_after(posg, turn)
    rows: list[tuple[Cell, ...]] = [
        ("first tuple scheduled in RUN", "20,978", None, f"{start * batch:,}", "b"),
        ("first one after a sketch since the change", "82,311", None, f"{renewed * batch:,}", "a"),
    ]
    parts = {
        "before RUN": (1, start, "the same", None),
        "from RUN to the change": (start, turn, "lower", "c"),
        "from the change to the sketch": (turn, renewed, "degrades", None),
        "to the end": (renewed, len(posg.tuples), "recovers", "c"),
    }
    for name, (first, stop, paper, why) in parts.items():
        if stop > first:
            means = [course.within(first, stop).completion for course in (robin, posg)]
            rows.append((f"mean completion {name}, ms", paper, *means, why))
    deviations = [float(np.std(course.within(start).completions)) for course in (robin, posg)]
    rows.append(("its deviation between batches since RUN, ms", "lower", *deviations, "c"))
    notes = [
        f"m = {m:,}, batches of {batch:,}; costs 1 to 64 times {unit:g} ms. Sketches count from the next batch on.",
        "a: an instance sends a sketch every two to four windows: where the change falls between two is chance.",
        "b: sketches count from the next batch on, so each step before RUN waits for the end of a batch.",
        "c: each batch begins with empty queues, so round robin's mistakes don't add up, and there is nothing to gain.",
    ]
    columns = ("", "paper", "round robin", "POSG", "why they differ")
    title = "POSG, Figure 11: the prototype, change of load at half of the stream"
    return Report(title, columns, rows, notes, lambda figure: _draw(figure, found, batch, change), _COMMON)


def figure_12(settings: Sizing, stage: Stage) -> Report:
    """Mean completion over the number of instances."""
    m, unit = settings.of(_TWEETS, least=_TWEETS), settings.scale / 10
    numbers = (1, 2, 5, 10) if settings.scale < 1 else tuple(range(1, 11))
    keys = streams.matched(_P1, _ENTITIES).take(0, m, seed=settings.seed)
    means: dict[str, list[float]] = {name: [] for name in SCHEMES}
    rows: list[tuple[Cell, ...]] = []
    paper = {1: "1", 10: "1.16"}
    for k in numbers:
        how: dict[str, Any] = {"batch": max(1, m // 20), "run": str(k), "process_ms": unit, "key_costs": _CLASSES}
        found = {name: stage.play(name, f"posg-12-{m}", keys, workers=k, **how) for name in SCHEMES}
        start = _running(found["POSG"])
        for name, course in found.items():
            means[name].append(course.within(start).completion)
        robin, posg = (means[name][-1] for name in SCHEMES)
        rows.append((k, robin, posg, paper.get(k), robin / posg, "a" if k > 1 else None))
    ups = [r / p for k, r, p in zip(numbers, *means.values(), strict=True) if k > 1]
    rows.append(("mean, k > 1", None, None, "1.37", float(np.mean(ups)) if ups else None, "a"))
    notes = [
        f"m = {m:,}; {_ENTITIES:,} entities, p1 = {_P1}, in three classes of as many entities each (the paper doesn't",
        f"say how many are of which), which cost 25, 5 and 1 times {unit:g} ms. From POSG's first batch in RUN on: of",
        "the paper's 500,000 tuples the start is hardly a part.",
        "a: the stream is drawn, whose most frequent entity is of any class. And in the prototype tuples wait for",
        "those before them: with just enough instances queues hardly empty, and what round robin does wrong adds up.",
        "Here each batch begins with empty queues.",
    ]
    title = "POSG, Figure 12: the prototype, tweets over instances"
    columns = ("k", "round robin, ms", "POSG, ms", "paper: S_L", "ours: S_L", "why they differ")
    return Report(title, columns, rows, notes, lambda figure: _draw_means(figure, numbers, means), _COMMON)


def _running(posg: Course) -> int:
    """The first batch that begins in RUN; the second one if none does."""
    return next((at + 1 for at, internals in enumerate(posg.internals[:-1]) if internals["state"] == "RUN"), 1)


def _sketches_after(posg: Course, turn: int) -> int:
    """The first batch that begins with sketches that were sent after the change."""
    epochs = [internals["epoch"] for internals in posg.internals]
    return next((at + 1 for at in range(turn, len(epochs)) if epochs[at] > epochs[turn - 1]), len(epochs))


def _draw(figure: Figure, found: dict[str, Course], batch: int, change: int) -> None:
    axes = figure.subplots()
    for name, course in found.items():
        at = batch * np.arange(1, len(course.tuples) + 1)
        axes.plot(at, course.completions, color=get_colour(name), label="round robin" if name == "SHUFFLE" else name)
    axes.axvline(change, color="#595959", linestyle=":")
    axes.set(xlabel="tuples", ylabel="mean completion time of a batch, ms")
    axes.legend(frameon=False)


def _draw_means(figure: Figure, numbers: tuple[int, ...], means: dict[str, list[float]]) -> None:
    axes = figure.subplots()
    for name, values in means.items():
        axes.plot(numbers, values, "o-", color=get_colour(name), label="round robin" if name == "SHUFFLE" else name)
    axes.set(xlabel="instances k", ylabel="mean completion time, ms")
    axes.legend(frameon=False)
