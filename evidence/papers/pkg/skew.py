"""How much skew PKG stands (figure 7), and how more choices restore the balance beyond (figure 9)."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from evidence.papers.page import Cell, Report, Sizing, add_legend, headings
from evidence.papers.pkg.datasets import route
from unskew.grouping import encode_keys, streams
from unskew.grouping.kernel_cache import kernel

MESSAGES = 10_000_000
KEYS = (1_000, 10_000, 100_000, 1_000_000)
WORKERS = (5, 10, 50, 100)
EXPONENTS = tuple(round(0.1 * step, 1) for step in range(1, 21))
_BALANCED = 1e-4


def figure_7(settings: Sizing) -> Report:
    """PKG's average imbalance over z, for each K and W, and the z at which it breaks."""
    m = settings.of(MESSAGES, least=200_000)
    curves: dict[tuple[int, int], list[float]] = {}
    first: dict[tuple[int, int], float | None] = {}
    for k in KEYS:
        for z in EXPONENTS:
            stream = streams.zipf(z, k)
            keys = encode_keys(stream.take(0, m, seed=settings.seed))
            for w in WORKERS:
                curves.setdefault((k, w), []).append(
                    route("PARTIAL_KEY", keys, w, sources=5, seed=settings.seed).average_imbalance
                )
                if stream.p1 > 2 / w:
                    first.setdefault((k, w), z)
    rows: list[tuple[Cell, ...]] = []
    for (k, w), values in curves.items():
        broken = next((z for z, value in zip(EXPONENTS, values, strict=True) if value > _BALANCED), None)
        predicted = first.get((k, w))
        some = values[4], values[9], values[11], values[19]
        rows.append((k, w, "≈ 1.2", broken, predicted, *some, _why_figure_7(broken, predicted)))
    columns = headings(
        "K | W | paper: breaks at z | ours | p1 > 2/W from z | at z = 0.5 | 1.0 | 1.2 | 2.0 | why they differ"
    )
    notes = [
        f"{m:,} messages (the paper: 10 M), five sources, average imbalance over m; broken: above {_BALANCED:g}.",
        "The paper names one z for its whole picture. By its own section 5 the break depends on p1·W, so on W and K.",
        "a: p1 passes 2/W at this z. b: earlier, because a few hot keys share workers.",
    ]
    return Report(
        "PKG, Figure 7: skew against balance", columns, rows, notes, lambda figure: _draw_figure_7(figure, curves)
    )


def _why_figure_7(broken: float | None, predicted: float | None) -> str:
    if broken is None:
        return "never up to z = 2"
    if 1.1 <= broken <= 1.3:
        return "agree"
    return "b" if predicted is None or broken < predicted - 0.05 else "a"


def _draw_figure_7(figure: Figure, curves: dict[tuple[int, int], list[float]]) -> None:
    styles: dict[int, str] = dict(zip(KEYS, (":", "-.", "--", "-"), strict=True))
    shades: dict[int, str] = dict(zip(WORKERS, ("#9ecae1", "#4292c6", "#0072b2", "#08306b"), strict=True))
    axes = figure.subplots()
    for (k, w), values in curves.items():
        axes.plot(EXPONENTS, values, linestyle=styles[k], color=shades[w], label=f"K = {k:,}, W = {w}")
    axes.set(yscale="log", xlabel="z", ylabel="average imbalance / messages")
    add_legend(figure, "right upper", fontsize=8)


Z, K = 1.2, 1_000_000
CHOICES = (2, 3, 4, 5, 7, 9, 12, 16, 20, 30)
PAPER = {5: "4", 40: "9", 50: "a few tens", 100: "a few tens"}
_FIGURE_9_WORKERS = (5, 10, 40, 50, 100)


