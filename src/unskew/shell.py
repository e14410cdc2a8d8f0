"""What commands print: the name by which the user calls unskew, and others' text without effect on the terminal."""

import re
import shutil
import sys
from pathlib import Path

NAME = "unskew"


def unskew() -> str:
    """What to type to call unskew: its name if the shell finds it, else the path by which this process was called."""
    called = Path(sys.argv[0]).absolute()
    if shutil.which(NAME) or called.name != NAME:
        return NAME
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)


def plain(text: str) -> str:
    r"""Text, with visible escapes for the characters that a terminal would act on.

    >>> print(plain("\x1b[2J"))
    \x1b[2J
    """
    return re.sub(r"[^\x20-\x7e\xa0-\U0010ffff]", lambda found: repr(found[0])[1:-1], text)
