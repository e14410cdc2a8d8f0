"""PLANNED's replicas at several caps, beside BOUNDED_LOAD at equal ones, as in docs/bounded-load/planned.md.

    python -m evidence.balance.caps [--streams NAME ...] [--workers W ...] [--sources S ...] [--caps C ...] [--tuples N]
                              [--csv FILE] [--read CSV]

PLANNED gets ``slack`` = C − 1, and batches of 100,000 tuples. BOUNDED_LOAD has one source. It gets the greatest
``slack`` of some values with which its *lasting* is at most C. If there is none, it has no row.

The columns: *replication*, workers a key over the whole stream. *Added*, replicas besides each key's first. *Lasting*,
the mean over the batches of the second half of a batch's greatest load over its mean load. *Worst*, the greatest of all
batches. *Reachable* and *reachable_worst*, what these two would be if each batch were divided as evenly as possible
between the workers that its keys have been on so far: a linear program's optimum (``evidence.balance.reachable``).
*Fewest*, the replicas a key that any scheme needs, one that knows the future too, if no batch has a load above C times
the mean: Σ max(1, ⌈n / most⌉) over the keys, divided by their number, where n is the key's greatest number of tuples in
a batch, and *most* is what a worker may get.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evidence.balance.balance import ORDERED, STREAMS, WINDOW, measure, routed
from evidence.balance.reachable import Places
from evidence.balance.tables import open_table
from unskew.grouping import encode_keys
from unskew.grouping.keys import Keys

ALL = {**STREAMS, **ORDERED}
#: Of BOUNDED_LOAD, the greatest first.
SLACKS = (0.1, 0.09, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0.005, 0.002)


class Case(NamedTuple):
    """What the groupings are compared at."""

    stream: str
    cap: float
    workers: int
    fewest: float


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
    reachable: float
    reachable_worst: float


def fewest(codes: NDArray[np.int32], workers: int, cap: float) -> float:
    """The replicas a key that any scheme needs if no batch has a load above ``cap`` times the mean."""
    starts = range(0, len(codes) - WINDOW + 1, WINDOW)
    greatest = np.max([np.bincount(codes[at : at + WINDOW], minlength=codes.max() + 1) for at in starts], axis=0)
    return float(np.maximum(1, -(-greatest // most(workers, cap))).mean())


def most(workers: int, cap: float) -> int:
    """What a worker may get of a batch."""
    return max(-(-WINDOW // workers), int(cap * WINDOW / workers + 1e-6))


def figures(keys: Keys, chosen: NDArray[np.int32], case: Case, name: str, sources: int, slack: float) -> Found:
    """The figures of the whole stream, whose tuples went to these workers."""
    workers, distinct = case.workers, len(keys.hashes)
    lasting, replication = measure(keys, chosen, workers)
    batches = [slice(start, start + WINDOW) for start in range(0, len(chosen) - WINDOW + 1, WINDOW)]
    worst = max(np.bincount(chosen[batch]).max() for batch in batches) * workers / WINDOW
    places = Places(distinct, workers)
    reachable = [places.reachable(keys.codes[batch], chosen[batch]) for batch in batches]
    of_keys = distinct, case.fewest, replication, round((replication - 1) * distinct)
    loads = lasting, float(worst), float(np.mean(reachable[len(chosen) // WINDOW // 2 :])), max(reachable)
    return Found(name, case.stream, case.cap, workers, sources, slack, *of_keys, *loads)


def compare(arguments: argparse.Namespace) -> Iterator[Found]:
    """The figures of all combinations, one after the other."""
    for stream in arguments.streams:
        keys = encode_keys(ALL[stream](arguments.tuples, 0))
        for workers in arguments.workers:
            cases = [Case(stream, cap, workers, fewest(keys.codes, workers, cap)) for cap in arguments.caps]
            for case in cases:
                slack = round(case.cap - 1, 6)
                for sources in arguments.sources:
                    chosen = routed(f"PLANNED:slack={slack}", keys, workers, sources, 0)
                    yield figures(keys, chosen, case, "PLANNED", sources, slack)
            if 1 in arguments.sources:
                yield from bounded(keys, cases)


def bounded(keys: Keys, cases: list[Case]) -> Iterator[Found]:
    """BOUNDED_LOAD at each cap that it can keep, by the greatest slack that does."""
    left = sorted(cases, key=lambda case: -case.cap)
    for slack in SLACKS:
        if not left:
            return
        chosen = routed(f"BOUNDED_LOAD:slack={slack}", keys, left[0].workers, 1, 0)
        lasting, _ = measure(keys, chosen, left[0].workers)
        while left and lasting <= left[0].cap:
            yield figures(keys, chosen, left[0], "BOUNDED_LOAD", 1, slack)
            left = left[1:]


def show(found: list[Found]) -> None:
    """Print a Markdown table: of each stream, W and cap, the figures of each grouping."""
    columns = list(dict.fromkeys((one.grouping, one.sources) for one in found))
    print("| stream | W | cap | fewest | " + " | ".join(f"{name}, S = {sources}" for name, sources in columns) + " |")
    print("| --- " + "| ---: " * (len(columns) + 3) + "|")
    for stream, workers, cap in dict.fromkeys((one.stream, one.workers, one.cap) for one in found):
        row = {(f.grouping, f.sources): f for f in found if (f.stream, f.workers, f.cap) == (stream, workers, cap)}
        least = next(iter(row.values())).fewest
        cells = [cell(row[at]) if at in row else "–" for at in columns]
        print(f"| {stream} | {workers:,} | {cap:.2f} | {least:.2f} | {' | '.join(cells)} |")


def cell(one: Found) -> str:
    """Replication; lasting and worst, each with what was reachable."""
    loads = f"{one.lasting:.3f} ({one.reachable:.3f}), {one.worst:.3f} ({one.reachable_worst:.3f})"
    return f"{one.replication:.2f}; {loads}"


def summary(found: list[Found]) -> None:
    """Print in how many cases PLANNED has fewer replicas, how far it is from the fewest, and what its places allow."""
    planned = {(f.stream, f.workers, f.cap, f.sources): f for f in found if f.grouping == "PLANNED"}
    bounded = {(f.stream, f.workers, f.cap): f for f in found if f.grouping != "PLANNED"}
    alone = {at[:3]: f for at, f in planned.items() if at[3] == 1}
    both = [(f, bounded[at]) for at, f in alone.items() if at in bounded]
    shown = [(mine.stream, round(mine.replication, 2), round(theirs.replication, 2)) for mine, theirs in both]
    fewer, more = sum(mine < theirs for _, mine, theirs in shown), [of for of, mine, theirs in shown if mine > theirs]
    equal, where = len(both) - fewer - len(more), f" ({', '.join(dict.fromkeys(more))})" if more else ""
    print(f"\n{len(alone)} cases of one source. In {len(alone) - len(both)} no slack keeps BOUNDED_LOAD at the cap.")
    print(f"PLANNED has fewer replicas in {fewer}, as many in {equal}, more in {len(more)}{where}.")
    for name, all_of in ("PLANNED", planned.values()), ("BOUNDED_LOAD", bounded.values()):
        print(f"{name}'s worst batch is above the cap in {sum(map(above, all_of))} of {len(all_of)} cases.")
    others = [f.replication - alone[at[:3]].replication for at, f in planned.items() if at[3] > 1 and at[:3] in alone]
    if others:
        print(f"More sources than one: from {min(others):.4f} to {max(others):.4f} workers a key more.")
    print("\n| grouping | W | cap | replication / fewest, median | most | lasting, median | reachable, median | most |")
    print("| --- " + "| ---: " * 7 + "|")
    for of in alone, bounded:
        for workers, cap in dict.fromkeys(at[1:] for at in of):
            here = [f for at, f in of.items() if at[1:] == (workers, cap)]
            ratios, reachable = [f.replication / f.fewest for f in here], [f.reachable for f in here]
            cells = median(ratios), max(ratios), median(f.lasting for f in here), median(reachable), max(reachable)
            print(f"| {here[0].grouping} | {workers:,} | {cap:.2f} | {' | '.join(f'{x:.3f}' for x in cells)} |")


def above(one: Found) -> bool:
    """Whether a batch was above the cap, which is a whole number of tuples."""
    return one.worst * WINDOW / one.workers > most(one.workers, one.cap) + 0.5


def read(path: Path) -> Iterator[Found]:
    """The figures in a file that ``--csv`` wrote."""
    with open_table(path) as file:
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
                float(row["reachable"]),
                float(row["reachable_worst"]),
            )


def write(found: list[Found], path: Path) -> None:
    """Write a row for each combination."""
    with open_table(path, "w") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Found._fields)
        for one in found:
            least, replication = f"{one.fewest:.4f}", f"{one.replication:.4f}"
            loads = (f"{load:.4f}" for load in one[10:])
            rows.writerow([*one[:7], least, replication, one.added, *loads])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", nargs="+", choices=list(ALL), default=list(ALL), metavar="NAME")
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
    summary(found)
    if arguments.csv:
        write(found, arguments.csv)


if __name__ == "__main__":
    main()
