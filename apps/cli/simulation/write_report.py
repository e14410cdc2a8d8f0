"""What `unskew simulate --write` prints: the files and tasks of a table that is partitioned by the stream's key."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.apps.driver.plans.planned_frame import KeyLoads, divide_keys
from unskew.grouping.keys import encode_keys

_SLACK = 0.05


class WriteFigures(NamedTuple):
    """The files of a table, and the rows of the fullest task over the mean."""

    files: int
    fullest: float


def compute_writes(hashes: NDArray[np.uint64], rows: NDArray[np.int64], writers: int) -> dict[str, WriteFigures]:
    """Way to write → its figures. ``hashes`` and ``rows`` are those of the partitions, each of which has rows."""
    order = np.argsort(hashes)
    loads = np.bincount((hashes % np.uint64(writers)).astype(np.int64), rows, writers)
    # A task has a file of each partition of which it gets a row.
    expected = (writers * -np.expm1(rows * np.log1p(-1 / writers))).sum() if writers > 1 else len(rows)
    ones = np.ones(len(rows), np.int64)
    _, division = divide_keys(KeyLoads(hashes[order], rows[order].astype(np.float64), ones), writers, _SLACK)
    return {
        "hash": WriteFigures(len(rows), float(loads.max() / loads.mean())),
        "none": WriteFigures(round(expected), 1.0),
        "balanced_write": WriteFigures(len(division.key), division.find_fullest()),
    }


def print_writes(given: StreamSpec, workers: Sequence[int], *, as_json: bool) -> None:
    """Print what ways to write give, for each number of tasks. Raises ``UsageError`` as ``StreamSpec.read_some``."""
    console, keys = Console(), encode_keys(given.read_some(recorded=False).keys)
    rows = np.bincount(keys.codes, minlength=len(keys.hashes))
    for count in workers:
        figures = compute_writes(keys.hashes[rows > 0], rows[rows > 0], count)
        if as_json:
            ways = [{"way": way} | found._asdict() for way, found in figures.items()]
            print(json.dumps({"rows": len(keys.codes), "partitions": len(keys.hashes), "workers": count, "ways": ways}))
            continue
        shown = Table(title=f"{len(keys.codes):,} rows, {int((rows > 0).sum()):,} partitions, W = {count}")
        shown.add_column("way", no_wrap=True)
        for column in ("files", "fullest ÷ mean"):
            shown.add_column(column, justify="right", no_wrap=True)
        for way, found in figures.items():
            shown.add_row(way, f"{found.files:,}", f"{found.fullest:.2f}")
        console.print(shown)
    given.rejects.show(Console(stderr=True) if as_json else console)
