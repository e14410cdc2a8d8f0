"""An experiment's report: a table of the paper's figures beside ours, and a picture.

A paper is a module of this package with a dictionary ``EXPERIMENTS``: name → function of ``Sizing`` that returns a
``Report``. ``command.py`` lists the papers.
"""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell: TypeAlias = "str | int | float | None"


#: The least scale at which an experiment's figures mean something.
TELLING = 0.01


@dataclass(frozen=True, slots=True)
class Sizing:
    """The size of an experiment.

    ``scale``: Share of the paper's sizes (messages, seeds, repetitions): 1 is the whole experiment. ``seed``: Where the
    random draws start.
    """

    scale: float = 0.1
    seed: int = 0

    def of(self, full: int, least: int = 1) -> int:
        """The scale's share of a full size, at least ``least`` and at most all of it.

        Below a scale of ``TELLING`` ``least`` shrinks too: then an experiment is quick, and shows only that it runs.
        """
        least = max(1, round(least * min(1.0, self.scale / TELLING)))
        return min(full, max(least, round(full * self.scale)))


@dataclass(frozen=True, slots=True)
class Remarks:
    """Remarks that several reports have in common: a page has them once, before its tables.

    ``title``: What they are about: "POSG: speed-ups". ``sentences``: The remarks.
    """

    title: str
    sentences: tuple[str, ...]

    @classmethod
    def of(cls, title: str, *sentences: str) -> Self:
        """Remarks with a title."""
        return cls(title, sentences)

    def markdown(self) -> str:
        """The remarks as a section of a page."""
        return f"## {self.title}\n\n{' '.join(self.sentences)}\n"


@dataclass(frozen=True, slots=True)
class Report:
    """One table or figure of a paper, done again.

    ``title``: The title, with the paper's number of the table or figure: "PKG, Table II: …". ``columns``: Headings; by
    convention the settings first, then "paper", "ours" and "why they differ". ``rows``: Text, numbers, or None where
    the paper doesn't say. ``notes``: Remarks on the whole table: what is scaled, which data isn't available. ``plot``:
    Draws the picture. ``common``: Further remarks, which other reports have too.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    plot: "Callable[[Figure], None] | None" = None
    common: Remarks | None = None

    def markdown(
        self,
        picture: str | None = None,
        table: str | None = None,
        column: tuple[int, Sequence[str]] | None = None,
    ) -> str:
        """The table, its notes and links to the common remarks, to the CSV and to the picture, as Markdown.

        ``column`` is a further one: where it stands, its heading and its cells.

        A table without a figure of the paper is in its CSV alone, if there is a picture of it: on the page it would
        only part what is compared.
        """
        rows = [self.columns, ["---"] * len(self.columns), *([written(cell) for cell in row] for row in self.rows)]
        if column is not None:
            at, (heading, *cells) = column
            rows = [[*row[:at], cell, *row[at:]] for row, cell in zip(rows, [heading, "---", *cells], strict=True)]
        lines = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
        see = [f"See also [{self.common.title}](#{anchor(self.common.title)})."] if self.common else []
        see += [f"[As CSV]({table})."] if table else []
        compared = any("paper" in name for name in self.columns)
        parts = [f"## {self.title}", lines if compared or not (picture and table) else ""]
        parts += [" ".join([*self.notes, *see])]
        parts += [f"![{self.title}]({picture})"] if picture else []
        return "\n\n".join(part for part in parts if part) + "\n"

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write ``name.csv`` and, where there is a picture, ``name.png``; the files written."""
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"{name}.csv"]
        with files[0].open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(["" if cell is None else cell for cell in row] for row in self.rows)
        if self.plot is not None:
            from matplotlib.figure import Figure  # deferred: the command starts without it

            figure = Figure(figsize=(8, 5), layout="constrained")
            self.plot(figure)
            figure.suptitle(self.title)
            files.append(folder / f"{name}.png")
            figure.savefig(files[-1], dpi=90)
        return files


_SAME = (
    "tables as CSV. The seed fixes all draws: each figure comes out the same again, except for the planning times",
    "of the routing table paper (Mixed, in ms), which are CPU times of the machine that ran it.",
)
_LIVE = (
    "tables as CSV. The seed fixes the streams; they went through Kafka and Spark, times are measured, and plans",
    "depend on them: no figure comes out quite the same again.",
)


def page(command: str, sections: Sequence[str], summary: str = "", *, live: bool = False) -> str:
    """All tables as one page of Markdown: the summary first, then the remarks and the tables."""
    return "\n".join(
        [
            f"# The papers' {'live ' * live}experiments again\n",
            f"By `{command}`, which writes this page, its pictures and the",
            *(_LIVE if live else _SAME),
            "",
            *([summary] if summary else []),
            "In each table below: the paper's figure, ours, the difference, and why they differ. A letter is for a",
            "reason below the table, or in the remarks that it names. A dash: the paper doesn't say. A difference is",
            "in percent of the paper's figure, or a ratio from 2 on. That of speed-ups and of DPA's skew is in their",
            "own unit. For words and claims it is *none* or *yes*.",
            "",
            *sections,
        ]
    )


def add_legend(figure: "Figure", place: str = "lower center", **options: Any) -> None:
    """Put a picture's legend, which is its first panel's, beside the panels."""
    options = {"loc": f"outside {place}", "frameon": False} | options
    figure.legend(*figure.axes[0].get_legend_handles_labels(), **options)


def anchor(title: str) -> str:
    """The name that GitHub gives a heading's link: lower case, blanks as hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def headings(text: str) -> list[str]:
    """A table's headings, which ``|`` separates as in Markdown."""
    return [heading.strip() for heading in text.split("|")]


def written(cell: Cell) -> str:
    """A cell as text: three significant digits for fractions, a dash for None."""
    if cell is None:
        return "–"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)