def figure_9(settings: Sizing) -> Report:
    """PKG's average imbalance over d, and the least d that balances, over several draws of the hash functions."""
    m = settings.of(MESSAGES, least=200_000)
    stream = streams.zipf(Z, K)
    keys = encode_keys(stream.take(0, m, seed=settings.seed))
    rows: list[tuple[Cell, ...]] = []
    curves: dict[int, list[float]] = {}
    for w in _FIGURE_9_WORKERS:
        tried = [d for d in CHOICES if d <= w]
        seeds = range(settings.seed, settings.seed + (20 if w <= 10 else 5))
        values = np.array(
            [
                [route("PARTIAL_KEY", keys, w, sources=5, seed=s, choices=d).average_imbalance for s in seeds]
                for d in tried
            ]
        )
        loose = np.array(
            [[_may_coincide(keys.codes, _drawn(len(keys.hashes), d, w, s), w) for s in seeds] for d in tried]
        )
        curves[w] = np.median(values, axis=1).tolist()
        ours, theirs = _least(tried, values), _least(tried, loose)
        rows.append(
            (w, PAPER.get(w), _span(ours), _span(theirs), stream.p1 * w, _why_figure_9(PAPER.get(w), ours, theirs))
        )
    columns = ("W", "paper: least d", "ours", "ours if candidates may coincide", "p1 · W", "why they differ")
    notes = [
        f"Zipf z = 1.2, K = 1 M, p1 = {100 * stream.p1:.1f} %; {m:,} messages, five sources.",
        f"Least d, of {', '.join(map(str, CHOICES))},",
        f"whose average imbalance is at most {_BALANCED:g} of m, over draws of the hash functions (how many need it).",
        "a: independent hash functions, as in the paper, may give a key one worker twice, and then two choices fail",
        "more often; our candidates all differ. Whether the paper tried three, or more than one draw, it doesn't say.",
    ]
    return Report(
        "PKG, Figure 9: number of choices", columns, rows, notes, lambda figure: _draw_figure_9(figure, curves)
    )


def _least(tried: list[int], values: NDArray[np.float64]) -> list[int]:
    """The least d that balances, for each draw of hash functions (columns); beyond the last one tried: the next."""
    return sorted(
        next((d for d, v in zip(tried, row, strict=True) if v <= _BALANCED), tried[-1] + 1) for row in values.T
    )


def _span(values: list[int]) -> str:
    """Each d, and how many draws need it."""
    return ", ".join(f"{d} ({values.count(d)})" for d in dict.fromkeys(values))


def _why_figure_9(paper: str | None, ours: list[int], theirs: list[int]) -> str | None:
    if paper is None:
        return None
    if not paper.isdigit():
        return "agree" if ours[-1] >= 10 else "hash functions"
    if ours[0] <= int(paper) <= ours[-1]:
        return "agree"
    return "a" if sum(theirs) > sum(ours) else "hash functions"


def _drawn(keys: int, choices: int, workers: int, seed: int) -> NDArray[np.int32]:
    return np.random.default_rng((seed, choices)).integers(0, workers, (keys, choices), dtype=np.int32)


@kernel
def _may_coincide(codes: NDArray[np.int32], candidates: NDArray[np.int32], workers: int) -> float:
    """Average imbalance over m of Greedy-d with these candidates of each key, all loads known."""
    loads = np.zeros(workers, np.int64)
    most, total = 0, 0.0
    for i in range(len(codes)):
        best = candidates[codes[i], 0]
        for j in range(1, candidates.shape[1]):
            if loads[candidates[codes[i], j]] < loads[best]:
                best = candidates[codes[i], j]
        loads[best] += 1
        most = max(most, loads[best])
        total += most - (i + 1) / workers
    return float(total / len(codes) / len(codes))


def _draw_figure_9(figure: Figure, curves: dict[int, list[float]]) -> None:
    axes = figure.subplots()
    for (w, values), shade in zip(curves.items(), ("#9ecae1", "#6baed6", "#4292c6", "#0072b2", "#08306b"), strict=True):
        axes.plot(CHOICES[: len(values)], values, marker=".", color=shade, label=f"W = {w}")
    axes.set(yscale="log", xlabel="choices d", ylabel="average imbalance / messages")
    add_legend(figure, "right upper")
