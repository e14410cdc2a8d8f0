"""actionlint, which knows what GitHub takes as a workflow. `python -m tests.programs --clouds` gets it, once, by Go."""

import shutil
from pathlib import Path

from tests.programs.packages import got, installed_by_go

_VERSION = "1.7.12"


def actionlint(*, fetch: bool = False) -> Path:
    """The program: the one on the PATH, else the one that was got.

    Raises
    ------
    EnvironmentFault
        It isn't there; with ``fetch``: there is no Go, or it can't build the program.
    """
    if found := shutil.which("actionlint"):
        return Path(found)
    package = f"github.com/rhysd/actionlint/cmd/actionlint@v{_VERSION}"
    return got(package, Path("actionlint"), "half a minute", installed_by_go, fetch=fetch)
