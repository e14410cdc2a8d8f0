"""Local load estimation (Q2): nearly as good as an oracle that knows all loads.

Figure 4 compares the balance, figure 6 the decisions, which differ; and probing the workers doesn't help.
"""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from evidence.papers.page import Cell, Report, Sizing, add_legend, headings
from evidence.papers.pkg.datasets import CT, LN1, LN2, TW, WP, route, share_of_first
from unskew.grouping import encode_keys, streams
from unskew.grouping.keys import Keys
from unskew.grouping.registry import get_colour
from unskew.grouping.simulator import FeedbackTiming, SimulationOutcome

WORKERS = (5, 10, 50, 100)
SOURCES = (5, 10, 15, 20)


def figure_4(settings: Sizing) -> Report:
    """Average imbalance over m: hashing, the global oracle, and 5 to 20 sources that know their own messages."""
    rows: list[tuple[Cell, ...]] = []
    curves: dict[str, dict[str, list[float]]] = {}
    notes = []
    for data in (LN1, LN2, WP, TW, CT):
        keys = data.draw(settings)
        m, p1 = len(keys), share_of_first(keys)
        notes.append(f"{data.symbol}: {m:,} messages, {len(keys.hashes):,} keys, p1 = {100 * p1:.2f} %.")
        for workers in WORKERS:
            hashing = route("KEY", keys, workers, seed=settings.seed).average_imbalance
            oracle = route("PARTIAL_KEY", keys, workers, seed=settings.seed, estimation="global").average_imbalance
            local = [
                route("PARTIAL_KEY", keys, workers, sources=s, seed=settings.seed).average_imbalance for s in SOURCES
            ]
            for name, value in zip(("H", "G", *(f"L{s}" for s in SOURCES)), (hashing, oracle, *local), strict=True):
                curves.setdefault(data.symbol, {}).setdefault(name, []).append(value)
            order = max(local) / oracle
            below = max(local) < hashing
            ours = f"{'L < H' if below else 'L ≥ H'}; L = {order:.2g} G"
            why = "agree" if below and order < 10 else "a"
            rows.append((data.symbol, workers, hashing, oracle, *local, "L < H; L < 10 G", ours, why))
    columns = ("data", "W", "H", "G", *(f"L{s}" for s in SOURCES), "paper", "ours", "why they differ")
    notes += [
        "Mean of I(t) over all t, over m. The paper gives a picture; its text: local is always below hashing, and less",
        "than one order of magnitude above the oracle, whatever the number of sources.",
        "a: the oracle is off by a message or two, and each of up to 20 sources by as much: tens of messages in all.",
        "LN1 and LN2 are lognormal numbers rounded to integers, which gives the paper's p1 exactly (14.71 %, 7.01 %).",
    ]
    return Report(
        "PKG, Figure 4: local estimation beside a global oracle",
        columns,
        rows,
        notes,
        lambda f: _draw_figure_4(f, curves),
    )


def _draw_figure_4(figure: Figure, curves: dict[str, dict[str, list[float]]]) -> None:
    figure.set_size_inches(12, 4)
    for axes, (symbol, lines) in zip(figure.subplots(1, len(curves), sharey=True), curves.items(), strict=True):
        for name, values in lines.items():
            style = {"H": ".-", "G": ".--"}.get(name, ".:")
            axes.plot(WORKERS, values, style, label=name, color=get_colour("KEY" if name == "H" else "PARTIAL_KEY"))
        axes.set(xscale="log", yscale="log")
        axes.set_xticks(WORKERS, [str(w) for w in WORKERS])
        axes.set_title(symbol, fontsize=10)
        axes.set_xlabel("workers")
    figure.axes[0].set_ylabel("average imbalance / messages")
    add_legend(figure, "right upper")


MESSAGES = 10_000_000
K, _FIGURE_6_WORKERS = 10_000, 5
EXPONENTS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.1)
_FIGURE_6_SOURCES = (5, 10, 50, 100)


