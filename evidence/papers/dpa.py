"""The DPA paper again (*DPA Load Balancer: Load balancing for Data Parallel Actor-based systems*), Table 1, Figure 3.

Its five workloads have 100 letters each, with the skew that the paper gives before any balancing. Which letters make a
workload skewed depends on the hash function, and the paper's isn't known to the bit. So the letters are chosen for our
rings: they fall on the four reducers as the paper's S says, on the rings of both methods at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from string import ascii_letters

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from evidence.papers.page import Cell, Remarks, Report, Sizing, add_legend, headings
from unskew.grouping import create, encode_keys
from unskew.grouping.simulator import FeedbackTiming, make_workload, simulate

REDUCERS, ITEMS = 4, 100


@dataclass(frozen=True, slots=True)
class Shape:
    """Items of the four reducers on the halving method's and on the doubling method's ring; S follows from the most."""

    halving: tuple[int, int, int, int]
    doubling: tuple[int, int, int, int]


EVEN = (25, 25, 25, 25)
#: S = (most − 25) / 75, as in the paper's column "No LB". WL3 is one letter, so it needs no choice.
SHAPES: dict[str, Shape | None] = {
    "WL1": Shape(EVEN, (100, 0, 0, 0)),
    "WL2": Shape(EVEN, EVEN),
    "WL3": None,
    "WL4": Shape((85, 5, 5, 5), (62, 13, 13, 12)),
    "WL5": Shape((40, 20, 20, 20), (66, 12, 11, 11)),
}


@cache
def letters(name: str, seed: int) -> Sequence[str] | None:
    """The workload's 100 letters in random order; None: with this seed's rings no letters have that skew."""
    rng = np.random.default_rng((seed, list(SHAPES).index(name)))
    shape = SHAPES[name]
    if shape is None:
        return ["a"] * ITEMS
    alphabet = np.array(list(ascii_letters))
    halving, doubling = (_owners(method, alphabet, seed) for method in ("halving", "doubling"))
    there = np.zeros((REDUCERS, REDUCERS), np.bool_)
    there[halving, doubling] = True
    table = _fill(shape, there, rng)
    if table is None:
        return None
    chosen: list[str] = []
    for h, d in np.argwhere(table).tolist():
        choice = alphabet[(halving == h) & (doubling == d)]
        chosen += rng.choice(choice, table[h, d]).tolist()
    return rng.permutation(chosen).tolist()


def _owners(method: str, alphabet: NDArray[np.str_], seed: int) -> NDArray[np.int32]:
    return create("CONSISTENT_HASH", REDUCERS, seed=seed, method=method).route(encode_keys(alphabet.tolist()))


def _fill(shape: Shape, there: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Items for each (reducer of the halving ring, of the doubling ring) that has letters, with the shape's sums.

    Item by item at random, each so that the rest can still be placed; None if there is no way, whichever reducers
    have the most.
    """
    for _ in range(16):
        rows, columns = rng.permutation(shape.halving), rng.permutation(shape.doubling)
        if _placeable(rows, columns, there):
            break
    else:
        return None
    table = np.zeros_like(there, np.int64)
    while rows.sum():
        weight = np.where(there, np.outer(rows, columns), 0).astype(float).ravel()
        for at in rng.choice(weight.size, np.count_nonzero(weight), replace=False, p=weight / weight.sum()).tolist():
            h, d = divmod(at, REDUCERS)
            rows[h] -= 1
            columns[d] -= 1
            if _placeable(rows, columns, there):
                table[h, d] += 1
                break
            rows[h] += 1
            columns[d] += 1
    return table


def _placeable(rows: NDArray[np.int64], columns: NDArray[np.int64], there: NDArray[np.bool_]) -> bool:
    """Hall's condition: no set of rows has more items than the columns that it can use."""
    return all(
        rows[list(some)].sum() <= columns[there[list(some)].any(axis=0)].sum()
        for size in range(1, REDUCERS + 1)
        for some in combinations(range(REDUCERS), size)
    )


METHODS = ("halving", "doubling")
MAPPERS = 4
#: (workload, method) → S without and with balancing, one run each.
PAPER = {
    ("WL1", "halving"): (0.00, 0.08),
    ("WL1", "doubling"): (1.00, 0.20),
    ("WL2", "halving"): (0.00, 0.00),
    ("WL2", "doubling"): (0.00, 0.08),
    ("WL3", "halving"): (1.00, 1.00),
    ("WL3", "doubling"): (1.00, 0.75),
    ("WL4", "halving"): (0.80, 0.52),
    ("WL4", "doubling"): (0.49, 0.11),
    ("WL5", "halving"): (0.20, 0.20),
    ("WL5", "doubling"): (0.55, 0.12),
}
ROUNDS = range(6)
_MAP, _REDUCE = 1.0, 1.0  # ms an item, exponential
_REPORT, _SELDOM = 2.0, 8.0  # ms
_SETTING = Remarks.of(
    "DPA: setting",
    "S = (most − 25) / 75 of 100 items on 4 reducers, 4 mappers. The paper has one run of each; here is the spread",
    "over seeds: other rings, letters with the same skew on them, another order, other times.",
    f"Assumed: {_MAP:g} ms an item to map, {_REDUCE:g} ms to reduce (exponential), reports every {_REPORT:g} ms,",
    "τ = 0.2, 8 tokens a reducer for halving. The paper's τ is missing from its text; it ran on Ray, whose calls take",
    "about 1 ms.",
)


