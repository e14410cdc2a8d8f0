"""Helpers of commands: ``NAME=VALUE``, files to write, the command's name, exit codes after signals."""

import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from unskew.errors import EnvironmentFault, UsageError

T = TypeVar("T")

NAME = "unskew"
#: The suffixes of picture files.
PICTURES = (".png", ".svg", ".pdf")

_asked: list[int] = []  # the signals received to stop


def record_stop_signal(number: int) -> None:
    """Record a signal that a command's handler got, for the exit code."""
    _asked.append(number)


def interruption_exit_code() -> int:
    """The exit code of a command that stopped early: as in shells, 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_asked[0] if _asked else signal.SIGINT)


def find_command_name() -> str:
    """How to call unskew: by its name if the shell finds it, else by this process's path."""
    called = Path(sys.argv[0]).absolute()
    if shutil.which(NAME) or called.name != NAME:
        return NAME
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)


def escape_controls(text: str) -> str:
    r"""Escape the characters that a terminal would interpret.

    >>> print(escape_controls("\x1b[2J"))
    \x1b[2J
    """
    return re.sub(r"[^\x20-\x7e\xa0-\U0010ffff]", lambda found: repr(found[0])[1:-1], text)


def parse_pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` strings to a dictionary."""
    return dict(parse_pair(text, option) for text in texts)


def parse_pair(text: str, option: str = "") -> tuple[str, str]:
    """Parse ``NAME=VALUE``. A UsageError names an invalid string, and the option if given."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{option} is {text!r}; valid: NAME=VALUE" if option else f"{text!r} is not NAME=VALUE")
    return name, value


def parse_value(name: str, text: str, read: Callable[[str], T], valid: str) -> T:
    """Parse a parameter's value. If ``read`` raises ValueError or KeyError, a UsageError says what is ``valid``."""
    try:
        return read(text)
    except (ValueError, KeyError):
        raise UsageError(f"{name} is {text!r}; valid: {valid}") from None


@contextmanager
def explain_unwritable(option: str, path: Path) -> Iterator[None]:
    """Raise an error with the option whose file or folder can't be written.

    Raises ``EnvironmentFault`` if the block raised an ``OSError``.
    """
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(f"{option} {path} can't be written ({error.strerror}): choose another") from error
