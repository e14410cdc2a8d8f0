"""An experiment's table, and the picture of its latencies."""

import statistics
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from evidence.speed.migration.experiment import Done, Moved
from evidence.tables import make_table
from unskew.grouping.registry import get_colour

_BIN = 5_000  # ms: longer than a batch, in which latencies fall from its first tuple to its last


def bin_latencies(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Latencies by each bin of the stream.

    ``found`` (float64[n, 2]): Each tuple's time and latency (ms).
    Returns float64[b, 5]: Of each bin with tuples: when it began (ms), how many tuples came, and these tuples' p50, p99
    and maximum.
    """
    start = found[:, 0] // _BIN * _BIN
    rows = []
    for at in np.unique(start):
        here = found[start == at, 1]
        rows.append([at, len(here), *np.percentile(here, [50, 99]), here.max()])
    return np.array(rows).reshape(-1, 5)


_COLUMNS = ("ms", "tuples", "p50", "p99", "max")
_SETTLES = 2  # batches after a move that are still slower because of it


def table(done: Done) -> Table:
    """What moved, the time of the batches in which it did, and the latencies of the tuples that came then."""
    moving = {number for each in done.moved for number in range(each.out, each.into + 1)}
    usual = {number for number in done.batches if number >= done.steady + 2} - moving
    ordinary = [done.batches[number] for number in sorted(usual) if done.batches[number].loads.any()]
    median = statistics.median(batch.took for batch in ordinary)
    of_move = "states", "%", "MB", "releases, ms", "× median", "takes in, ms", "× median", "θ before", "θ after"
    shown = make_table(f"median batch {median:,.0f} ms", *of_move, "p50, ms", "p99, ms", "max, ms")
    for each in done.moved:
        out, into = done.batches[each.out], done.batches[each.into]
        moved = f"{each.states:,}", f"{100 * each.states / done.keys:.1f}", f"{each.size / 1e6:.1f}"
        took = f"{out.took:,.0f}", f"{out.took / median:.2f}", f"{into.took:,.0f}", f"{into.took / median:.2f}"
        thetas = f"{_theta(out.loads):.2f}", f"{_theta(into.loads):.2f}"
        shown.add_row(each.name, *moved, *took, *thetas, *_between(done, each))
    quiet = _usual(done)
    shown.add_row("no move", *[""] * 9, *(f"{value:,.0f}" for value in quiet))
    return shown


def draw(done: Done, folder: Path) -> Path:
    """Draw ``latency.png`` into a folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    axes = figure.subplots()
    bins = bin_latencies(done.latencies)
    first = bins[0, 0]
    middle = (bins[:, 0] - first + _BIN / 2) / 1000
    for column, style, shade in ((4, "^", "#e69f00"), (3, "s-", "#0072b2"), (2, "o-", "#000000")):  # Okabe and Ito's
        axes.plot(middle, bins[:, column] / 1000, style, color=shade, markersize=4, label=_COLUMNS[column])
    for each in done.moved:
        start, end = (done.batches[each.out].began - first) / 1000, (_end(done, each.into) - first) / 1000
        axes.axvspan(start, end, color=get_colour("SHUFFLE"), alpha=0.25, linewidth=0)
        axes.annotate(f"{each.states / done.keys:.0%}", (start, 1), xycoords=("data", "axes fraction"), va="bottom")
    axes.axvline(
        (done.stopped - first) / 1000, color=get_colour("KEY"), linestyle="--", label="stopped, and started again"
    )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time of the tuple (s); each point is 5 s of the stream")
    axes.set_ylabel("latency (s)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    path = folder / "latency.png"
    figure.savefig(path, dpi=100)
    return path


def _theta(loads: NDArray[np.int64]) -> float:
    return float(loads.max() / loads[: np.flatnonzero(loads)[-1] + 1].mean()) - 1


def _end(done: Done, number: int) -> float:
    return done.batches[number].began + done.batches[number].took


def _between(done: Done, each: Moved) -> list[str]:
    """p50, p99 and maximum of the tuples that came while states moved.

    That is from the batch that hands them out, or from when the query was stopped, to the end of that which takes them.
    """
    start = done.stopped if each.stops else done.batches[each.out].began
    came = done.latencies[:, 0]
    here = done.latencies[(came >= start) & (came < _end(done, each.into)), 1]
    return [f"{value:,.0f}" for value in (*np.percentile(here, [50, 99]), here.max())] if len(here) else [""] * 3


def _usual(done: Done) -> list[float]:
    """p50, p99 and maximum of all other tuples, from a while after Spark began."""
    came = done.latencies[:, 0]
    there = (came > done.batches[done.steady + 2].began) & (came < done.stopped)
    for each in done.moved:
        until = min(each.into + _SETTLES, max(done.batches))
        there &= (came < done.batches[each.out].began) | (came > _end(done, until))
    here = done.latencies[there, 1]
    return [*np.percentile(here, [50, 99]), here.max()] if len(here) else [float("nan")] * 3
