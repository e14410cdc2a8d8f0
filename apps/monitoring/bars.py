"""Workers' loads as bars in a terminal, in the grouping's colour."""

from collections.abc import Sequence

from numpy.typing import ArrayLike
from rich.bar import Bar
from rich.table import Table

from unskew.apps.monitoring.colours import colour
from unskew.grouping import measures

_MOST = 64  # bars; more don't fit a screen


def worker_bars(
    loads: ArrayLike, grouping: str, notes: Sequence[tuple[str, Sequence[str]]] = (), most: int = _MOST
) -> Table:
    """One bar a worker: its share of the load, against the largest share.

    Parameters
    ----------
    loads : [W]
        Tuples of each worker.
    grouping : str
        The groupingType.
    notes : sequence of (heading, [W] texts)
        Further columns.
    most : int
        So many bars at most.

    """
    shares = measures.shares(loads)
    largest = max(float(shares.max()), 1e-9)
    table = Table(box=None, pad_edge=False, title=f"load of each worker (ideal {100 / len(shares):.1f} %)")
    table.title_justify = "left"
    table.add_column("worker", justify="right")
    table.add_column("", min_width=10, max_width=30, ratio=1)
    table.add_column("share", justify="right", no_wrap=True)
    for heading, _ in notes:
        table.add_column(heading, justify="right", no_wrap=True)
    for worker, share in enumerate(shares[:most].tolist()):
        bar = Bar(largest, 0, share, color=colour(grouping), bgcolor="default")
        table.add_row(str(worker), bar, f"{share:.1f} %", *(texts[worker] for _, texts in notes))
    if len(shares) > most:
        table.caption = f"and {len(shares) - most} more workers"
    return table
