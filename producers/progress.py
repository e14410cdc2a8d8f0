"""How far a load is: a live line on a terminal, a plain line every few seconds elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_EVERY = 5.0  # s


class LoadProgress:
    """A context manager; ``update`` is what ``publish`` calls.

    Parameters
    ----------
    title : str
        What is loaded.
    records : int or None
        How many there will be; None: unknown, so there is no ETA.
    console : rich.console.Console
        Where to; if it is no terminal, plain lines are printed.

    """

    def __init__(self, title: str, records: int | None, console: Console) -> None:
        self._title = title
        self._records = records
        self._console = console
        self._begun = self._said = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.completed:,.0f} records, {task.fields[rate]:,.0f}/s, {task.fields[size]:,.1f} MB"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=records, rate=0.0, size=0.0)

    def __enter__(self) -> Self:
        self._begun = self._said = time.monotonic()
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, records: int, size: int) -> None:
        """So many records and bytes have been sent since the start."""
        now = time.monotonic()
        rate = records / max(now - self._begun, 1e-9)
        self._bar.update(self._task, completed=records, rate=rate, size=size / 1e6)
        if self._bar.disable and now - self._said >= PLAIN_EVERY:
            self._said = now
            of = f" of {self._records:,} ({records / self._records:.0%})" if self._records else ""
            left = f", {(self._records - records) / rate:,.0f} s left" if self._records else ""
            line = f"{self._title}: {records:,}{of} records, {rate:,.0f}/s, {size / 1e6:,.1f} MB{left}"
            self._console.print(line, soft_wrap=True)
