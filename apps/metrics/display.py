"""What a run shows in a terminal: its progress, in full with `--live`, and a table at its end."""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from unskew.apps.metrics.partition_arrivals import ArrivalMeter, Arrivals
from unskew.apps.metrics.query_progress import compute_lags, get_rate
from unskew.errors import UsageError
from unskew.grouping import measures
from unskew.grouping.registry import get_colour
from unskew.shell import escape_controls, find_command_name
from unskew.shown_keys import show_key

# `unskew results` draws bars by this module, and needs no pyspark.
if TYPE_CHECKING:
    from unskew.apps.aggregator.observer import HotKey
    from unskew.apps.driver.batch_committer import BatchReport
    from unskew.apps.driver.job_summary import JobSummary
    from unskew.apps.driver.streaming_job import JobOutcome
    from unskew.apps.settings import Settings
    from unskew.grouping.feedback_loop import Rebalance

_MOST_BARS = 64  # more don't fit a screen
_BLOCKS = "▁▂▃▄▅▆▇█"
_HISTORY = 40  # batches
_BESIDE_WORKERS = 3  # lines: title, heading, caption
_ABOVE_KEYS = 9  # lines
_ABOVE_BARS = 5  # lines
#: What the words of a summary mean that aren't plain.
LEGEND = (
    "STD_DEV: of the workers' shares of the tuples (%). DIST_COST: workers a key in a window. imbalance: highest load "
    "− mean load. worker time: 1 is even; above it the slowest worker (straggler) holds up each batch."
)
# Where the output isn't a terminal, a line is printed at most so often.
_LINE_EVERY = 5.0  # s
_WAITING_EVERY = 15.0  # s


def draw_worker_bars(
    loads: ArrayLike, grouping: str, notes: Sequence[tuple[str, Sequence[str]]] = (), most: int = _MOST_BARS
) -> Table:
    """A table with a bar for each worker, at most so many: its share of the load, against the largest share.

    ``notes`` are further columns: heading and a text for each worker.
    """
    shares = measures.load_shares(loads)
    largest = max(float(shares.max()), 1e-9)
    table = Table(box=None, pad_edge=False, title=f"load of each worker (ideal {100 / len(shares):.1f} %)")
    table.title_justify = "left"
    table.add_column("worker", justify="right")
    table.add_column("", min_width=10, max_width=30, ratio=1)
    table.add_column("share", justify="right", no_wrap=True)
    for heading, _ in notes:
        table.add_column(heading, justify="right", no_wrap=True)
    for worker, share in enumerate(shares[:most].tolist()):
        bar = Bar(largest, 0, share, color=get_colour(grouping), bgcolor="default")
        table.add_row(str(worker), bar, f"{share:.1f} %", *(texts[worker] for _, texts in notes))
    if len(shares) > most:
        table.caption = f"and {len(shares) - most} more workers"
    return table


