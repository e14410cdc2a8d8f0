"""Probing the workers' load doesn't help."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reproduction.page import Cell, Report, Sizing
from reproduction.pkg.datasets import CT, TW, WP
from unskew.apps.monitoring.colours import colour
from unskew.grouping import create
from unskew.grouping.interface import Grouping
from unskew.grouping.simulator import Feedback, Outcome, simulate, workload

SOURCES = 5
LABELS = ("G", "L5", "L5P1", "L5P0.1")
WORKERS = (5, 10, 50)
# Messages a minute: WP is a day, TW and CT a month each.
MINUTE = {"WP": 22_000_000 / 1440, "TW": 1_200_000_000 / 44_640, "CT": 690_000 / 43_200}


def probing(settings: Sizing) -> Report:
    """Average imbalance of five sources that never probe, probe every minute, and ten times a minute."""
    rows: list[tuple[Cell, ...]] = []
    over_time: dict[str, Outcome] = {}
    for data in (WP, TW, CT):
        keys = data.draw(settings)
        for workers in WORKERS:
            # A tuple a millisecond, served at once: the workers report what they have got.
            load = workload(keys, np.arange(len(keys), dtype=np.float64), 0.0)
            outcomes: dict[str, Outcome] = {
                "G": simulate(_making(workers, settings.seed, estimation="global"), load),
                "L5": simulate(_making(workers, settings.seed), load, sources=SOURCES),
            }
            for label, minutes in (("L5P1", 1.0), ("L5P0.1", 0.1)):
                every = round(minutes * MINUTE[data.symbol])
                if every <= SOURCES:  # less than a message a source
                    continue
                outcomes[label] = simulate(
                    _making(workers, settings.seed, probe_every=every),
                    load,
                    sources=SOURCES,
                    feedback=Feedback(interval=float(every)),
                )
            if data is WP and workers == WORKERS[1]:
                over_time = outcomes
            messages = {label: outcome.average_imbalance * len(keys) for label, outcome in outcomes.items()}
            rows.append(
                (data.symbol, workers, *map(messages.get, LABELS), "L5P1 ≥ L5", _ours(messages), _why(messages))
            )
    columns = ("data", "W", *LABELS, "paper", "ours", "why they differ")
    notes = [
        "Average imbalance in messages, five sources; probing every minute of the trace and ten times as often.",
        "A probe sets all sources' estimates to the same loads: until the next one all five fill the same valleys, and",
        "overshoot fivefold. The paper's picture shows L5P1 about as good as L5; by its rule it should be worse.",
        "a: a minute of CT is 16 messages. So soon after a probe it helps, and by one or two messages.",
    ]
    return Report("PKG: probing doesn't help", columns, rows, notes, lambda figure: _draw(figure, over_time))


def _making(workers: int, seed: int, **options: Any) -> Callable[[], Grouping]:
    return lambda: create("PARTIAL_KEY", workers, seed=seed, **options)


def _ours(messages: dict[str, float]) -> str:
    return f"L5P1 = {messages['L5P1'] / messages['L5']:.2g} L5"


def _why(messages: dict[str, float]) -> str:
    return "agree" if messages["L5P1"] > 0.95 * messages["L5"] else "a"


def _draw(figure: Figure, outcomes: dict[str, Outcome]) -> None:
    axes = figure.subplots()
    for (label, outcome), style in zip(outcomes.items(), ("--", "-", ":", "-."), strict=True):
        axes.plot(
            outcome.series["tuples"],
            outcome.series["imbalance"],
            label=label,
            linestyle=style,
            color=colour("PARTIAL_KEY"),
        )
    axes.set_yscale("log")
    axes.set_xlabel(f"messages (WP-like, W = {WORKERS[1]})")
    axes.set_ylabel("imbalance I(t), messages")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)
