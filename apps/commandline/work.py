"""The options that name the user's work, and the work that they name."""

import importlib
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from unskew.errors import UsageError


@dataclass(frozen=True)
class WorkOptions:
    """The user's work at the workers."""

    work: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="Your work at the workers (default: count).")
    ] = None
    work_columns: Annotated[
        str, typer.Option(help="Message columns it needs besides key: value,offset,… (comma-separated).")
    ] = ""

    def settings(self) -> dict[str, Any]:
        """What the settings of a run say of it."""
        columns = tuple(column for column in self.work_columns.split(",") if column)
        return {"work": function(self.work), "work_columns": columns}


def function(path: str | None) -> Any:
    """The function that ``MODULE:FUNCTION`` names; None for None.

    Raises
    ------
    UsageError
        It can't be loaded.

    """
    from pyspark import cloudpickle

    if path is None:
        return None
    module, colon, name = path.partition(":")
    if not colon:
        raise UsageError(f"--work is {path!r}; valid: MODULE:FUNCTION")
    # As python itself does for a script: modules in the current folder are found…
    sys.path.insert(0, "")
    try:
        loaded = importlib.import_module(module)
        work = getattr(loaded, name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--work {path!r} can't be loaded ({error})") from None
    # …and travel to the tasks as they are: the workers needn't have them.
    cloudpickle.register_pickle_by_value(loaded)
    return work
