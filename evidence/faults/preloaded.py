"""Small libraries that are loaded before libc (LD_PRELOAD), to tell a process another time, or a folder's older list.

Each is compiled of the C file with its name here, and reads a number from a file that the campaign writes.
"""

import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path


class Preloaded:
    """A library, and the number that it reads: 0 at first, with which it changes nothing.

    ``name``: The name of its C file. ``folder``: The folder of the library and of the file that has the number.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._file = folder / name
        self._library = folder / f"{name}.so"
        self.set_to(0)
        source = Path(__file__).with_name(f"{name}.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", self._library, source, "-ldl"], check=True)

    @staticmethod
    def possible() -> bool:
        """Whether this machine can have such libraries, which need Linux and a C compiler."""
        return sys.platform == "linux" and shutil.which("cc") is not None

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables by which a process uses the library."""
        return {"LD_PRELOAD": str(self._library), f"UNSKEW_{self._name.upper()}_FILE": str(self._file)}

    def set_to(self, number: int) -> None:
        """Set the number, at once."""
        # Processes have mapped this file: it mustn't be replaced.
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", number))


class Clock(Preloaded):
    """A clock for processes that are started with ``environment``: it shifts their time of day, by 0 at first."""

    def __init__(self, folder: Path) -> None:
        super().__init__("clock", folder)

    def shift(self, seconds: float) -> None:
        """Shift the time of day by so many seconds, at once."""
        self.set_to(round(1000 * seconds))


class Listing(Preloaded):
    """The lists of files that processes with ``environment`` get in a checkpoint's own part: all of them, or old ones.

    ``folder``: The folder of the library. ``listed``: Where the checkpoints are.
    """

    def __init__(self, folder: Path, listed: Path) -> None:
        super().__init__("listing", folder)
        self._listed = listed

    @property
    def environment(self) -> Mapping[str, str]:
        return {**super().environment, "UNSKEW_LISTING_FOLDER": str(self._listed)}

    def keep(self) -> None:
        """From now on show no new names."""
        self.set_to(round(1000 * time.time()))

    def renew(self) -> None:
        """Show all names."""
        self.set_to(0)
