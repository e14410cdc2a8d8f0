"""The driver under a supervisor: whenever it has ended it is started again, as a service manager would."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unskew.errors import EnvironmentFault

UNSKEW = (sys.executable, "-c", "from unskew.apps.cli import main; main()")
_USAGE = 2  # exit code
_PAUSE = 1.0  # s between an end and the next start


@dataclass(frozen=True)
class End:
    """An end of the driver: its exit code (negative: a signal's number), and the last line that it said."""

    code: int
    line: str
    traceback: bool


class Driver:
    """`unskew topology` as a process of its own.

    Parameters
    ----------
    command : sequence of str
        Arguments of `unskew`.
    folder : Path
        For its log.
    checkpoint : Path
        Where its progress is.
    environment : mapping
        Variables beside ours.

    """

    def __init__(self, command: Sequence[str], folder: Path, checkpoint: Path, environment: Mapping[str, str]) -> None:
        self._command = [*UNSKEW, *command]
        self._log = folder / "driver.log"
        self._checkpoint = checkpoint
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0
        self._ended_at = -_PAUSE
        self.ends: list[End] = []
        self.starts = self.replays = 0

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def tend(self) -> None:
        """Take note of an end; start it if it doesn't run.

        Raises
        ------
        EnvironmentFault
            It doesn't take its arguments.

        """
        if self.pid is not None:
            return
        self._note_end()
        if self.ends and self.ends[-1].code == _USAGE:
            raise EnvironmentFault(f"the driver refuses: {self.ends[-1].line}")
        if time.monotonic() - self._ended_at >= _PAUSE:
            self.start()

    def start(self, *more: str) -> None:
        """Start it, with more arguments."""
        if self.planned() > self.committed():
            self.replays += 1
        self.starts += 1
        with self._log.open("ab") as log:
            self._began = log.tell()
            self._process = subprocess.Popen(
                [*self._command, *more],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, start_new_session=True,
            )  # fmt: skip

    def ask_to_end(self) -> None:
        """SIGTERM, if it runs."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, patience: float) -> int | None:
        """The exit code; None: it runs on."""
        assert self._process is not None
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        self._note_end()
        return self.ends[-1].code

    def planned(self) -> int:
        """The newest batch that was planned; -1: none."""
        return _newest(self._checkpoint / "offsets")

    def committed(self) -> int:
        """The newest batch that was committed; -1: none."""
        return _newest(self._checkpoint / "commits")

    def _note_end(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        with self._log.open("rb") as log:
            log.seek(self._began)
            said = log.read().decode(errors="replace")
        last = (said.strip().splitlines() or [""])[-1]
        last = re.sub(r"\d+", "N", re.sub(r"/\S+", "…", last))
        self.ends.append(End(self._process.returncode, last[:160], "Traceback" in said))
        self._process = None
        self._ended_at = time.monotonic()


def _newest(folder: Path) -> int:
    try:
        return max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1)  # noqa: PTH208
    except FileNotFoundError:
        return -1
