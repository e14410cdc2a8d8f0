"""Table II: PKG beside the methods that don't split keys; and the switch from balanced to unbalanced, near W = 2/p1."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from evidence.papers.page import Cell, Report, Sizing, add_legend, headings
from evidence.papers.pkg.datasets import LN1, LN2, TW, WP, Dataset, route, share_of_first
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.keys import Keys
from unskew.grouping.measures import imbalance_fraction
from unskew.grouping.registry import get_colour

WORKERS = (5, 10, 50, 100)
DRAWS = 40  # of hash functions
METHODS = {
    "PKG": "PARTIAL_KEY",
    "Off-Greedy": "OFF_GREEDY",
    "On-Greedy": "ON_GREEDY",
    "PoTC": "POTC",
    "Hashing (KG)": "KEY",
}
PAPER = {
    "WP": {
        "PKG": (3.7e-8, 1.3e-7, 2.7e-2, 3.7e-2),
        "Off-Greedy": (3.7e-8, 4.1e-8, 7.4e-2, 8.3e-2),
        "On-Greedy": (3.6e-7, 6.4e-3, 7.4e-2, 8.3e-2),
        "PoTC": (7.3e-7, 7.8e-3, 7.4e-2, 8.3e-2),
        "Hashing (KG)": (6.4e-2, 7.8e-2, 9.2e-2, 9.2e-2),
    },
    "TW": {
        "PKG": (3.4e-10, 1.4e-9, 2.3e-9, 3.4e-3),
        "Off-Greedy": (3.4e-10, 6e-10, 6.7e-3, 1.7e-2),
        "On-Greedy": (7.2e-9, 7.9e-8, 1.0e-2, 1.7e-2),
        "PoTC": (1.9e-5, 4.3e-6, 1.2e-2, 1.7e-2),
        "Hashing (KG)": (3.5e-2, 3.2e-2, 2.0e-2, 2.8e-2),
    },
}


def table_2(settings: Sizing) -> Report:
    """Final imbalance over m for both datasets, five methods and four numbers of workers."""
    rows: list[tuple[Cell, ...]] = []
    ours: dict[tuple[str, str], list[float]] = {}
    notes = []
    for data in (WP, TW):
        keys = data.draw(settings)
        p1, m = share_of_first(keys), len(keys)
        notes.append(f"{data.symbol}-like: {m:,} messages, {len(keys.hashes):,} keys, p1 = {100 * p1:.2f} %.")
        for method, name in METHODS.items():
            for at, workers in enumerate(WORKERS):
                paper = PAPER[data.symbol][method][at]
                share = route(name, keys, workers, seed=settings.seed, **_options(method, keys)).final_imbalance
                ours.setdefault((data.symbol, method), []).append(share)
                why = _why(data, method, workers, paper, share, keys)
                rows.append((data.symbol, workers, method, paper, share, share * m, why))
    notes += [
        f"a: one draw of hash functions, which puts other keys beside the first; {DRAWS} of ours span the paper's.",
        "b: not the first key but the second, third, … decide, whose shares in the traces aren't published.",
        f"c: the stream's law, of which only p1 is published. It isn't the draw, because none of {DRAWS} gets there.",
        "The figures are I(m)/m: the paper's smallest, times its m, are 0.8 (WP) and 0.4 (TW) messages, ⌈m/5⌉ − m/5.",
        "WP and TW aren't available. Instead there are Zipf laws with their p1, messages and keys scaled down.",
    ]
    columns = ("data", "W", "method", "paper", "ours", "ours, messages", "why they differ")
    return Report(
        "PKG, Table II: imbalance of PKG and of methods without key splitting", columns, rows, notes, _plot(ours)
    )


def _options(method: str, keys: Keys) -> dict[str, Any]:
    if method == "PKG":
        return {"estimation": "global"}
    return {"max_keys": len(keys.hashes)} if method in ("Off-Greedy", "On-Greedy", "PoTC") else {}


def _why(data: Dataset, method: str, workers: int, paper: float, ours: float, keys: Keys) -> str:
    """What explains a pair of figures: the limits that theory gives for a method, or what it leaves open."""
    p1, m = share_of_first(keys), len(keys)
    name, limit = {
        "PKG": ("p1/2 − 1/W", p1 / 2 - 1 / workers),
        "Hashing (KG)": ("p1·(1 − 1/W)", p1 * (1 - 1 / workers)),
    }.get(method, ("p1 − 1/W", p1 - 1 / workers))
    if ours * m < 10 and paper * data.messages < 10:
        return "agree: a few messages"
    if limit > 1e-3 and all(abs(figure - limit) <= 0.1 * limit for figure in (ours, paper)):
        return f"agree: {name}"
    if method != "Hashing (KG)":
        return "b"
    drawn = hashed(keys, workers, DRAWS)
    return "a" if drawn.min() <= paper <= drawn.max() else "c"


def hashed(keys: Keys, workers: int, draws: int) -> NDArray[np.float64]:
    """The imbalance fraction of hashing for each of so many hash functions, float64[draws]."""
    counts = np.bincount(keys.codes, minlength=len(keys.hashes))
    loads = (
        np.bincount(choose_homes(keys.hashes, hash_function(seed), workers), counts, workers) for seed in range(draws)
    )
    return np.array([imbalance_fraction(load) for load in loads])


def _plot(ours: dict[tuple[str, str], list[float]]) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        for axes, symbol in zip(figure.subplots(1, 2, sharey=True), PAPER, strict=True):
            for method, name in METHODS.items():
                line = {"color": get_colour(name), "marker": "o"}
                axes.plot(WORKERS, np.maximum(ours[symbol, method], 1e-10), label=f"{method}, ours", **line)
                axes.plot(WORKERS, PAPER[symbol][method], label=f"{method}, paper", linestyle=":", **line)
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(WORKERS, [str(w) for w in WORKERS])
            axes.set_title(f"{symbol}-like", fontsize=10)
            axes.set_xlabel("workers")
        figure.axes[0].set_ylabel("imbalance / messages")
        add_legend(figure, ncols=5, fontsize=7)

    return draw


def threshold(settings: Sizing) -> Report:
    """KEY's and PARTIAL_KEY's final imbalance around each dataset's W = 2/p1, beside the limits of theory."""
    rows: list[tuple[Cell, ...]] = []
    curves: dict[str, tuple[float, list[int], list[float], list[float]]] = {}
    for data in (WP, TW, LN1, LN2):
        keys = data.draw(settings)
        p1, m = share_of_first(keys), len(keys)
        limit = 2 / p1
        tried = sorted({max(2, round(limit * factor)) for factor in (0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3)})
        partial = [route("PARTIAL_KEY", keys, w, sources=5, seed=settings.seed).final_imbalance for w in tried]
        key = [route("KEY", keys, w, seed=settings.seed).final_imbalance for w in tried]
        curves[data.symbol] = (limit, tried, partial, key)
        for w, of_partial, of_key in zip(tried, partial, key, strict=True):
            floor = max(0.0, p1 / 2 - 1 / w)
            paper = "unbalanced" if w > limit else "balanced"
            ours = floor, of_partial, max(0.0, p1 - 1 / w), of_key
            rows.append((data.symbol, w, w * p1 / 2, paper, *ours, _why_threshold(of_partial, floor, m, w, limit)))
    columns = headings("data | W | W·p1/2 | paper | p1/2 − 1/W | PARTIAL_KEY | p1 − 1/W | KEY | why they differ")
    notes = [
        "Paper: balanced or largely imbalanced; of the W tried the switch is around 50 for WP and 100 for TW, where W",
        "surpasses O(1/p1). With two choices the hottest key alone fills its workers at W = 2/p1: its floor is",
        "p1/2 − 1/W.",
        "a: the next hot keys share workers with the first. Theorem 5.1 promises balance up to W = 1/(5·p1) only.",
    ]
    return Report("PKG: the switch near W = 2/p1", columns, rows, notes, lambda figure: _draw_threshold(figure, curves))


def _why_threshold(ours: float, floor: float, m: int, workers: int, limit: float) -> str:
    if ours * m < 10:
        return "agree"
    if floor and ours < 1.1 * floor + 2e-3:
        return "agree: the floor"
    if workers <= limit:
        return "agree" if ours * m < 100 else "a"
    return "a"


def _draw_threshold(figure: Figure, curves: dict[str, tuple[float, list[int], list[float], list[float]]]) -> None:
    for axes, (symbol, (limit, tried, partial, key)) in zip(figure.subplots(2, 2).flat, curves.items(), strict=True):
        axes.plot(tried, np.maximum(partial, 1e-8), marker=".", color=get_colour("PARTIAL_KEY"), label="PARTIAL_KEY")
        axes.plot(tried, key, marker=".", color=get_colour("KEY"), label="KEY")
        axes.axvline(limit, color="#8c8c8c", linestyle=":", label="W = 2/p1")
        axes.set_yscale("log")
        axes.set_title(symbol, fontsize=10)
    figure.supylabel("imbalance / messages")
    add_legend(figure, ncols=3)
