"""Errors that are not defects of unskew. Commands print them as one line on stderr, without a stack trace.

The library's functions raise the same errors.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """An error that the user can fix. The message is one line: what was given, what is valid, and what to do."""

    exit_code: int


class UsageError(UserError, ValueError):
    """A bad argument or option. It is a ValueError, too."""

    exit_code = 2


class EnvironmentFault(UserError):
    """The arguments are valid, but the environment isn't: no Java, broker or disk space, a port taken.

    Or a checkpoint can't be reached.
    """

    exit_code = 1


class LeaseLost(UserError):
    """Another driver has taken over the checkpoint. Restarted, this one waits until the other one has ended."""

    exit_code = 3


def suggest_names(name: object, valid: Iterable[str]) -> str:
    """The end of an error about an invalid name: similar names, and all valid ones.

    >>> suggest_names("PARTAL_KEY", ["KEY", "SHUFFLE", "PARTIAL_KEY"])
    '; did you mean PARTIAL_KEY? valid: KEY, SHUFFLE, PARTIAL_KEY'
    >>> suggest_names(3, ["KEY"]), suggest_names("x", [])
    ('; valid: KEY', '; valid: none')
    """
    names = list(valid)
    by_lower = {each.lower(): each for each in names}
    like = [by_lower[each] for each in get_close_matches(str(name).lower(), by_lower, n=2)]
    question = f"; did you mean {' or '.join(like)}?" if like else ";"
    return f"{question} valid: {', '.join(names) or 'none'}"
