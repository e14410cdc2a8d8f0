"""A clock of a process' own, which can be set while it runs (`clock.c`)."""

import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


class Clock:
    """The shift of the time of day for processes that are started with ``environment``; 0 at first.

    Parameters
    ----------
    folder : Path
        For the library and the file that says the shift.

    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._library = folder / "clock.so"
        self.set_to(0)
        source = Path(__file__).with_name("clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", self._library, source, "-ldl"], check=True)

    @staticmethod
    def possible() -> bool:
        """Whether this machine can have one: Linux, and a C compiler."""
        return sys.platform == "linux" and shutil.which("cc") is not None

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to go by it."""
        return {"LD_PRELOAD": str(self._library), "UNSKEW_CLOCK_FILE": str(self._file)}

    def set_to(self, seconds: float) -> None:
        """Shift the time of day by so much, at once."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:  # it is mapped: never another file
            file.write(struct.pack("=q", round(1000 * seconds)))
