"""Slow steps of an installation. One process at a time takes them, and a bar on stderr shows its progress.

`install.py` imports this module before any package is installed. So packages that are not in the standard library are
imported where they are used.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

_PATIENCE = 2.0  # seconds before a step is shown: with a warm cache it is over by then


def exclusive_lock(lock: Path) -> AbstractContextManager[object]:
    """Wait until no other process has the file's lock, and hold it inside the block. If we die, the kernel frees it."""
    from filelock import FileLock

    return FileLock(lock)


@contextmanager
def temporary_workspace(directory: Path) -> Iterator[Path]:
    """A temporary directory in one that the caller has locked. Removes those that killed processes left there."""
    for left in directory.glob("making-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=directory) as temporary:
        yield Path(temporary)


class ProgressBar:
    """A bar on a terminal. Elsewhere it is a line that is printed once. Neither is shown for a very short step.

    Parameters
    ----------
    doing
        The step, such as `fetching the JVM jars, once`.
    about
        How many units it takes, roughly. None if that isn't known.
    size
        What the line says instead of a number of units: `about 55 MB`.
    """

    def __init__(self, doing: str, about: int | None, size: str) -> None:
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
        """Show one more unit as done."""
        self._bars.advance(self._task)
        self._show()

    def _show(self) -> None:
        """Show the bar or the line, unless it is too early."""
        if self._shown or time.monotonic() - self._start < _PATIENCE:
            return
        self._shown = True
        if self._bars.disable:
            self._console.print(self._instead)
        else:
            self._bars.start()


def run_with_progress(
    command: Sequence[str | Path],
    log: Path,
    progress: ProgressBar,
    counts: Callable[[str], bool],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a program, and advance the progress with its output.

    Parameters
    ----------
    command
        Program and arguments.
    log
        The file to which its output is appended.
    progress
        The progress of the step.
    counts
        Returns whether an output line means one more unit.
    directory, environment
        The program's directory, and its environment, which is ours by default.

    Returns
    -------
    int
        The program's exit code.
    """
    with (
        log.open("a", buffering=1) as record,  # a line at a time, as somebody may read it meanwhile
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
