"""Errors of a user's work: what it raised, and the line of its code that raised."""

import traceback
from collections.abc import Collection
from typing import TYPE_CHECKING

from unskew.shown_keys import quote_key, shows_keys

if TYPE_CHECKING:  # the commands' help needs no Arrow
    import pyarrow as pa

_SAID = 1_000  # characters: an error may quote a message


class UserCodeFault(Exception):
    """The user's work raised an error. The message is one line: key, line of code, and error."""


def describe_raised(error: Exception) -> str:
    """What the user's code raised; without its text if keys aren't shown, because it may quote one."""
    return " ".join(f"{type(error).__name__}: {error}".split()) if shows_keys() else type(error).__name__


def locate_error(error: Exception, files: Collection[str | None], name: str) -> str:
    """What was raised, and the last line of ``files`` in its traceback, or ``name`` if there is none."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    said = describe_raised(error)
    if len(said) > _SAID:
        said = f"{said[:_SAID]} …"
    if own:
        return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}: {said}"
    return f"what {name} gives: {said}"


def find_cause(error: Exception) -> Exception | None:
    """The cause to raise a fault from, which logs then show. None where keys aren't shown: it may quote one."""
    return error if shows_keys() else None


class StateFault(Exception):
    """A fault of the user's work that rejecting messages can't cure. The message is one line: key, place and error.

    A keyed operator raised an error or returned something invalid; or stateless work failed too often, or on a message
    that may be counted already.
    """


def describe_keys(keys: "pa.Array") -> str:
    """The first of n ≥ 1 keys, and the number of others."""
    return f"key {quote_key(keys[0].as_py())}" + (f" and {len(keys) - 1} others" if len(keys) > 1 else "")
