"""Running a long step's program with a bar or a line on stderr that says how far it is."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

_PATIENCE = 2.0  # seconds without a word: with a warm cache there is nothing to wait for


class Progress:
    """A bar on a terminal; elsewhere a line that is printed once. Neither is shown for what is over at once.

    Parameters
    ----------
    doing
        What is done: `fetching the JVM jars, once`.
    about
        How many units it will be, for the reader's orientation only.
    size
        What stands for the count where there is no bar: `about 55 MB`.
    """

    def __init__(self, doing: str, about: int, size: str) -> None:
        # Here: this module is read before anything is installed.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bars.add_task(doing, total=about)
        self._instead = f"{doing} ({size}) ..."
        self._start = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def advance(self) -> None:
        """One unit more is done."""
        self._bars.advance(self._task)
        self._show()

    def _show(self) -> None:
        """Show it unless it is too early."""
        if self._shown or time.monotonic() - self._start < _PATIENCE:
            return
        self._shown = True
        if self._bars.disable:
            self._console.print(self._instead)
        else:
            self._bars.start()


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
        log.open("a", buffering=1) as record,  # a line at a time, for who reads it meanwhile
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
