"""Which scheme: one table sorted by cost, with what no scheme can do better as its first row."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from rich.table import Table

from unskew.apps.monitoring.colours import colour
from unskew.grouping.keys import Keys
from unskew.grouping.measures import fewest_places, straggling
from unskew.grouping.simulator import Outcome

CAP = 1.1  # max/mean that the bound allows
_WINDOWS = 10  # of the second half, for what lasts
CAPTION = (
    f"bound: no assignment whose busiest worker has at most {CAP:g} times the mean has less state. Loads are of the "
    f"second half, max/mean of a tenth of it. cost: max/mean × state over the bound's, hardware times memory."
)


class Answer(NamedTuple):
    """What a scheme does with a stream."""

    lasting: float  # greatest load over mean load of a window, the mean over the second half's windows
    least: float  # what the least loaded worker gets of the second half, %
    most: float  # the most loaded one
    places: int  # (key, worker) pairs: how often state is held for a key
    fullest: int  # how many keys one worker holds at most
    cost: float  # lasting × places / those of the bound


def answer(outcome: Outcome, keys: Keys) -> Answer:
    """Sum a simulated run up."""
    workers, n = outcome.workers, outcome.tuples
    late = outcome.assigned[n // 2 :]
    windows = [part for part in np.array_split(late, _WINDOWS) if len(part)]
    lasting = np.mean([straggling(np.bincount(part, minlength=workers)) for part in windows])
    loads = np.bincount(late, minlength=workers) / len(late)
    held = np.unique(keys.codes.astype(np.int64) * workers + outcome.assigned) % workers
    least = fewest_places(np.bincount(keys.codes), workers, CAP)
    fullest = int(np.bincount(held).max())
    cost = float(lasting) * len(held) / least
    return Answer(float(lasting), float(100 * loads.min()), float(100 * loads.max()), len(held), fullest, cost)


def table(outcomes: Mapping[str, Outcome], keys: Keys) -> Table:
    """The bound, and a row a label, the cheapest first."""
    first = next(iter(outcomes.values()))
    least = fewest_places(np.bincount(keys.codes), first.workers, CAP)
    shown = Table(
        title=f"{first.tuples:,} tuples of {first.distinct_keys:,} keys, S = {first.sources}, W = {first.workers}",
        caption=CAPTION,
    )
    shown.add_column("grouping", no_wrap=True)
    for column in ("cost", "max/\nmean", "a worker\ngets, %", "workers\na key", "keys\nheld", "… by one\nworker"):
        shown.add_column(column, justify="right", no_wrap=True)
    mean = 100 / first.workers
    shown.add_row(
        "bound", f"{CAP:.2f}", f"{CAP:.2f}", f"≤ {CAP * mean:.3g}", f"{least / first.distinct_keys:.2f}",
        f"{least:,}", "", end_section=True,
    )  # fmt: skip
    answers = {label: answer(outcome, keys) for label, outcome in outcomes.items()}
    for label in sorted(answers, key=lambda label: answers[label].cost):
        found = answers[label]
        shown.add_row(
            f"[{colour(outcomes[label].grouping)}]■[/] " + label.replace(":", "\n  "),
            f"{found.cost:.2f}",
            f"{found.lasting:.2f}",
            f"{found.least:.3g} to {found.most:.3g}",
            f"{found.places / first.distinct_keys:.2f}",
            f"{found.places:,}",
            f"{found.fullest:,}",
        )
    return shown
