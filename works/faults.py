"""Faults of a user's work: what it raised, and the line of its code that did."""

import traceback
from collections.abc import Collection

_SAID = 1_000  # characters: an error may quote a message


class WorkFault(Exception):
    """The user's work raised; the message says on which key, where and what, in one line."""


def raised_at(error: Exception, files: Collection[str | None], name: str) -> str:
    """What was raised, and the last line of these files that led there; if there is none, in what (``name``) it was."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    said = " ".join(f"{type(error).__name__}: {error}".split())
    if len(said) > _SAID:
        said = f"{said[:_SAID]} …"
    if own:
        return f"{own[-1].filename}:{own[-1].lineno} in {own[-1].name}: {said}"
    return f"what {name} gives: {said}"


class StateFault(Exception):
    """A keyed work raised, or gave what it must not; the message says on which key, where and what, in one line."""
