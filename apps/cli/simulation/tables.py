"""A simulation's outcomes as tables and as files."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Group
from rich.table import Table
from rich.text import Text

from unskew.apps.cli.simulation.simulation import WINDOWS
from unskew.apps.cli.simulation.time_model import (
    KEY,
    BatchTimeModel,
    Prediction,
    Range,
    SimulatedBatches,
    describe_recommendation,
    recommend_grouping,
)
from unskew.apps.metrics.partition_arrivals import find_hot
from unskew.grouping.keys import Keys
from unskew.grouping.measures import fewest_replicas, straggler_ratio
from unskew.grouping.registry import get_colour
from unskew.grouping.simulator import SimulationOutcome
from unskew.shell import explain_unwritable
from unskew.shown_keys import show_key

CAP = 1.1  # max/mean that the bound allows
_ALL = 0.95  # share of CPU that is as good as all
_LONGEST = 40  # characters of a key in a line
_ENOUGH = 1000  # tuples of a worker in a window; with fewer ones chance alone raises max/mean
CAPTION = (
    f"bound: the fewest states with which the busiest worker could have {CAP:g} times the mean. Loads are of the "
    f"stream's second half, max/mean is the mean of its tenths. score: max/mean × keys held ÷ the bound's keys held."
)
#: What the words of the measures mean that aren't plain.
LEGEND = (
    "imbalance: highest load − mean load. STD_DEV: of the workers' shares of the tuples (%). skew S: 0 is even, 1 is "
    "all at one worker. completion: from a tuple's arrival to its end. makespan: until all have ended."
)

#: Name of a measure → its text for an outcome.
MEASURES: dict[str, Callable[[SimulationOutcome], str]] = {
    "imbalance, end (% of tuples)": lambda o: f"{100 * o.final_imbalance:.3g}",
    "imbalance, mean over time": lambda o: f"{100 * o.average_imbalance:.3g}",
    "imbalance of work, end (%)": lambda o: f"{100 * o.work_imbalance:.3g}",
    "STD_DEV of loads (%)": lambda o: f"{o.std_dev:.3g}",
    "skew S": lambda o: f"{o.skew:.3g}",
    "replication: workers a key": lambda o: f"{o.replication:.3f}",
    "memory: partial results": lambda o: f"{o.memory:,}",
    "aggregation messages": lambda o: f"{o.aggregation_messages:,}",
    "plans adopted": lambda o: f"{o.plans:,}",
    "keys moved": lambda o: f"{o.moved_keys:,}",
    "migration cost": lambda o: f"{o.migration:,.0f}",
    "tuples passed on": lambda o: f"{o.forwarded:,}",
    "queue, mean": lambda o: f"{o.mean_queue:,.1f}",
    "queue, longest": lambda o: f"{o.longest_queue:,}",
    "completion, mean (ms)": lambda o: f"{o.mean_completion:,.1f}",
    "completion, p99 (ms)": lambda o: f"{o.p99_completion:,.1f}",
    "makespan (s)": lambda o: f"{o.makespan / 1000:,.1f}",
    "routing, measured (ns)": lambda o: f"{o.routing_ns:,.0f}",
}
_ONLY_WITH_PLANS = ("plans adopted", "keys moved", "migration cost", "tuples passed on")


class GroupingFigures(NamedTuple):
    """The effect of a grouping on a stream, in a few figures."""

    lasting: float  #: The greatest load of a window divided by its mean load: the mean over the second half's windows.
    least: float  #: The shares (%) of the second half's tuples of the least and of the most loaded worker.
    most: float
    replicas: int  #: The number of replicas of all keys, which is the number of states that they need.
    fullest: int  #: The number of keys of the worker that has the most of them.
    hottest: int  #: The number of workers of the hottest key.
    score: float  #: ``lasting`` times ``replicas``, divided by the replicas of the bound: the lower the better.
    worst: float  #: As ``lasting``, of the worst window.
    replication: float  #: The workers of a key.
    added: int  #: The replicas besides each key's first.
    excess: float  #: ``replicas``, divided by those of the bound.


def describe_partitions(messages: Mapping[int, int]) -> str:
    """A line about a topic's partitions and their messages, of which no grouping makes even ones."""
    loads = list(messages.values())
    text = f"Kafka: {len(loads)} partitions, the largest has {straggler_ratio(loads):.2f} times the mean"
    if found := [str(each) for each, is_hot in zip(messages, find_hot(loads), strict=True) if is_hot]:
        text += f"; hot: {', '.join(found)}"
    return text


