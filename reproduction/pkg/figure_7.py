"""Figure 7: how much skew PKG stands."""

from matplotlib.figure import Figure

from reproduction.page import Cell, Report, Sizing
from reproduction.pkg.routing import route
from unskew.grouping import encode, streams

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
            keys = encode(stream.take(0, m, seed=settings.seed))
            for w in WORKERS:
                curves.setdefault((k, w), []).append(
                    route("PARTIAL_KEY", keys, w, sources=5, seed=settings.seed).average
                )
                if stream.p1 > 2 / w:
                    first.setdefault((k, w), z)
    rows: list[tuple[Cell, ...]] = []
    for (k, w), values in curves.items():
        broken = next((z for z, value in zip(EXPONENTS, values, strict=True) if value > _BALANCED), None)
        rows.append(
            (
                k, w, "≈ 1.2", broken, first.get((k, w)), values[4], values[9], values[11], values[19],
                _why(broken, first.get((k, w))),
            )
        )  # fmt: skip
    columns = (
        "K", "W", "paper: breaks at z", "ours", "p1 > 2/W from z", "at z = 0.5", "1.0", "1.2", "2.0", "why they differ",
    )  # fmt: skip
    notes = [
        f"{m:,} messages (the paper: 10 M), five sources, average imbalance over m; broken: above {_BALANCED:g}.",
        "The paper names one z for its whole picture. By its own section 5 the break depends on p1·W, so on W and K.",
        "a: p1 passes 2/W at this z. b: earlier, because a few hot keys share workers.",
    ]
    return Report("PKG, Figure 7: skew against balance", columns, rows, notes, lambda figure: _draw(figure, curves))


def _why(broken: float | None, predicted: float | None) -> str:
    if broken is None:
        return "never up to z = 2"
    if 1.1 <= broken <= 1.3:
        return "agree"
    return "b" if predicted is None or broken < predicted - 0.05 else "a"


def _draw(figure: Figure, curves: dict[tuple[int, int], list[float]]) -> None:
    styles: dict[int, str] = dict(zip(KEYS, (":", "-.", "--", "-"), strict=True))
    shades: dict[int, str] = dict(zip(WORKERS, ("#9ecae1", "#4292c6", "#0072b2", "#08306b"), strict=True))
    axes = figure.subplots()
    for (k, w), values in curves.items():
        axes.plot(EXPONENTS, values, linestyle=styles[k], color=shades[w], label=f"K = {k:,}, W = {w}")
    axes.set_yscale("log")
    axes.set_xlabel("z")
    axes.set_ylabel("average imbalance / messages")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8, frameon=False)