class LiveView:
    """A run's workers, balance, rate, lag and hot keys as they are now.

    They come from the batches' reports and Spark's progress. The bars show the latest batch with tuples, not the sum
    since the start, so they show what a grouping does *now*.
    """

    def __init__(self, settings: "Settings") -> None:
        self._settings = settings
        self._loads = np.zeros(settings.workers, np.int64)
        self._busy = np.zeros(settings.workers)
        self._std_dev: deque[float] = deque(maxlen=_HISTORY)
        self._straggling: deque[float] = deque(maxlen=_HISTORY)
        self._rate: deque[float] = deque(maxlen=_HISTORY)
        self._lag: deque[float] = deque(maxlen=_HISTORY)
        self._meter = ArrivalMeter()
        self._arrivals: Arrivals | None = None
        self._hottest: Sequence[HotKey] = ()
        self._keys_of = "the last window"
        self._rebalances = 0
        self._newest: Rebalance | None = None

    def batch(self, report: "BatchReport") -> None:
        if report.loads.any():
            self._loads, self._busy = report.loads, report.busy
            self._std_dev.append(measures.std_dev(report.loads))
            self._straggling.append(measures.straggler_ratio(report.busy))
        for rebalance in report.rebalances:
            self._rebalances += 1
            self._newest = rebalance
        if (window := report.open_window) is not None:
            self._hottest, self._keys_of = window.hottest, "the open window"
        elif report.windows:
            self._hottest, self._keys_of = report.windows[-1][0].hottest, "the last window"

    def progress(self, progress: Mapping[str, Any]) -> None:
        self._rate.append(get_rate(progress, "processedRowsPerSecond"))
        if waiting := compute_lags(progress):
            self._lag.append(sum(waiting.values()))
        self._arrivals = self._meter.add(progress) or self._arrivals

    def picture(self, height: int) -> RenderableType:
        """The view, for a terminal with ``height`` lines left."""
        if not self._loads.any():
            return Text("nothing counted yet", style="dim")
        side = Table.grid(expand=True, padding=(0, 2))
        side.add_column(ratio=3)
        side.add_column(ratio=2, min_width=46)
        busy = [f"{seconds:.2f} s" for seconds in self._busy]
        shown = max(1, min(len(busy), height - _BESIDE_WORKERS))
        bars = draw_worker_bars(self._loads, self._settings.grouping, [("busy", busy)], most=shown)
        moved = self._describe_rebalance()
        keys = self._keys(max(1, height - _ABOVE_KEYS - len(moved)))
        side.add_row(bars, Group(self._lines(), *moved, "", keys))
        return side

    def _describe_rebalance(self) -> list[RenderableType]:
        """What the newest rebalance did."""
        if self._newest is None:
            return []
        number = f"{self._rebalances} rebalance{'s' * (self._rebalances != 1)}"
        text = f"{number}, in batch {self._newest.batch} {self._newest}"
        return [Text(text, style=get_colour(self._settings.grouping), no_wrap=False)]

    def _lines(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, history, form in (
            ("STD_DEV (%)", self._std_dev, "{:.2f}"),
            ("slowest / mean worker", self._straggling, "{:.2f}"),
            ("messages/s", self._rate, "{:,.0f}"),
            ("lag (messages)", self._lag, "{:,.0f}"),
        ):
            if history:
                line = Text(draw_sparkline(history), style=get_colour(self._settings.grouping))
                table.add_row(name, form.format(history[-1]), line)
        if self._arrivals is not None and len(self._arrivals.rates) > 1:
            hot = f"hot: {', '.join(self._arrivals.hot)}" if self._arrivals.hot else ""
            table.add_row("busiest / mean partition", f"{self._arrivals.skew:.2f}", hot)
        table.columns[1].justify = "right"
        return table

    def _keys(self, most: int) -> Table:
        table = Table(box=None, pad_edge=False, title=f"hottest keys of {self._keys_of}", title_justify="left")
        table.add_column("key", no_wrap=True, max_width=24)
        table.add_column("tuples", justify="right")
        table.add_column("workers", justify="right")
        for hot in self._hottest[:most]:
            table.add_row(Text(escape_controls(show_key(hot.key))), f"{hot.tuples:,}", str(hot.workers))
        return table


def draw_sparkline(values: Sequence[float] | deque[float]) -> str:
    """Values as block characters, on a scale from 0 to the largest value.

    >>> draw_sparkline([0, 1, 2, 4])
    '▁▃▅█'
    """
    largest = max(values, default=0) or 1
    return "".join(_BLOCKS[round((len(_BLOCKS) - 1) * max(0, value) / largest)] for value in values)


class Display:
    """A run's progress on stderr, and its summary on stdout. It is a context manager.

    On a terminal, the progress is one line that is kept up to date, above the workers' loads. Elsewhere, lines are
    printed from time to time. They begin with the ``opening``, and end with what ``notice`` returns. A ``view`` is
    shown below the line instead of the workers' loads.

    Raises ``UsageError`` if there is a view, but no terminal.
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
        self._begun = threading.Event()
        self._previous = self._started

    def __enter__(self) -> Self:
        """Show the first line."""
        if sys.stderr.isatty():
            # A file of our own for the terminal: while the JVM starts, what is written to stderr goes to Spark's log.
            terminal = Console(file=os.fdopen(os.dup(sys.stderr.fileno()), "w"))
            self._live = Live(self._spinner, console=terminal, transient=True, redirect_stdout=False)
            self._live.start()
        self.say(f"{self._settings.name}: {self._opening}", always=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        self._begun.set()
        if self._live is not None:
            self._live.stop()
            self._live.console.file.close()

    def target(self, tuples: int) -> None:
        """Set the number of messages that wait at the start, and show it."""
        self._total = tuples
        self._say_waiting()
        threading.Thread(target=self._wait_for_batch, name="first-batch", daemon=True).start()

    def _wait_for_batch(self) -> None:
        """Say again and again that the first batch is being prepared, until it is there: a minute on a busy machine."""
        while not self._begun.wait(1.0 if self._live is not None else _WAITING_EVERY):
            self._say_waiting()

    def _say_waiting(self) -> None:
        waited = f" ({time.monotonic() - self._started:.0f} s)" if self._live is not None else ""
        text = f"{self._total:,} messages waiting, first batch is being prepared{waited}"
        self.say(f"{self._settings.name}: {text}", always=True)

    def show_stop(self) -> None:
        """Show that the run ends after the current batch."""
        self._begun.set()
        self._stopping = True
        self.say(f"{self._settings.name}: stopping after this batch", always=True)

    def batch(self, report: "BatchReport") -> None:
        self._begun.set()
        now = time.monotonic()
        tuples = int(report.loads.sum())
        self._loads = measures.sum_loads([self._loads, report.loads])
        rate = tuples / (now - self._previous)
        self._previous = now
        parts = [f"{self._settings.name}: batch {report.batch.number}", f"{report.totals.routed:,} tuples"]
        if self._settings.until_drained and self._total:
            parts[-1] += f" of {self._total:,}"
        if tuples:
            parts.append(f"{rate:,.0f}/s")
            parts.append(f"STD_DEV {measures.std_dev(self._loads):.2f}")
            parts.append(f"slowest worker {measures.straggler_ratio(report.busy):.1f} × mean")
            parts += map(str, report.rebalances[-1:])
        elif report.totals.tuples < report.totals.routed:
            parts.append("waiting for the last windows to close")
        else:
            parts.append("idle")
        totals = report.totals
        losses = {"rejected": totals.rejected, "late": totals.late, "gone before they were read": totals.skipped}
        parts += [f"{n:,} {what}" for what, n in losses.items() if n]
        parts += filter(None, [self._notice()])
        if self._stopping:
            parts.append("stopping")
        self.say(" · ".join(parts))

    def say(self, text: str, *, always: bool = False) -> None:
        """Replace the line. Without a terminal, print it if the last print is some time ago, or if ``always``."""
        if self._live is not None:
            self._spinner.update(text=text)
            self._live.update(Group(self._spinner, *self._below(self._live.console.height)))
        elif always or time.monotonic() - self._shown >= _LINE_EVERY:
            self._shown = time.monotonic()
            print(f"[{self._shown - self._started:5.0f} s] {text}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Print a line that isn't replaced."""
        console = Console(stderr=True) if self._live is None else self._live.console
        console.print(text, highlight=False, soft_wrap=True)

    def _below(self, height: int) -> list[RenderableType]:
        if self._view is not None:
            return [self._view.picture(height - _ABOVE_BARS)]
        if self._loads.any() and self._settings.workers <= height - _ABOVE_BARS:
            return [draw_worker_bars(self._loads, self._settings.grouping)]
        return []

    def summary(self, result: "JobSummary", outcome: "JobOutcome", topics: dict[str, str]) -> None:
        """Print the run's figures and how to read its results."""
        table = Table(title=f"{self._settings.name}", title_justify="left", show_header=False)
        table.add_column(style="dim")
        table.add_column(justify="right")
        for name, value in summarise_rows(result):
            table.add_row(name, value)
        console = Console()
        console.print(table)
        console.print(LEGEND, style="dim", highlight=False)
        batches = f"{outcome.batches} batch" + "es" * (outcome.batches != 1)
        ending = f"drained after {batches}."
        if not outcome.drained:
            ending = f"stopped after {batches}; start it again, and it goes on from its checkpoint."
        console.print(f"[{get_colour(result.grouping)}]■[/] {result.grouping} {ending}", soft_wrap=True)
        console.print(f"Results: {find_command_name()} results {topics['aggregator']}", highlight=False, soft_wrap=True)
        console.print(
            f"Balance: {find_command_name()} results {topics['distribution']}", highlight=False, soft_wrap=True
        )
        if outcome.unheard:
            console.print(f"{outcome.unheard:,} reports of the run were not shown or sent; the first is in the log")
        if result.rejected:
            console.print(
                f"Rejected: {find_command_name()} results {topics['rejected']}", highlight=False, soft_wrap=True
            )


def summarise_rows(result: "JobSummary") -> list[tuple[str, str]]:
    """A summary as rows of (name, text)."""
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
        *_summarise_moves(result),
        ("tuples/s after the first batch", f"{result.tuples_per_second:,.0f}"),
        ("first batch after", _format_seconds(result.first_batch_seconds)),
        ("first window out after", _format_seconds(result.first_result_seconds)),
    ]


def _summarise_moves(result: "JobSummary") -> list[tuple[str, str]]:
    if not result.rebalances:
        return []
    return [
        ("rebalances", f"{result.rebalances:,}"),
        ("keys moved", f"{result.moved_keys:,}"),
        ("planning, each", f"{1000 * result.planning_seconds / result.rebalances:.1f} ms"),
    ]


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds else "–"  # 0: the run had none
