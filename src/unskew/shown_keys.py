"""How keys are shown in a job's metrics, logs, errors, displays and reports.

Keys can be personal data. ``UNSKEW_KEYS``, which ``--keys`` sets, decides how this process and its children show them.
Results have the plain keys: topics' records, tables, and the output of ``unskew results`` and ``unskew state``.
"""

import hmac
import os
import re

from unskew.errors import UsageError

VARIABLE = "UNSKEW_KEYS"
#: The secret of ``hash``.
SECRET_VARIABLE = "UNSKEW_KEYS_SECRET"  # noqa: S105  a name
PLAIN = "plain"
_HIDDEN = "(hidden)"
_SHORTEST_SECRET = 16  # characters
_DIGITS = 16  # of a hash: among 10 million keys, a collision has a probability of 3 in a million


def choose_key_display(shown: str) -> None:
    """Let this process and its children show keys as ``plain``, ``hash``, ``prefix:N`` or ``none``.

    Raises ``UsageError`` if it is none of these, or there is no secret for ``hash``.
    """
    if not re.fullmatch(r"plain|hash|prefix:[1-9]\d{0,3}|none", shown):
        raise UsageError(f"--keys is {shown!r}; valid: plain, hash, prefix:N, none")
    length = len(os.environ.get(SECRET_VARIABLE, ""))
    if shown == "hash" and length < _SHORTEST_SECRET:
        raise UsageError(
            f"--keys is 'hash', and {SECRET_VARIABLE} has {length} characters; valid: {_SHORTEST_SECRET} or more"
        )
    os.environ[VARIABLE] = shown


def shows_keys() -> bool:
    """Whether keys are shown plain. Errors then quote those of the user's code, which may quote a message."""
    return os.environ.get(VARIABLE, PLAIN) == PLAIN


def list_variables() -> dict[str, str]:
    """The variables with which other processes, such as executors, show keys like this one."""
    names = () if shows_keys() else (VARIABLE, SECRET_VARIABLE)
    return {name: os.environ[name] for name in names if name in os.environ}


def show_key(key: str) -> str:
    """A key as it may be shown. ``prefix:N`` shows a key of N characters or fewer without its last one.

    An unknown setting, or a missing secret, hides the key.
    """
    how, _, length = os.environ.get(VARIABLE, PLAIN).partition(":")
    secret = os.environ.get(SECRET_VARIABLE, "").encode()
    if how == PLAIN:
        return key
    if how == "hash" and secret:
        return hmac.digest(secret, key.encode(errors="surrogatepass"), "sha256").hex()[:_DIGITS]
    if how == "prefix" and length.isdigit():
        return key[: min(int(length), max(0, len(key) - 1))] + "…"
    return _HIDDEN


def quote_key(key: object) -> str:
    """A key of any type, for errors.

    >>> quote_key("Turkey"), quote_key(7)
    ("'Turkey'", '7')
    """
    return repr(key) if shows_keys() else show_key(str(key))
