"""The name by which the user calls unskew, for the commands that it prints."""

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
