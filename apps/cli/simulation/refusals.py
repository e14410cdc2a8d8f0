"""Refuses options of `unskew simulate` that would change nothing of what it prints."""

from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any

from unskew.errors import UsageError

#: Option → what it takes, and the options that go with it.
_ALLOWED = {
    "join": ("one stream besides its own", ("workers", "tuples", "batch", "seed", "json")),
    "write": ("one stream", ("workers", "tuples", "seed", "json")),
}
_OF_QUEUES = ("load", "poisson", "recorded", "feedback_interval", "feedback_delay", "feedback_transfer", "stretches")
_OF_MEASURES = ("window", "samples")
_OF_DETAILS = "with --details or --output"


def refuse_other_options(what: str, options: Iterable[Any]) -> None:
    """Refuse options that say nothing of a join or a write: those that aren't their defaults.

    Raises
    ------
    UsageError
        There is one, or there is not one stream.

    """
    takes, allowed = _ALLOWED[what]
    given = _find_given(options)
    if len(given.pop("stream", None) or ()) != 1:
        valid = {"join": "INPUT --join INPUT2", "write": "INPUT --write"}[what]
        raise UsageError(f"--{what} takes {takes}; valid: unskew simulate {valid}")
    valid = ", ".join(f"--{each}" for each in allowed)
    _refuse(given, given.keys() - {what, "as_json", *allowed}, f"a {what}", f"valid with --{what}: {valid}")


def refuse_for_table(options: Iterable[Any]) -> None:
    """Refuse options that say nothing of a table of many simulations.

    Raises
    ------
    UsageError
        There is one.

    """
    valid = "valid: with one stream, and without --sweep and --show"
    _refuse(_find_given(options), {"details", *_OF_MEASURES}, "a table of many simulations", valid)


def refuse_for_times(options: Iterable[Any]) -> None:
    """Refuse options that say nothing of the time of batches, which also needs no arrivals and no queues.

    Raises
    ------
    UsageError
        There is one.

    """
    given, what = _find_given(options), "the time of batches"
    _refuse(given, {"as_json"}, what, "valid: without --cost and --work")
    if not given.keys() & {"details", "output"}:
        _refuse(given, {*_OF_QUEUES, *_OF_MEASURES}, what, f"valid: {_OF_DETAILS}, or without --cost and --work")


def _find_given(options: Iterable[Any]) -> dict[str, Any]:
    """The options that aren't their defaults: name → value."""
    return {each.name: getattr(of, each.name) for of in options for each in fields(of) if not _is_default(of, each)}


def _is_default(of: Any, field: Any) -> bool:
    return field.default is not MISSING and getattr(of, field.name) == field.default


def _refuse(given: Iterable[str], refused: Iterable[str], what: str, valid: str) -> None:
    """Refuse the first given option that is one of these."""
    for name in given:
        if name in refused:
            option = name.removeprefix("as_").replace("_", "-")
            raise UsageError(f"--{option} says nothing of {what}; {valid}")
