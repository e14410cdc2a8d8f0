"""How skewed a dataset is: its statistics beside the published ones, as tables and as a picture."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from unskew.errors import EnvironmentFault
from unskew.producers.datasets.interface import Dataset
from unskew.producers.key_counts import KeyCounts
from unskew.shell import escape_controls
from unskew.shown_keys import show_key

FIRST = 5  # messages to show
_POINTS = 300  # of a curve: the eye can't tell more apart


@dataclass(slots=True)
class DatasetStatistics:
    """The statistics of a dataset's records."""

    #: The number of records, and their bytes.
    records: int = 0
    size: int = 0
    keys: KeyCounts = field(default_factory=KeyCounts)  #: The counts of their keys.
    first: list[bytes] = field(default_factory=list)  #: The first few messages.
    #: The earliest and the latest time of a record, ms since the epoch. None: records have no times.
    begin: int | None = None
    end: int | None = None
    seconds: float = 0.0  #: The time it took to draw or read the records.


def compute_statistics(
    dataset: Dataset,
    *,
    progress: Callable[[int, int], None] | None = None,
    stopped: Callable[[], bool] = bool,
) -> DatasetStatistics:
    """The statistics of a dataset. It is read to the end, and nothing is sent.

    ``progress`` and ``stopped`` are called as ``publish_dataset`` calls them.
    """
    found, begun = DatasetStatistics(), time.monotonic()
    for block in dataset.blocks():
        found.first += block.messages.slice(0, FIRST - len(found.first)).to_pylist()
        found.records += len(block)
        found.size += int(block.lengths.sum())
        found.keys.add(block.keys, block.counts)
        if block.times is not None:
            begin, end = int(block.times.min()), int(block.times.max())
            found.begin = begin if found.begin is None else min(begin, found.begin)
            found.end = end if found.end is None else max(end, found.end)
        if progress:
            progress(found.records, found.size)
        if stopped():
            break
    found.seconds = time.monotonic() - begun
    return found


def statistics_table(dataset: Dataset, found: DatasetStatistics, hottest: int = 5) -> Table:
    """The statistics to print, beside the published ones if there are any."""
    published = dataset.published
    table = Table(title=dataset.name, title_justify="left")
    table.add_column("")
    table.add_column("here", justify="right")
    if published:
        table.add_column(published.source, justify="right")

    def row(what: str | Text, here: str, there: str = "") -> None:
        table.add_row(what, here, there) if published else table.add_row(what, here)

    keys = found.keys
    names = ("records", "distinct keys", "p1")
    for what, here, there in zip(
        names, _format_counts(found.records, keys), _format_published_counts(dataset), strict=True
    ):
        row(what, here, there)
    for key, tuples in keys.top(hottest):
        row(Text(f"  {escape_controls(show_key(key))}"), f"{tuples:,} ({tuples / keys.total:.2%})")
    row("tuples", f"{keys.total:,}")
    row("bytes", f"{found.size:,}")
    if found.begin is not None and found.end is not None:
        row("from", _format_time(found.begin))
        row("to", _format_time(found.end))
    row("made in", f"{found.seconds:.1f} s, {found.records / max(found.seconds, 1e-9):,.0f} records/s")
    return table


def compare_datasets(datasets: Iterable[Dataset]) -> tuple[Table, dict[str, NDArray[np.float64]]]:
    """A row for each dataset, its statistics beside the published ones, and each one's curve for ``draw_curves``."""
    table = Table("dataset")
    for column in ("records", "keys", "p1"):
        table.add_column(column, justify="right")
        table.add_column("published", justify="right")
    curves: dict[str, NDArray[np.float64]] = {}
    for dataset in datasets:
        counts = KeyCounts.of(dataset.blocks())
        curves[dataset.name] = counts.frequencies() / max(counts.total, 1)
        pairs = zip(_format_counts(dataset.records or 0, counts), _format_published_counts(dataset), strict=True)
        table.add_row(dataset.name, *(cell for pair in pairs for cell in pair))
    return table, curves


def _format_counts(records: int, keys: KeyCounts) -> tuple[str, str, str]:
    """The number of records, that of distinct keys, and p1."""
    top = keys.top(1)
    distinct = f"{'≈ ' if keys.error else ''}{keys.distinct:,}"
    return f"{records:,}", distinct, f"{top[0][1] / keys.total:.2%}" if top else ""


def _format_published_counts(dataset: Dataset) -> tuple[str, str, str]:
    """The same as published; empty where a number isn't."""
    published = dataset.published
    if published is None:
        return "", "", ""
    records, keys = (f"{number:,}" if number else "" for number in (published.records, published.keys))
    return records, keys, f"{published.p1:.2%}" if published.p1 else ""


def _format_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def draw_curves(curves: Mapping[str, NDArray[np.floating[Any]]], path: Path) -> None:
    """Draw each dataset's shares by rank. Both axes are logarithmic, and each curve falls from the most frequent key.

    Raises ``EnvironmentFault`` if the file can't be written.
    """
    # Imported here because it is slow to import, and only --plot needs it.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    for number, (name, shares) in enumerate(curves.items()):
        if len(shares):
            ranks = np.unique(np.geomspace(1, len(shares), _POINTS).astype(int))
            # there are ten colours
            line = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
            axes.loglog(ranks, shares[ranks - 1], label=name, linewidth=1.8, **line)
    axes.set(xlabel="rank of the key", ylabel="share of the tuples", title="How skewed are the datasets?")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize="small", loc="lower left")
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be written: {error.strerror}") from None
