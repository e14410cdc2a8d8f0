"""POSG's sketches: the ratio that one is expected to have (theorem 4.3), and when POSG can start to schedule.

It can start when the sketches are stable, by equation 1; ``start`` shows how much is left to gain from then on.
"""

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from evidence.papers.page import Cell, Report, Sizing, add_legend, headings
from evidence.papers.posg.sweeps import LONG, streams_of
from evidence.papers.posg.trial import Stream, drawn, finishes, turns
from unskew.grouping import encode_keys
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.posg import Posg
from unskew.grouping.posg.instances import execute_tuple, new_instances, relative_error
from unskew.grouping.posg.sketch import expected_estimate, find_cells
from unskew.grouping.registry import get_colour

ITEMS, COLUMNS = 4096, 55


def theorem_4_3(settings: Sizing) -> Report:
    """The numeric case by the formula, and by hashing all items with our hash functions many times."""
    costs = np.repeat(np.arange(1, 65.0), ITEMS // 64)
    formula = expected_estimate(costs, COLUMNS)
    draws = settings.of(10_000, least=500)
    keys = encode_keys(np.arange(ITEMS))
    total = np.zeros(ITEMS)
    for seed in range(settings.seed, settings.seed + draws):
        at = find_cells(keys, seed, 1, COLUMNS)[:, 0]
        sums, counts = np.bincount(at, costs, COLUMNS), np.bincount(at, minlength=COLUMNS)
        total += (sums / np.maximum(counts, 1))[at]
    of_value = total.reshape(64, -1).mean(axis=1) / draws
    rows = [
        ("least E(W_v/C_v)", "32.08", f"{formula.min():.3f}", f"{of_value.min():.3f}", "agree"),
        ("greatest E(W_v/C_v)", "32.92", f"{formula.max():.3f}", f"{of_value.max():.3f}", "agree"),
    ]
    columns = headings(
        f"k = 55, n = 4096, w = 1 … 64 | paper | ours, formula | ours, {draws:,} draws of h | why they differ"
    )
    return Report("POSG, Theorem 4.3: the numeric case", columns, rows)


WINDOWS = (2, 3, 4, 5, 6)
PAPER = {2: "RUN from 10,690 (simulation)", 4: "RUN from 20,978 (prototype)"}


def start(settings: Sizing) -> Report:
    """Equation 1's η after each window, and the speed-up of a scheduler that knows all costs and starts no earlier."""
    router, default = Posg(5), Stream()
    changes = np.concatenate([_changes(router, default, seed) for seed in streams_of(settings)])
    rows: list[tuple[Cell, ...]] = []
    ceilings: dict[int, list[float]] = {default.m: [], LONG: []}
    for at, windows in enumerate(WINDOWS):
        first = windows * router.window * router.workers
        for m, means in ceilings.items():
            means.append(float(np.mean([_ceiling(replace(default, m=m), s, first) for s in streams_of(settings)])))
        eta = 100 * changes[:, at]
        stable = 100 * float(np.mean(changes[:, : at + 1].min(axis=1) <= router.tolerance))
        spread = f"{eta.mean():.1f} [{eta.min():.1f}, {eta.max():.1f}]"
        most = [means[-1] for means in ceilings.values()]
        why = None if windows not in PAPER else "agree" if stable > 95 else "a"
        rows.append((windows, f"{first:,}", spread, stable, PAPER.get(windows), *most, why))
    columns = headings(
        "windows | tuples until then | η, %: mean [least, greatest] | sketches stable so far, % | paper | "
        f"most that S_L can be then, m = {default.m:,} | m = {LONG:,} | why they differ"
    )
    notes = [
        "A sketch is stable when η ≤ μ = 5 %, and all five must be before POSG can schedule; until then it is round",
        "robin. Most that S_L can be: from then on each tuple goes to the instance that is free first, its cost known",
        "beforehand: better than any estimate.",
        "a: no sketch is stable after two windows. A cell has had some 19 tuples a window, of costs from 1 to 64 ms:",
        "means of 19 and of 38 such tuples differ by more than 5 %, by equation 1 with the paper's own parameters. Its",
        "prototype starts when ours does. And with so late a start no scheduler gets 1.19 out of 32,768 tuples.",
    ]
    title = "POSG, equation 1: when it can start, and what can then be gained"
    return Report(title, columns, rows, notes, lambda figure: _draw(figure, [row[1] for row in rows], ceilings))


def _changes(router: Posg, stream: Stream, seed: int) -> NDArray[np.float64]:
    """η of each instance's sketch after each of the windows: float64[k, windows]."""
    items, costs, _ = drawn(replace(stream, m=max(WINDOWS) * router.window * stream.k), seed)
    keys = encode_keys(items)
    at = find_cells(keys, seed, router.rows, router.columns)
    shares = [slice(op, None, stream.k) for op in range(stream.k)]
    return np.array([_follow(keys.codes[of].copy(), at, costs[of].copy(), router.window) for of in shares])


@kernel
def _follow(
    codes: NDArray[np.int32], at: NDArray[np.int32], costs: NDArray[np.float64], window: int
) -> NDArray[np.float64]:
    """η of an instance that never finds its sketch stable: after the second window, the third, …."""
    instances = new_instances(1, at.shape[1], at.max() + 1)
    changes = np.empty(len(codes) // window - 1)
    for i in range(len(codes)):
        if i % window == window - 1 and i >= window:
            # The η that ``execute_tuple`` will look at with this tuple, except for the tuple itself.
            changes[i // window - 1] = relative_error(instances, 0)
        execute_tuple(instances, 0, at, codes[i], costs[i], window, -1.0)
    return changes


def _ceiling(stream: Stream, seed: int, first: int) -> float:
    items, costs, arrivals = drawn(stream, seed)
    robin = turns(len(items), stream.k)
    known = _known(robin, arrivals, costs, stream.k, first)
    return float((finishes(robin, arrivals, costs, stream.k) - arrivals).mean() / known)


@kernel
def _known(
    robin: NDArray[np.int32], arrivals: NDArray[np.float64], costs: NDArray[np.float64], k: int, first: int
) -> float:
    """Mean completion time, ms: by turns, and from tuple ``first`` on to the instance that is free first."""
    free = np.zeros(k)
    total = 0.0
    for i in range(len(robin)):
        op = robin[i] if i < first else np.argmin(free)
        free[op] = max(free[op], arrivals[i]) + costs[i]
        total += free[op] - arrivals[i]
    return total / len(robin)


def _draw(figure: Figure, labels: list[Cell], ceilings: dict[int, list[float]]) -> None:
    axes = figure.subplots()
    for (m, means), style in zip(ceilings.items(), ("o-", "s--"), strict=True):
        axes.plot(
            [str(label) for label in labels], means, style, color=get_colour("FULL_KNOWLEDGE"), label=f"m = {m:,}"
        )
    axes.axhline(1.19, color=get_colour("POSG"), linestyle=":", label="the paper's mean, 1.19")
    axes.set(xlabel="first tuple that is scheduled", ylabel="most that the speed-up can be")
    add_legend(figure, ncols=3)
