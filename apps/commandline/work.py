"""The options that name the user's work, and the work that they name."""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from unskew.apps.commandline.options import pair
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
        options = dict(pair("--work-option", text) for text in self.work_option or [])
        return {"work": made(self.work, options), "work_columns": columns}


def made(path: str | None, options: Mapping[str, str]) -> Any:
    """What ``MODULE:NAME`` names: a function as it is; of a class of keyed works one with these options.

    Raises
    ------
    UsageError
        It can't be loaded, it has no such option, or one has a bad value.

    """
    from unskew.works.interface import KeyedWork

    work = named(path)
    if not (isinstance(work, type) and issubclass(work, KeyedWork)):
        if options:
            raise UsageError(f"--work-option is {next(iter(options))!r}; valid with a class with states as --work")
        return work
    parameters = signature(work).parameters
    for name in options:
        if name not in parameters:
            raise UsageError(f"{work.__name__} has no option {name!r}; valid: {', '.join(parameters) or 'none'}")
    missing = [name for name, p in parameters.items() if p.default is p.empty and name not in options]
    if missing:
        raise UsageError(f"{work.__name__} needs the option {missing[0]!r}: give --work-option {missing[0]}=…")
    try:
        return work(**{name: _read(name, text, parameters[name]) for name, text in options.items()})
    except ValueError as error:
        raise UsageError(f"{work.__name__}: {error}") from None


def _read(name: str, text: str, parameter: Parameter) -> Any:
    """An option's value: of the type of its default, or of what it is annotated as."""
    default = None if parameter.default is Parameter.empty else parameter.default
    kinds = {"int": int, "float": float, "bool": bool, "str": str}
    annotated = str(getattr(parameter.annotation, "__name__", parameter.annotation)).split("|")[0].strip()
    kind = type(default) if default is not None else kinds.get(annotated, str)
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name} is {text!r}; valid: true, false")
        return text.lower() == "true"
    try:
        if kind is tuple:
            return tuple(part for part in text.split(",") if part)
        return kind(text) if kind in (int, float) else text
    except ValueError:
        raise UsageError(f"{name} is {text!r}; valid: {'a whole number' if kind is int else 'a number'}") from None


def named(path: str | None) -> Any:
    """The function or class that ``MODULE:NAME`` names; None for None.

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
        raise UsageError(f"--work is {path!r}; valid: MODULE:NAME")
    # As python itself does for a script: modules in the current folder are found…
    sys.path.insert(0, "")
    try:
        loaded = importlib.import_module(module)
        work = getattr(loaded, name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--work {path!r} can't be loaded ({error})") from None
    # …and travel to the tasks as they are: the workers needn't have them. (Ours they have.)
    if module.partition(".")[0] != "unskew":
        cloudpickle.register_pickle_by_value(loaded)
    return work
