"""PLANNED's replicas at several caps, beside BOUNDED_LOAD at equal ones, as in docs/bounded-load/planned.md.

    python -m benchmarks.caps [--streams NAME ...] [--workers W ...] [--sources S ...] [--caps C ...] [--tuples N]
                              [--csv FILE] [--read CSV]

PLANNED gets ``slack`` = C − 1, and batches of 100,000 tuples. BOUNDED_LOAD has one source. It gets the greatest
``slack`` of some values with which its *lasting* is at most C. If there is none, it has no row.

The columns: *replication*, workers a key over the whole stream. *Added*, replicas besides each key's first. *Lasting*,
the mean over the batches of the second half of a batch's greatest load over its mean load. *Worst*, the greatest of all
batches. *Fewest*, the replicas a key that any scheme needs, one that knows the future too, if no batch has a load above
C times the mean: Σ max(1, ⌈n / most⌉) over the keys, divided by their number, where n is the key's greatest number of
tuples in a batch, and *most* is what a worker may get.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.balance import STREAMS, WINDOW, measure, routed
from unskew.grouping import encode
from unskew.grouping.keys import Keys

#: Of BOUNDED_LOAD, the greatest first.
SLACKS = (0.1, 0.09, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0.005, 0.002)


class Found(NamedTuple):
    """The figures of one grouping on one stream, at one cap."""

    grouping: str
    stream: str
    cap: float
    workers: int
    sources: int
    slack: float
    keys: int
    fewest: float
    replication: float
    added: int
    lasting: float
    worst: float


def fewest(codes: NDArray[np.int32], workers: int, cap: float) -> float:
    """The replicas a key that any scheme needs if no batch has a load above ``cap`` times the mean."""
    starts = range(0, len(codes) - WINDOW + 1, WINDOW)
    greatest = np.max([np.bincount(codes[at : at + WINDOW], minlength=codes.max() + 1) for at in starts], axis=0)
    most = max(-(-WINDOW // workers), int(cap * WINDOW / workers + 1e-6))
    return float(np.maximum(1, -(-greatest // most)).mean())


def figures(name: str, stream: str, keys: Keys, cap: float, workers: int, sources: int, slack: float) -> Found:
    """Route the whole stream."""
    chosen = routed(f"{name}:slack={slack}", keys, workers, sources, 0)
    lasting, replication = measure(keys, chosen, workers)
    starts = range(0, len(chosen) - WINDOW + 1, WINDOW)
    worst = max(np.bincount(chosen[at : at + WINDOW]).max() * workers / WINDOW for at in starts)
    distinct = len(keys.hashes)
    least = fewest(keys.codes, workers, cap)
    of_keys = distinct, least, replication, round((replication - 1) * distinct)
    return Found(name, stream, cap, workers, sources, slack, *of_keys, lasting, float(worst))


def compare(arguments: argparse.Namespace) -> Iterator[Found]:
    """The figures of all combinations, one after the other."""
    for stream in arguments.streams:
        keys = encode(STREAMS[stream](arguments.tuples, 0))
        for workers in arguments.workers:
            for cap in arguments.caps:
                for sources in arguments.sources:
                    yield figures("PLANNED", stream, keys, cap, workers, sources, round(cap - 1, 6))
            if 1 in arguments.sources:
                yield from bounded(stream, keys, workers, arguments.caps)


def bounded(stream: str, keys: Keys, workers: int, caps: list[float]) -> Iterator[Found]:
    """BOUNDED_LOAD at each cap that it can keep, by the greatest slack that does."""
    left = sorted(caps, reverse=True)
    for slack in SLACKS:
        if not left:
            return
        found = figures("BOUNDED_LOAD", stream, keys, left[0], workers, 1, slack)
        while left and found.lasting <= left[0]:
            yield found._replace(cap=left[0], fewest=fewest(keys.codes, workers, left[0]))
            left = left[1:]


def show(found: list[Found]) -> None:
    """Print a Markdown table: of each stream, W and cap, replication and worst of each grouping."""
    columns = list(dict.fromkeys((one.grouping, one.sources) for one in found))
    print("| stream | W | cap | fewest | " + " | ".join(f"{name}, S = {sources}" for name, sources in columns) + " |")
    print("| --- " + "| ---: " * (len(columns) + 3) + "|")
    for stream, workers, cap in dict.fromkeys((one.stream, one.workers, one.cap) for one in found):
        row = {(f.grouping, f.sources): f for f in found if (f.stream, f.workers, f.cap) == (stream, workers, cap)}
        least = next(iter(row.values())).fewest
        cells = [f"{row[at].replication:.2f}, {row[at].worst:.3f}" if at in row else "–" for at in columns]
        print(f"| {stream} | {workers:,} | {cap:.2f} | {least:.2f} | {' | '.join(cells)} |")


def read(path: Path) -> Iterator[Found]:
    """The figures in a file that ``--csv`` wrote."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            yield Found(
                row["grouping"],
                row["stream"],
                float(row["cap"]),
                int(row["workers"]),
                int(row["sources"]),
                float(row["slack"]),
                int(row["keys"]),
                float(row["fewest"]),
                float(row["replication"]),
                int(row["added"]),
                float(row["lasting"]),
                float(row["worst"]),
            )


def write(found: list[Found], path: Path) -> None:
    """Write a row for each combination."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Found._fields)
        for one in found:
            least, replication = f"{one.fewest:.4f}", f"{one.replication:.4f}"
            rows.writerow([*one[:7], least, replication, one.added, f"{one.lasting:.4f}", f"{one.worst:.4f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", nargs="+", choices=list(STREAMS), default=list(STREAMS), metavar="NAME")
    parser.add_argument("--workers", nargs="+", type=int, default=[10, 50, 100, 1000])
    parser.add_argument("--sources", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--caps", nargs="+", type=float, default=[1.02, 1.05, 1.10])
    parser.add_argument("--tuples", type=int, default=2_000_000)
    parser.add_argument("--csv", type=Path, help="write what was found into this file")
    parser.add_argument("--read", type=Path, metavar="CSV", help="show what was found earlier")
    arguments = parser.parse_args()
    found = list(read(arguments.read) if arguments.read else compare(arguments))
    found.sort(key=lambda one: (one.stream, one.workers, one.cap, one.grouping != "PLANNED", one.sources))
    show(found)
    if arguments.csv:
        write(found, arguments.csv)


if __name__ == "__main__":
    main()
