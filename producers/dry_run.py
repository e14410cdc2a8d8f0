"""A load that sends nothing: the first messages, and the statistics beside the published ones."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.table import Table

from unskew.producers.dataset import Dataset
from unskew.producers.keycounts import KeyCounts

FIRST = 5  # messages to show


@dataclass(slots=True)
class Statistics:
    """What a dataset's records come to.

    Attributes
    ----------
    records, size : int
        How many, and their bytes.
    keys : KeyCounts
        Their keys.
    first : list of bytes
        The first few messages.
    begin, end : int or None
        The earliest and the latest time of a record, ms since the epoch; None: they have none.
    seconds : float
        How long it took to make or read them.

    """

    records: int = 0
    size: int = 0
    keys: KeyCounts = field(default_factory=KeyCounts)
    first: list[bytes] = field(default_factory=list)
    begin: int | None = None
    end: int | None = None
    seconds: float = 0.0


def measure(
    dataset: Dataset,
    *,
    progress: Callable[[int, int], None] | None = None,
    stopped: Callable[[], bool] = bool,
) -> Statistics:
    """Go through a dataset without sending it; ``progress`` and ``stopped`` as of ``publish``."""
    found, begun = Statistics(), time.monotonic()
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


def statistics_table(dataset: Dataset, found: Statistics, hottest: int = 5) -> Table:
    """The statistics to print, beside the published ones if there are any."""
    published = dataset.published
    table = Table(title=dataset.name, title_justify="left")
    table.add_column("")
    table.add_column("here", justify="right")
    if published:
        table.add_column(published.source, justify="right")

    def row(what: str, here: str, there: str = "") -> None:
        table.add_row(what, here, there) if published else table.add_row(what, here)

    keys, about = found.keys, "≈ " if found.keys.error else ""
    row("records", f"{found.records:,}", _number(published and published.records))
    row("distinct keys", f"{about}{keys.distinct:,}", _number(published and published.keys))
    top = keys.top(hottest)
    row(
        "p1",
        f"{top[0][1] / keys.total:.2%}" if top else "",
        f"{published.p1:.2%}" if published and published.p1 else "",
    )
    for key, tuples in top:
        row(f"  {key}", f"{tuples:,} ({tuples / keys.total:.2%})")
    row("tuples", f"{keys.total:,}")
    row("bytes", f"{found.size:,}")
    if found.begin is not None and found.end is not None:
        row("from", _moment(found.begin))
        row("to", _moment(found.end))
    row("made in", f"{found.seconds:.1f} s, {found.records / max(found.seconds, 1e-9):,.0f} records/s")
    return table


def _number(number: int | None) -> str:
    return f"{number:,}" if number else ""


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
