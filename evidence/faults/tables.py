"""Tables of the campaigns, as Markdown has them."""

from collections.abc import Mapping

from rich.box import MARKDOWN
from rich.table import Table


def table_of(first: str, *others: str) -> Table:
    """An empty table with these columns; those after the first have numbers."""
    made = Table(box=MARKDOWN)
    made.add_column(first)
    for name in others:
        made.add_column(name, justify="right")
    return made


def facts(rows: Mapping[str, str | int]) -> Table:
    """A table of what there is, and how much of it."""
    made = table_of("", "")
    for what, number in rows.items():
        made.add_row(what, number if isinstance(number, str) else f"{number:,}")
    return made
