"""Executes slow steps of an installation in one process at a time, with a progress bar on stderr.

`install.py` imports this module before any package is installed. So packages outside the standard library are imported
where they are used.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self

_PATIENCE = 2.0  # seconds before a step is shown: with a warm cache it has ended by then


def exclusive_lock(lock: Path) -> AbstractContextManager[object]:
    """Hold the file's lock inside the block, after waiting for it. If we die, the kernel releases it."""
    from filelock import FileLock

    return FileLock(lock)


@contextmanager
def temporary_workspace(directory: Path) -> Iterator[Path]:
    """A temporary directory in one that the caller has locked. Removes those left by killed processes."""
    for left in directory.glob("making-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=directory) as temporary:
        yield Path(temporary)


class ProgressBar:
    """A bar on a terminal, or elsewhere a line printed once. Neither is shown for a very short step.

    The bar has the approximate number of units, if it is known. Instead the line has a size: `about 55 MB`.
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
    """Run a program, append its output to the log, and return its exit code.

    `counts` is whether an output line means one more unit of the progress. By default the program has our directory
    and environment.
    """
    with (
        log.open("a", buffering=1) as record,  # by line, for readers meanwhile
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
