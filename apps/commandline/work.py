"""The options that name the user's work, and the work that they name."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import isfunction, signature
from typing import Annotated, Any

import typer

from unskew.apps.commandline.options import pairs
from unskew.apps.topology.settings import STATES
from unskew.errors import UsageError


@dataclass(frozen=True)
class WorkOptions:
    """The user's work at the workers."""

    work: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME", help="Your work at the workers: a function, or a class with states (default: count)."
        ),
    ] = None
    work_option: Annotated[
        list[str] | None,
        typer.Option("--work-option", metavar="NAME=VALUE", help="Of a class with states.", rich_help_panel=STATES),
    ] = None
    work_columns: Annotated[
        str, typer.Option(help="Message columns it needs besides key: value,offset,… (comma-separated).")
    ] = ""

    def settings(self) -> dict[str, Any]:
        """What the settings of a run say of it."""
        columns = tuple(column for column in self.work_columns.split(",") if column)
        options = pairs("--work-option", self.work_option or [])
        return {"work": made(self.work, options), "work_columns": columns}


def made(path: str | None, options: Mapping[str, str]) -> Any:
    """What ``MODULE:NAME`` names: a function over batches as it is, or a work with states with its options.

    Raises
    ------
    UsageError
        It can't be loaded, it has no such option, or one has a bad value.

    """
    from unskew.works.named import load, named

    if path is None:
        if options:
            raise UsageError(f"--work-option is {next(iter(options))!r}, but there is no --work: give both")
        return None
    work = named(path)
    # A function over batches takes one; what makes a work takes options alone.
    if isfunction(work) and any(p.default is p.empty for p in signature(work).parameters.values()):
        if options:
            raise UsageError(f"{path} has no option {next(iter(options))!r}; valid: none for a function")
        return work
    return load(path, options)
