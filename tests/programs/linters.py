"""Programs that know what GitHub takes as a workflow, and Docker as a compose file, by Go: got once."""

import shutil
from pathlib import Path

from tests.programs.packages import got, installed_by_go

_ACTIONLINT = "1.7.12"
_COMPOSE = "2.9.1"


def actionlint(*, fetch: bool = False) -> Path:
    """The program: the one on the PATH, else the one that was got.

    Raises
    ------
    EnvironmentFault
        It isn't there; with ``fetch``: there is no Go, or it can't build the program.
    """
    if found := shutil.which("actionlint"):
        return Path(found)
    package = f"github.com/rhysd/actionlint/cmd/actionlint@v{_ACTIONLINT}"
    return got(package, Path("actionlint"), "half a minute", installed_by_go, fetch=fetch)


def compose_reader(*, fetch: bool = False) -> Path:
    """The command of compose-go, the format's reference implementation, with which Docker reads a compose file, too.

    Raises
    ------
    EnvironmentFault
        As for ``actionlint``.
    """
    package = f"github.com/compose-spec/compose-go/v2/cmd@v{_COMPOSE}"
    return got(package, Path("cmd"), "half a minute", installed_by_go, fetch=fetch)
