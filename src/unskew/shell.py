"""How the user calls us, for the commands that we print."""

import shutil
import sys
from pathlib import Path

NAME = "unskew"


def unskew() -> str:
    """What to type to call us: our name if the shell finds it, else the path with which this process was called."""
    called = Path(sys.argv[0]).absolute()
    if shutil.which(NAME) or called.name != NAME:
        return NAME
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)