def compute_bound(keys: Keys, workers: int, stretches: int) -> int:
    """The fewest replicas of an assignment; each key's greatest share in one of the stream's stretches counts."""
    parts = np.array_split(keys.codes, stretches)
    return fewest_replicas([np.bincount(part, minlength=len(keys.hashes)) for part in parts], workers, CAP)


def find_windows(n: int, batch_ends: NDArray[np.int64]) -> list[slice]:
    """The at most ``WINDOWS`` windows of a stream's second half: of whole batches, if batches are planned.

    Only a whole batch is as even as planned. A small last one, which the stream's end has cut, doesn't count.

    Parameters
    ----------
    n : int
        The number of tuples.
    batch_ends : int64[b]
        The number of tuples until the end of each batch.

    >>> find_windows(13, np.array([4, 8, 12, 13]))
    [slice(4, 8, None), slice(8, 12, None)]
    >>> len(find_windows(1000, np.array([], np.int64)))
    10
    """
    ends = np.concatenate([[0], batch_ends]) if len(batch_ends) else np.arange(n + 1)  # or each tuple for itself
    usual = ends[-2] / max(1, len(ends) - 2)
    if len(ends) > 2 and n - ends[-2] < usual / 2:
        ends = ends[:-1]
    edges = ends[np.searchsorted(ends[:-1], n // 2, "right") - 1 :]
    at = np.unique(np.linspace(0, len(edges) - 1, min(WINDOWS, len(edges) - 1) + 1).round().astype(np.int64))
    return [slice(int(start), int(stop)) for start, stop in pairwise(edges[at])]


def compute_figures(outcome: SimulationOutcome, keys: Keys, stretches: int = 1) -> GroupingFigures:
    """The figures of a simulated run."""
    workers = outcome.workers
    loads = [
        np.bincount(outcome.assigned[part], minlength=workers)
        for part in find_windows(outcome.tuples, outcome.batch_ends)
    ]
    uneven = [straggler_ratio(each) for each in loads]
    lasting = float(np.mean(uneven))
    shares = np.sum(loads, axis=0) / np.sum(loads)
    codes, replicas = np.divmod(np.unique(keys.codes.astype(np.int64) * workers + outcome.assigned), workers)
    excess = len(replicas) / compute_bound(keys, workers, stretches)
    return GroupingFigures(
        lasting=lasting,
        least=float(100 * shares.min()),
        most=float(100 * shares.max()),
        replicas=len(replicas),
        fullest=int(np.bincount(replicas).max()),
        hottest=int(np.count_nonzero(codes == np.bincount(keys.codes).argmax())),
        score=lasting * excess,
        worst=max(uneven),
        replication=len(replicas) / outcome.distinct_keys,
        added=len(replicas) - outcome.distinct_keys,
        excess=excess,
    )


def describe_simulation(
    outcomes: Mapping[str, SimulationOutcome], answers: Mapping[str, GroupingFigures], keys: Keys
) -> dict[str, Any]:
    """What a simulation says, as JSON has it: the stream with its hottest keys, and the groupings, the best first.

    Shares are of all tuples, from 0 to 1.
    """
    first = next(iter(outcomes.values()))
    return {
        "tuples": first.tuples,
        "keys": first.distinct_keys,
        "sources": first.sources,
        "workers": first.workers,
        "hottest": [{"key": key, "share": share} for key, share in find_hottest(keys)],
        "best_even": find_best_even(answers),
        "groupings": [{"grouping": label, **answer._asdict()} for label, answer in answers.items()],
    }


def rank_groupings(
    outcomes: Mapping[str, SimulationOutcome], keys: Keys, stretches: int = 1
) -> dict[str, GroupingFigures]:
    """Label → the figures of its run, the best score first."""
    answers = {label: compute_figures(outcome, keys, stretches) for label, outcome in outcomes.items()}
    return dict(sorted(answers.items(), key=lambda item: item[1].score))


def find_hottest(keys: Keys) -> list[tuple[str, float]]:
    """The five keys with most tuples, and their shares of all tuples."""
    tuples = np.bincount(keys.codes)
    first = np.argsort(-tuples, kind="stable")[:5].tolist()
    return list(zip(map(show_key, keys.texts(first)), (tuples[first] / len(keys.codes)).tolist(), strict=True))


def find_best_even(answers: Mapping[str, GroupingFigures]) -> str | None:
    """The best grouping whose busiest worker has at most ``CAP`` times the mean, if any: KEY, if it is so even."""
    even = [label for label in answers if answers[label].lasting <= CAP]
    return KEY if KEY in even else min(even, key=lambda label: answers[label].score, default=None)


def describe_verdict(answers: Mapping[str, GroupingFigures], keys: Keys, workers: int) -> str:
    """What one wants to know of a stream: its hottest keys beside a worker's share, and which grouping to take."""
    shares = ", ".join(f"{shorten_key(key)} {share:.1%}" for key, share in find_hottest(keys))
    best = find_best_even(answers)
    if best is None:
        found = f"None has max/mean of at most {CAP:g}."
    elif best == KEY:
        found = f"KEY has max/mean of at most {CAP:g}: no other grouping is needed."
    else:
        hottest = f"the hottest key at {answers[best].hottest} workers"
        found = (
            f"Best score with max/mean of at most {CAP:g}: {best}, with {hottest}. (Counts and sums alone need none: "
            "engines combine them before the shuffle.)"
        )
    return f"Hottest keys: {shares}. An even worker has {1 / workers:.1%}. {found}"


def shorten_key(key: str) -> str:
    """A key for a line, without the end of a long one."""
    return key if len(key) <= _LONGEST else key[: _LONGEST - 1] + "…"


def make_table(
    outcomes: Mapping[str, SimulationOutcome], answers: Mapping[str, GroupingFigures], keys: Keys, stretches: int = 1
) -> Table:
    """A row for the bound, then a row for each label, in the order of the answers."""
    first = next(iter(outcomes.values()))
    least = compute_bound(keys, first.workers, stretches)
    each = len(keys.codes) // (2 * WINDOWS * first.workers)
    few = f" Few tuples: {each:,} a worker in a tenth. Below {_ENOUGH:,}, chance alone raises max/mean."
    shown = Table(title=_format_title(first), caption=CAPTION + few * (each < _ENOUGH))
    shown.add_column("grouping", no_wrap=True)
    for column in ("score", "max/\nmean", "a worker\ngets, %", "workers\na key", "keys\nheld", "… by one\nworker"):
        shown.add_column(column, justify="right", no_wrap=True)
    mean = 100 / first.workers
    bound = f"{CAP:.2f}", f"{CAP:.2f}", f"≤ {CAP * mean:.3g}", f"{least / first.distinct_keys:.2f}", f"{least:,}"
    shown.add_row("bound", *bound, "", end_section=True)
    for label, found in answers.items():
        shown.add_row(
            f"[{get_colour(outcomes[label].grouping)}]■[/] " + label.replace(":", "\n  "),
            f"{found.score:.2f}",
            f"{found.lasting:.2f}",
            f"{found.least:.3g} to {found.most:.3g}",
            f"{found.replication:.2f}",
            f"{found.replicas:,}",
            f"{found.fullest:,}",
        )
    return shown


def make_time_table(predictions: Mapping[str, Prediction], key: SimulatedBatches, sources: int) -> Table:
    """A row for KEY, then a row for each other label, the fastest first."""
    tuples, clock, workers = sum(batch.tuples for batch in key.batches), key.clock, key.workers
    batches = f"{len(key.batches):,} batch{'es' * (len(key.batches) > 1)} of {key.batches[0].tuples:,}"
    shown = Table(
        title=f"{tuples:,} tuples of {key.keys:,} keys in {batches}, S = {sources}, W = {workers}\n"
        f"{_describe_costs(clock)}",
        caption=f"In brackets: in nine batches of ten, at a fixed cost of {clock.prices.fixed:g} s ± 20 %.",
    )
    shown.add_column("grouping", no_wrap=True)
    for column in ("max/\nmean", "workers\na key", "a batch,\ns", "the stream", "speedup over\nKEY"):
        shown.add_column(column, justify="right", no_wrap=True)
    for label, found in _rank_predictions(predictions):
        shown.add_row(
            f"[{get_colour(found.course.grouping)}]■[/] " + label.replace(":", "\n  "),
            f"{found.course.straggling:.2f}",
            f"{found.course.replication:.2f}",
            f"{found.batch.value:.3g}",
            _format_duration(float(found.course.seconds().sum())),
            "" if label == KEY else _format_range(found.speedup),
            end_section=label == KEY,
        )
    return shown


def describe_times(predictions: Mapping[str, Prediction], key: SimulatedBatches, sources: int) -> dict[str, Any]:
    """What the table of times says, as JSON has it, and the advice. Times are in seconds."""
    return {
        "tuples": sum(batch.tuples for batch in key.batches),
        "keys": key.keys,
        "batches": len(key.batches),
        "sources": sources,
        "workers": key.workers,
        "recommended": recommend_grouping(predictions),
        "advice": describe_recommendation(predictions, key),
        "groupings": [
            {
                "grouping": label,
                "straggling": found.course.straggling,
                "replication": found.course.replication,
                "batch": asdict(found.batch),
                "stream": float(found.course.seconds().sum()),
                "speedup": asdict(found.speedup),
            }
            for label, found in _rank_predictions(predictions)
        ],
    }


def _rank_predictions(predictions: Mapping[str, Prediction]) -> list[tuple[str, Prediction]]:
    """KEY's, then the others, the fastest first."""
    return sorted(predictions.items(), key=lambda item: (item[0] != KEY, -item[1].speedup.value))


def _describe_costs(clock: BatchTimeModel) -> str:
    cost = clock.cost
    spread = f" ± {cost.spread:.2g}" if cost.spread else ""
    waits = "waiting" if not cost.cpu else "of CPU" if cost.cpu > _ALL else f"({100 * cost.cpu:.0f} % of it CPU)"
    cores = f", {clock.cores} cores" if cost.cpu else ""
    return f"a tuple costs {cost.ms:.3g}{spread} ms {waits}{cores}"


def _format_range(found: Range) -> str:
    return f"{found.value:.2f} ({found.low:.2f}–{found.high:.2f})"


def _format_duration(seconds: float) -> str:
    """In the unit that reads best.

    >>> _format_duration(90), _format_duration(600), _format_duration(9000)
    ('90 s', '10 min', '2.5 h')
    """
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def make_detail_tables(outcomes: Mapping[str, SimulationOutcome], width: int) -> Group:
    """The measures, a column for each label, in as many tables as a terminal of ``width`` characters needs."""
    first = next(iter(outcomes.values()))
    shown = [m for m in MEASURES if m not in _ONLY_WITH_PLANS or any(o.plans for o in outcomes.values())]
    columns = {label: f"[{get_colour(o.grouping)}]■[/] " + label.replace(":", "\n") for label, o in outcomes.items()}
    widest = 5 + max(len(line) for label in outcomes for line in label.split(":"))
    room = max(1, (width - max(map(len, shown)) - 4) // widest)
    labels = list(outcomes)
    tables: list[Table] = []
    for at in range(0, len(labels), room):
        part = Table("")
        for label in labels[at : at + room]:
            part.add_column(columns[label], justify="right", no_wrap=True)
        for what in shown:
            part.add_row(what, *(MEASURES[what](outcomes[label]) for label in labels[at : at + room]))
        tables.append(part)
    return Group(_format_title(first), *tables, Text(LEGEND, style="dim"))


def save_simulation(outcomes: Mapping[tuple[str, int], SimulationOutcome], folder: Path, stream: str) -> list[Path]:
    """Write ``series.parquet``, ``figures.csv`` and pictures to the folder, and return the files' paths.

    Raises ``EnvironmentFault`` if the folder can't be written.
    """
    # matplotlib takes a second to import, and only --output needs it.
    from unskew.apps.cli.simulation.picture import draw_by_workers, draw_over_time

    with explain_unwritable("--output", folder):
        folder.mkdir(parents=True, exist_ok=True)
        parts = [
            pa.table(
                {
                    "grouping": [label] * len(o.series["tuples"]),
                    "workers": [workers] * len(o.series["tuples"]),
                    **o.series,
                }
            )
            for (label, workers), o in outcomes.items()
        ]
        files = [folder / "series.parquet", folder / "figures.csv"]
        pq.write_table(pa.concat_tables(parts), files[0])
        rows = [{"label": label} | outcome.figures() for (label, _), outcome in outcomes.items()]
        with files[1].open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        counts = sorted({workers for _, workers in outcomes})
        for count in counts:
            files.append(folder / f"over-time-w{count}.png")
            here = {label: outcome for (label, at), outcome in outcomes.items() if at == count}
            draw_over_time(here, f"{stream}, W = {count}", files[-1])
        if len(counts) > 1:
            files.append(folder / "by-workers.png")
            draw_by_workers(outcomes, counts, stream, files[-1])
    return files


def _format_title(first: SimulationOutcome) -> str:
    return f"{first.tuples:,} tuples of {first.distinct_keys:,} keys, S = {first.sources}, W = {first.workers}"
