"""How far a load is: a live line on a terminal, a plain line every few seconds elsewhere."""

import time
from collections.abc import Callable
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
    done : callable, optional
        The share that is done, 0 to 1, if something measures it better than the records do; else None.

    """

    def __init__(
        self, title: str, records: int | None, console: Console, done: Callable[[], float | None] | None = None
    ) -> None:
        self._title = title
        self._records = records
        self._done = done or (lambda: None)
        self._sent = 0
        self._console = console
        self._begun = self._said = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[sent]:,} records, {task.fields[rate]:,.0f}/s, {task.fields[size]:,.1f} MB"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=None, sent=0, rate=0.0, size=0.0)

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
        self._sent = records
        rate, share = records / max(now - self._begun, 1e-9), self._done()
        if share is None and self._records:
            share = records / self._records
        total = None if share is None else 1.0
        self._bar.update(self._task, total=total, completed=share, sent=records, rate=rate, size=size / 1e6)
        if self._bar.disable and now - self._said >= PLAIN_EVERY:
            self._said = now
            line = f"{self._title}: {records:,}{f' of {self._records:,}' if self._records else ''} records"
            if share:
                line += f" ({share:.0%}), {(now - self._begun) * (1 - share) / share:,.0f} s left"
            self.say(f"{line}, {rate:,.0f}/s, {size / 1e6:,.1f} MB")

    def say(self, text: str) -> None:
        """Print a line, above the live one if there is one."""
        self._console.print(text, soft_wrap=True, markup=False)
