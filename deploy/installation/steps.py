"""Running a long step's program with one line on stderr that says how far it is."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

_PATIENCE = 2.0  # seconds without a word: with a warm cache there is nothing to wait for


class Progress:
    """A line that counts up in place on a terminal; elsewhere one that is printed once.

    Parameters
    ----------
    doing
        What is done: `fetching the JVM jars, once`.
    about
        How many units it will be, for the reader's orientation only.
    size
        What stands for the count where the line can't be rewritten: `about 55 MB`.
    """

    def __init__(self, doing: str, about: int, size: str) -> None:
        self._doing = doing
        self._about = about
        self._size = size
        self._done = 0
        self._start = time.monotonic()
        self._shown = False
        self._in_place = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._in_place:
            print(file=sys.stderr)

    def advance(self) -> None:
        """One unit more is done."""
        self._done += 1
        self.show()

    def show(self) -> None:
        """Show the line unless it is too early."""
        if time.monotonic() - self._start < _PATIENCE or (self._shown and not self._in_place):
            return
        if self._in_place:
            print(f"\r{self._doing}: {self._done} of about {self._about}", end="", file=sys.stderr)
        else:
            print(f"{self._doing} ({self._size}) ...", file=sys.stderr)
        sys.stderr.flush()
        self._shown = True


def followed(
    command: Sequence[str | Path],
    log: Path,
    progress: Progress,
    counts: Callable[[str], bool],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a program and advance the line with its output.

    Parameters
    ----------
    command
        Program and arguments.
    log
        File that its output is appended to.
    progress
        The line.
    counts
        Whether an output line means one unit more.
    directory, environment
        Where it runs, and with what environment (by default ours).

    Returns
    -------
    int
        Its exit code.
    """
    with (
        log.open("a") as record,
        subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            cwd=directory,
            env=environment,
        ) as program,
    ):
        try:
            for line in program.stdout or ():
                record.write(line)
                if counts(line):
                    progress.advance()
        except BaseException:  # an interrupted user shouldn't wait for the rest
            program.kill()
            raise
    return program.returncode
