"""One table of many simulations: of several streams, numbers of workers, groupings, and values of parameters."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import MARKDOWN
from rich.markup import escape
from rich.table import Table

from unskew.apps.cli.simulation.tables import CAP, GroupingFigures
from unskew.errors import UsageError
from unskew.shell import explain_unwritable

#: What a cell may show, and how.
_FORMATS = {
    "replication": ".2f",
    "excess": ".2f",
    "added": ",.0f",
    "fullest": ",.0f",
    "lasting": ".2f",
    "worst": ".2f",
    "hottest": ".0f",
    "score": ".2f",
}
_SEED = "seed"  # a sweep over it shows ranges


class SweptFigures(NamedTuple):
    """The figures of one simulation."""

    stream: str  #: What was simulated.
    workers: int
    values: dict[str, float]  #: Swept option → its value.
    label: str  #: The grouping with its parameters, and its name.
    grouping: str
    figures: GroupingFigures  #: What was found.

    def describe(self) -> dict[str, Any]:
        """A flat row, as JSON and CSV have it."""
        of = {"stream": self.stream, "workers": self.workers, **self.values, "grouping": self.label}
        return {**of, **self.figures._asdict()}

    @property
    def case(self) -> tuple[str, int, tuple[float, ...]]:
        """What a row of the table is of: all but the grouping and the seed."""
        return self.stream, self.workers, tuple(value for name, value in self.values.items() if name != _SEED)


def parse_figures(text: str) -> list[str]:
    """The figures that a cell shows.

    >>> parse_figures("added,worst")
    ['added', 'worst']
    """
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in _FORMATS]:
        raise UsageError(f"--show has {unknown[0]!r}; valid: {', '.join(_FORMATS)}")
    return names


def make_table(rows: Sequence[SweptFigures], names: Sequence[str]) -> Table:
    """A row for each stream, number of workers and swept value, and a column for each grouping.

    If there is one grouping only, the columns are the numbers of workers. Of several seeds a cell shows the lowest and
    the highest figure.
    """
    labels = list(dict.fromkeys(row.label for row in rows))
    by_workers = len(labels) == 1
    columns = list(dict.fromkeys(row.workers if by_workers else row.label for row in rows))
    swept = [name for name in rows[0].values if name != _SEED]
    shown = Table("stream", box=MARKDOWN, caption=_describe_cells(names, labels if by_workers else ()))
    for name in [*([] if by_workers else ["W"]), *swept, *([] if by_workers else ["bound"]), *map(str, columns)]:
        shown.add_column(name, justify="right", no_wrap=True)
    by_case: dict[Any, dict[Any, list[GroupingFigures]]] = {}
    for row in rows:
        stream, workers, values = row.case
        case = (stream, *values) if by_workers else (stream, f"{workers:,}", *values)
        cells = by_case.setdefault(case, {})
        cells.setdefault(row.workers if by_workers else row.label, []).append(row.figures)
    for case, cells in by_case.items():
        bound = max(each.replication / each.excess for found in cells.values() for each in found)
        heads = [escape(value) if isinstance(value, str) else f"{value:g}" for value in case]
        texts = (", ".join(_format_range(cells[column], name) for name in names) for column in columns)
        shown.add_row(*heads, *([] if by_workers else [f"{bound:.2f}"]), *texts)
    return shown


def _format_range(found: Sequence[GroupingFigures], name: str) -> str:
    low, high = (f"{end(getattr(each, name) for each in found):{_FORMATS[name]}}" for end in (min, max))
    return low if low == high else f"{low}–{high}"


def _describe_cells(names: Sequence[str], labels: Sequence[str]) -> str:
    bound = "" if labels else f"; bound: workers a key if no worker has more than {CAP:g} times the mean"
    return f"{''.join(f'{label}, by W: ' for label in labels)}{', '.join(names)}{bound}"


def save_sweep(rows: Sequence[SweptFigures], folder: Path) -> list[Path]:
    """Write ``figures.csv``, and a picture of the greatest number of workers and the first value of each option.

    Raises ``EnvironmentFault`` if the folder can't be written.
    """
    # matplotlib takes a second to import, and only --output needs it.
    from unskew.apps.cli.simulation.picture import draw_sweep

    workers, values = max(row.workers for row in rows), rows[0].values
    points = [
        (row.stream, row.label, row.grouping, row.figures.added, row.figures.worst)
        for row in rows
        if (row.workers, row.values) == (workers, values)
    ]
    files = [folder / "figures.csv", folder / "sweep.png"]
    with explain_unwritable("--output", folder):
        folder.mkdir(parents=True, exist_ok=True)
        with files[0].open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].describe(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(row.describe() for row in rows)
        draw_sweep(points, files[1])
    return files
