"""Tables of the programs, as Markdown has them."""

from collections.abc import Mapping

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table


def make_table(*heads: str, left: int = 1, title: str = "") -> Table:
    """An empty table with these columns; those after the first ``left`` have numbers."""
    made = Table(box=MARKDOWN, title=title or None)
    for number, name in enumerate(heads):
        made.add_column(name, justify="left" if number < left else "right")
    return made


def make_facts(rows: Mapping[str, str | int]) -> Table:
    """A table of what there is, and how much of it."""
    made = make_table("", "")
    for what, number in rows.items():
        made.add_row(what, number if isinstance(number, str) else f"{number:,}")
    return made


def print_table(table: Table) -> None:
    """Print a table, a row a line."""
    Console(width=260, highlight=False).print(table)
