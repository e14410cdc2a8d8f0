"""Emulators of clouds' stores, for the tests of checkpoints there: Azurite by npm, fake-gcs-server by Go.

`python -m tests.programs --clouds` gets them, once. Tests look whether they are there.
"""

from pathlib import Path

from tests.programs.packages import got, installed_by_go

_AZURITE = "3.35.0"
_FAKE_GCS = "1.56.1"


def azurite(*, fetch: bool = False) -> Path:
    """The program `azurite-blob`, Microsoft's emulator of Azure's blobs. It needs Node on the PATH.

    Raises
    ------
    EnvironmentFault
        It isn't there; with ``fetch``: there is no npm, or it can't fetch the package.
    """
    install = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefix")
    program = Path("node_modules", ".bin", "azurite-blob")
    package = f"azurite@{_AZURITE}"
    return got(package, program, "about 190 MB", lambda here: ((*install, str(here)), {}), fetch=fetch)


def fake_gcs(*, fetch: bool = False) -> Path:
    """The program `fake-gcs-server`, an emulator of Google Cloud Storage.

    Raises
    ------
    EnvironmentFault
        It isn't there; with ``fetch``: there is no Go, or it can't build the program.
    """
    package = f"github.com/fsouza/fake-gcs-server@v{_FAKE_GCS}"
    return got(package, Path("fake-gcs-server"), "some minutes", installed_by_go, fetch=fetch)