@cache
def skews(
    name: str, method: str, rounds: int, count: int, first: int, interval: float = _REPORT
) -> NDArray[np.float64]:
    """S over ``count`` seeds from ``first`` on; seeds whose rings have no such letters are passed over."""
    found: list[float] = []
    seed = first
    while len(found) < count:
        chosen = letters(name, seed)
        if chosen is not None:
            found.append(_run(chosen, method, rounds, seed, interval))
        seed += 1
    return np.array(found)


def _run(chosen: Sequence[str], method: str, rounds: int, seed: int, interval: float) -> float:
    rng = np.random.default_rng((seed, 99))
    n = len(chosen)
    # Each mapper takes its next item when it has mapped the one before.
    mapped = np.sort(np.cumsum(rng.exponential(_MAP, (n // MAPPERS, MAPPERS)), axis=0).ravel())
    load = make_workload(chosen, mapped, rng.exponential(_REDUCE, n))
    made = partial(create, "CONSISTENT_HASH", REDUCERS, seed=seed, method=method, rounds=rounds)
    return simulate(made, load, sources=MAPPERS, feedback=FeedbackTiming(interval), samples=1).skew


def table_1(settings: Sizing) -> Report:
    """Skew without and with at most one round a reducer."""
    count = settings.of(200, least=20)
    rows: list[tuple[Cell, ...]] = []
    for name in SHAPES:
        for method in METHODS:
            without = skews(name, method, 0, count, settings.seed)
            with_lb = skews(name, method, 1, count, settings.seed)
            before, after = PAPER[name, method]
            seldom = skews(name, method, 1, count, settings.seed, _SELDOM)
            low, high = float(with_lb.min()), float(with_lb.max())
            unbalanced = before, float(without.mean())
            balanced = after, float(with_lb.mean()), f"{low:.2f} to {high:.2f}", float(seldom.mean())
            change = before - after, float((without - with_lb).mean())
            why = "within our spread" if low - 0.005 <= after <= high + 0.005 else "a"
            rows.append((name, method, *unbalanced, *balanced, *change, why))
    columns = headings(
        "workload | method | paper: no LB | ours | paper: with LB | ours, mean | ours, least to greatest | "
        f"ours, reports every {_SELDOM:g} ms | paper: ΔS | ours, mean | why they differ"
    )
    notes = [
        f"{count} seeds.",
        "a: outside our spread. When the first queues build up, Qs is often 0 and any Qmax triggers: a reducer's one",
        "round is spent before there is much to see.",
    ]
    return Report("DPA, Table 1: skew S with one round of redistribution", columns, rows, notes, common=_SETTING)


def figure_3(settings: Sizing) -> Report:
    """Skew over the rounds that each reducer may trigger."""
    count = settings.of(200, least=20)
    rows: list[tuple[Cell, ...]] = []
    curves: dict[tuple[str, str], list[NDArray[np.float64]]] = {}
    for name in SHAPES:
        for method in METHODS:
            values = [skews(name, method, rounds, count, settings.seed) for rounds in ROUNDS]
            curves[name, method] = values
            means = [float(v.mean()) for v in values]
            rows.append((name, method, *means, _paper(method), _ours(means), _why(method, means)))
    columns = headings(
        f"workload | method | {' | '.join(f'rounds: {rounds}' for rounds in ROUNDS)} | paper, after the first | ours | "
        "why they differ"
    )
    notes = [
        f"Mean S over {count} seeds.",
        "The paper has a picture; its text: further rounds help at least one method in each workload, never hurt",
        "halving, and can hurt doubling.",
        "a: a reducer relieved without need passes its load on; one run needn't show it, the mean over seeds does.",
    ]
    title = "DPA, Figure 3: rounds of redistribution"
    return Report(title, columns, rows, notes, lambda figure: _draw(figure, curves), _SETTING)


def _paper(method: str) -> str:
    return "never hurt" if method == "halving" else "help or hurt"


def _ours(means: list[float]) -> str:
    change = min(means[2:]) - means[1], max(means[2:]) - means[1]
    if change[1] > 0.01:
        return "can hurt" if change[0] > -0.01 else "help or hurt"
    return "help" if change[0] < -0.01 else "no change"


def _why(method: str, means: list[float]) -> str:
    if method == "halving" and max(means[2:]) > means[1] + 0.01:
        return "a"
    return "agree"


def _draw(figure: Figure, curves: dict[tuple[str, str], list[NDArray[np.float64]]]) -> None:
    figure.set_size_inches(12, 4)
    styles = {"halving": ("o-", "#b59f00", "kx"), "doubling": ("s--", "#5c5200", "k+")}
    for axes, name in zip(figure.subplots(1, len(SHAPES), sharey=True), SHAPES, strict=True):
        for method, (style, colour, mark) in styles.items():
            values = np.array(curves[name, method])  # [rounds, seeds]
            axes.plot(ROUNDS, values.mean(axis=1), style, label=method, color=colour)
            axes.fill_between(ROUNDS, *np.percentile(values, (10, 90), axis=1), alpha=0.15, color="#b59f00")
            axes.plot([0, 1], PAPER[name, method], mark, label=f"paper, {method}")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("rounds")
    figure.axes[0].set_ylabel("skew S")
    add_legend(figure, ncols=4)


EXPERIMENTS: dict[str, Callable[[Sizing], Report]] = {"table-1": table_1, "figure-3": figure_3}
