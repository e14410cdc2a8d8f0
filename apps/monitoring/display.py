"""What a running topology shows: progress while it runs, a table at its end. All on stderr but the table."""

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

from unskew.apps.monitoring.bars import worker_bars
from unskew.apps.monitoring.colours import colour
from unskew.errors import UsageError
from unskew.grouping import measures
from unskew.shell import unskew

if TYPE_CHECKING:
    from unskew.apps.monitoring.live import LiveView
    from unskew.apps.monitoring.summary import Summary
    from unskew.apps.run.run import Outcome
    from unskew.apps.topology.settings import Settings
    from unskew.apps.topology.sink import BatchReport

# A line at most so often where the output isn't a terminal.
_LINE_EVERY = 5.0  # s
_ABOVE_BARS = 5  # lines


class Display:
    """A line that is kept up to date on a terminal, above the workers' loads; elsewhere a line now and then.

    Parameters
    ----------
    settings : Settings
        The run.
    opening : str
        What happens first.
    view : LiveView, optional
        Shown below the line instead of the workers' loads.
    notice : callable, optional
        What else the line should tell now; empty: nothing.

    Raises
    ------
    UsageError
        There is a view, but no terminal.

    """

    def __init__(
        self,
        settings: "Settings",
        opening: str = "starting Spark",
        view: "LiveView | None" = None,
        notice: Callable[[], str] = str,
    ) -> None:
        if view is not None and not sys.stderr.isatty():
            raise UsageError("--live needs a terminal; without it, a line is printed now and then")
        self._settings = settings
        self._opening = opening
        self._view = view
        self._notice = notice
        self._live: Live | None = None
        self._spinner = Spinner("dots")
        self._loads = np.zeros(settings.workers, np.int64)
        self._shown = self._started = time.monotonic()
        self._total = 0
        self._stopping = False
        self._previous = self._started

    def __enter__(self) -> Self:
        """Start to show."""
        if sys.stderr.isatty():
            # Our own way to the terminal: while the JVM starts, what is written to stderr goes to its log.
            terminal = Console(file=os.fdopen(os.dup(sys.stderr.fileno()), "w"))
            self._live = Live(self._spinner, console=terminal, transient=True, redirect_stdout=False)
            self._live.start()
        self.say(f"{self._settings.name}: {self._opening}", always=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live.console.file.close()

    def target(self, tuples: int) -> None:
        """Be told how many messages are waiting at the start."""
        self._total = tuples
        self.say(f"{self._settings.name}: {tuples:,} messages waiting, first batch is being prepared", always=True)

    def stopping(self) -> None:
        """Say that the run ends after the batch under way."""
        self._stopping = True
        self.say(f"{self._settings.name}: stopping after this batch", always=True)

    def batch(self, report: "BatchReport") -> None:
        """Show a batch that is done."""
        now = time.monotonic()
        tuples = int(report.loads.sum())
        self._loads = measures.summed([self._loads, report.loads])
        rate = tuples / (now - self._previous)
        self._previous = now
        parts = [f"{self._settings.name}: batch {report.batch.number}", f"{report.totals.routed:,} tuples"]
        if self._settings.until_drained and self._total:
            parts[-1] += f" of {self._total:,}"
        if tuples:
            parts.append(f"{rate:,.0f}/s")
            parts.append(f"STD_DEV {measures.std_dev(self._loads):.2f}")
            parts.append(f"slowest worker {measures.straggling(report.busy):.1f} × mean")
            parts += map(str, report.rebalances[-1:])
        elif report.totals.tuples < report.totals.routed:
            parts.append("waiting for the last windows to close")
        else:
            parts.append("idle")
        parts += [f"{n:,} {what}" for what, n in _losses(report) if n]
        parts += filter(None, [self._notice()])
        if self._stopping:
            parts.append("stopping")
        self.say(" · ".join(parts))

    def say(self, text: str, *, always: bool = False) -> None:
        """Replace the line; where there is no terminal, print one if it's time or ``always``."""
        if self._live is not None:
            self._spinner.update(text=text)
            self._live.update(Group(self._spinner, *self._below(self._live.console.height)))
        elif always or time.monotonic() - self._shown >= _LINE_EVERY:
            self._shown = time.monotonic()
            print(f"[{self._shown - self._started:5.0f} s] {text}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Print a line that stays."""
        console = Console(stderr=True) if self._live is None else self._live.console
        console.print(text, highlight=False, soft_wrap=True)

    def _below(self, height: int) -> list[RenderableType]:
        if self._view is not None:
            return [self._view.picture(height - _ABOVE_BARS)]
        if self._loads.any() and self._settings.workers <= height - _ABOVE_BARS:
            return [worker_bars(self._loads, self._settings.grouping)]
        return []

    def summary(self, result: "Summary", outcome: "Outcome", topics: dict[str, str]) -> None:
        """Print the run's numbers and where its results are."""
        table = Table(title=f"{self._settings.name}", title_justify="left", show_header=False)
        table.add_column(style="dim")
        table.add_column(justify="right")
        for name, value in rows(result):
            table.add_row(name, value)
        console = Console()
        console.print(table)
        batches = f"{outcome.batches} batch" + "es" * (outcome.batches != 1)
        ending = f"drained after {batches}."
        if not outcome.drained:
            ending = f"stopped after {batches}; start it again, and it goes on from its checkpoint."
        console.print(f"[{colour(result.grouping)}]■[/] {result.grouping} {ending}", soft_wrap=True)
        console.print(f"Results: {unskew()} results {topics['aggregator']}", highlight=False, soft_wrap=True)
        console.print(f"Balance: {unskew()} results {topics['distribution']}", highlight=False, soft_wrap=True)
        if outcome.unheard:
            console.print(f"{outcome.unheard:,} reports of the run were not shown or sent; the first is in the log")
        if result.rejected:
            console.print(f"Rejected: {unskew()} results {topics['rejected']}", highlight=False, soft_wrap=True)


def _losses(report: "BatchReport") -> list[tuple[str, int]]:
    totals = report.totals
    return [("rejected", totals.rejected), ("late", totals.late), ("gone before they were read", totals.skipped)]


def rows(result: "Summary") -> list[tuple[str, str]]:
    """A summary as (name, text) rows, the same in every table."""
    return [
        ("tuples in closed windows", f"{result.tuples:,}"),
        ("rejected", f"{result.rejected:,}"),
        ("late", f"{result.late:,}"),
        *([("gone before they were read", f"{result.skipped:,}")] if result.skipped else []),
        ("STD_DEV", f"{result.std_dev:.2f}"),
        ("STD_DEV, last window", f"{result.last_std_dev:.2f}"),
        ("DIST_COST", f"{result.dist_cost:.2f}"),
        ("imbalance / tuples", f"{result.imbalance_fraction:.4f}"),
        ("slowest / mean worker time", f"{result.straggling:.2f}"),
        *_moves(result),
        ("tuples/s", f"{result.tuples_per_second:,.0f}"),
        ("first batch after", _after(result.first_batch_seconds)),
        ("first window out after", _after(result.first_result_seconds)),
    ]


def _moves(result: "Summary") -> list[tuple[str, str]]:
    if not result.rebalances:
        return []
    return [
        ("rebalances", f"{result.rebalances:,}"),
        ("keys moved", f"{result.moved_keys:,}"),
        ("planning, each", f"{1000 * result.planning_seconds / result.rebalances:.1f} ms"),
    ]


def _after(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds else "–"  # 0: there was none