def figure_6(settings: Sizing) -> Report:
    """Share of messages that the sources send elsewhere than the oracle, over z and S; and the overlap on WP."""
    m = settings.of(MESSAGES, least=200_000)
    rows: list[tuple[Cell, ...]] = []
    curves: dict[int, list[float]] = {s: [] for s in _FIGURE_6_SOURCES}
    for z in EXPONENTS:
        keys = encode_keys(streams.zipf(z, K).take(0, m, seed=settings.seed))
        oracle, local = _both(keys, _FIGURE_6_WORKERS, settings.seed)
        shares = {s: 100 * float(np.mean(spread.assigned != oracle.assigned)) for s, spread in local.items()}
        for s, share in shares.items():
            curves[s].append(share)
        worst = max(spread.average_imbalance for spread in local.values())
        rows.append((f"ZF, z = {z}", *shares.values(), oracle.average_imbalance, worst, "falls with z", None))
    high, low = max(row[-1] for row in curves.values()), min(row[0] for row in curves.values())
    rows = [(*row[:-1], "agree" if high < low else "they don't fall") for row in rows]
    keys = WP.draw(settings)
    oracle, local = _both(keys, _FIGURE_6_WORKERS, settings.seed)
    agree = {s: float(np.mean(spread.assigned == oracle.assigned)) for s, spread in local.items()}
    overlaps = [100 * share / (2 - share) for share in agree.values()]
    worst = max(spread.average_imbalance for spread in local.values())
    rows.append(("WP-like, Jaccard overlap", *overlaps, oracle.average_imbalance, worst, "47", "a"))
    columns = headings(
        f"stream | {' | '.join(f'L{s}, %' for s in _FIGURE_6_SOURCES)} | imbalance G | imbalance L, worst | paper | "
        "why they differ"
    )
    notes = [
        f"K = 10 k, W = 5, {m:,} messages: share of them that goes elsewhere than by the oracle, and balances as well.",
        "a: the paper's 47 % on WP is without its W and S. Jaccard overlap: a/(2 − a) when the share a goes alike.",
    ]
    return Report(
        "PKG, Figure 6: disagreement with the oracle", columns, rows, notes, lambda f: _draw_figure_6(f, curves)
    )


def _both(keys: Keys, workers: int, seed: int) -> tuple[SimulationOutcome, dict[int, SimulationOutcome]]:
    oracle = route("PARTIAL_KEY", keys, workers, seed=seed, estimation="global")
    return oracle, {s: route("PARTIAL_KEY", keys, workers, sources=s, seed=seed) for s in _FIGURE_6_SOURCES}


def _draw_figure_6(figure: Figure, curves: dict[int, list[float]]) -> None:
    axes = figure.subplots()
    for (sources, values), shade in zip(curves.items(), ("#9ecae1", "#4292c6", "#0072b2", "#08306b"), strict=True):
        axes.plot(EXPONENTS, values, marker=".", color=shade, label=f"S = {sources}")
    axes.set_ylim(bottom=0)
    axes.set(xlabel="z", ylabel="messages sent elsewhere than by the oracle, %")
    add_legend(figure, "right upper")


_PROBING_SOURCES = 5
LABELS = ("G", "L5", "L5P1", "L5P0.1")
_PROBING_WORKERS = (5, 10, 50)
# Messages a minute: WP is a day, TW and CT a month each.
MINUTE = {"WP": 22_000_000 / 1440, "TW": 1_200_000_000 / 44_640, "CT": 690_000 / 43_200}


def probing(settings: Sizing) -> Report:
    """Average imbalance of five sources that never probe, probe every minute, and ten times a minute."""
    rows: list[tuple[Cell, ...]] = []
    over_time: dict[str, SimulationOutcome] = {}
    for data in (WP, TW, CT):
        keys = data.draw(settings)
        for workers in _PROBING_WORKERS:
            send = partial(route, "PARTIAL_KEY", keys, workers, seed=settings.seed, samples=200)
            outcomes = {"G": send(estimation="global"), "L5": send(sources=_PROBING_SOURCES)}
            for label, minutes in (("L5P1", 1.0), ("L5P0.1", 0.1)):
                every = round(minutes * MINUTE[data.symbol])
                if every <= _PROBING_SOURCES:  # less than a message a source
                    continue
                # A tuple a millisecond: so often the workers report what they have got.
                feedback = FeedbackTiming(interval=float(every))
                outcomes[label] = send(sources=_PROBING_SOURCES, feedback=feedback, probe_every=every)
            if data is WP and workers == _PROBING_WORKERS[1]:
                over_time = outcomes
            messages = {label: outcome.average_imbalance * len(keys) for label, outcome in outcomes.items()}
            ratio = messages["L5P1"] / messages["L5"]
            ours, why = f"L5P1 = {ratio:.2g} L5", "agree" if ratio > 0.95 else "a"
            rows.append((data.symbol, workers, *map(messages.get, LABELS), "L5P1 ≥ L5", ours, why))
    columns = ("data", "W", *LABELS, "paper", "ours", "why they differ")
    notes = [
        "Average imbalance in messages, five sources; probing every minute of the trace and ten times as often.",
        "A probe sets all sources' estimates to the same loads: until the next one all five fill the same valleys, and",
        "overshoot fivefold. The paper's picture shows L5P1 about as good as L5; by its rule it should be worse.",
        "a: a minute of CT is 16 messages. So soon after a probe it helps, and by one or two messages.",
    ]
    return Report("PKG: probing doesn't help", columns, rows, notes, lambda figure: _draw_probing(figure, over_time))


def _draw_probing(figure: Figure, outcomes: dict[str, SimulationOutcome]) -> None:
    axes = figure.subplots()
    for (label, outcome), style in zip(outcomes.items(), ("--", "-", ":", "-."), strict=True):
        series = outcome.series
        axes.plot(series["tuples"], series["imbalance"], style, label=label, color=get_colour("PARTIAL_KEY"))
    axes.set(yscale="log", xlabel=f"messages (WP-like, W = {WORKERS[1]})", ylabel="imbalance I(t), messages")
    add_legend(figure, "right upper")
