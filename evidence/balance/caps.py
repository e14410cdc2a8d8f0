"""PLANNED's replicas at several caps, beside BOUNDED_LOAD at equal ones, as in evidence/balance/planned.md.

    python -m evidence.balance.caps [--streams NAME ...] [--workers W ...] [--sources S ...] [--caps C ...]
    python -m evidence.balance.caps --read evidence/balance/caps.csv.gz

`unskew simulate --sweep slack=…` has the replicas and loads, too. Here BOUNDED_LOAD (one source) gets the greatest of
some values of ``slack`` with which its *lasting* is at most C; if there is none, it has no row. PLANNED gets ``slack``
= C − 1, and batches of 100,000 tuples. Beside them stand what no simulation says: *fewest*, the replicas a key that any
scheme needs, one that knows the future too, if no batch has a load above C times the mean: Σ max(1, ⌈n / most⌉) over
the keys, divided by their number, where n is the key's greatest number of tuples in a batch, and *most* is what a
worker may get. *Reachable* and *reachable_worst*: what lasting and worst would be if each batch were divided as evenly
as possible between the workers that its keys have been on so far (``reachable``). *Worst* is of all batches.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyarrow import csv

from evidence.balance.reachable import Places
from evidence.balance.streams import STREAMS, WINDOW
from evidence.balance.theory import most_of_windows, read_keys
from evidence.tables import make_table, print_table
from unskew.apps.cli.simulation.simulation import Contestant, Simulation
from unskew.grouping.keys import Keys
from unskew.grouping.measures import straggler_ratio
from unskew.grouping.simulator import FeedbackTiming

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
    reachable: float
    reachable_worst: float

    @property
    def is_above(self) -> bool:
        """Whether a batch was above the cap, which is a whole number of tuples."""
        return self.worst * WINDOW / self.workers > most_of_worker(self.workers, self.cap) + 0.5


def most_of_worker(workers: int, cap: float) -> int:
    """What a worker may get of a batch."""
    return max(-(-WINDOW // workers), int(cap * WINDOW / workers + 1e-6))


def route(keys: Keys, name: str, workers: int, sources: int, slack: float) -> NDArray[np.int32]:
    """The worker of each tuple."""
    settings = {"settings": {"batch": WINDOW}, "feedback": FeedbackTiming(), "load": 1.0, "poisson": False, "seed": 0}
    simulation = Simulation(keys, None, [1.0], [1.0], None, sources=sources, **settings)
    return simulation.outcomes([Contestant(name, name, {"slack": slack})], workers)[name].assigned


def compute_figures(
    keys: Keys, chosen: NDArray[np.int32], name: str, stream: str, cap: float, workers: int, sources: int, slack: float
) -> Found:
    """The figures of a stream whose tuples went to these workers."""
    batches = [slice(start, start + WINDOW) for start in range(0, len(chosen) - WINDOW + 1, WINDOW)]
    uneven = [straggler_ratio(np.bincount(chosen[batch], minlength=workers)) for batch in batches]
    places, late, distinct = Places(workers), len(batches) // 2, len(keys.hashes)
    reachable = [places.reachable(keys.codes[batch], chosen[batch]) for batch in batches]
    needed = np.maximum(1, -(-most_of_windows(keys.codes) // most_of_worker(workers, cap))).mean()
    replicas = len(np.unique(keys.codes.astype(np.int64) * workers + chosen))
    of_keys = distinct, float(needed), replicas / distinct, replicas - distinct
    loads = np.mean(uneven[late:]), max(uneven), np.mean(reachable[late:]), max(reachable)
    return Found(name, stream, cap, workers, sources, slack, *of_keys, *map(float, loads))


def compare(
    streams: Sequence[str], workers: Sequence[int], every: Sequence[int], caps: Sequence[float]
) -> Iterator[Found]:
    """The figures of all combinations, one after the other."""
    for stream, count in product(streams, workers):
        keys = read_keys(stream)
        for cap, sources in product(caps, every):
            slack = round(cap - 1, 6)
            of = "PLANNED", stream, cap, count, sources, slack
            yield compute_figures(keys, route(keys, "PLANNED", count, sources, slack), *of)
        left = sorted(caps, reverse=True) if 1 in every else []
        for slack in SLACKS if left else ():
            chosen = route(keys, "BOUNDED_LOAD", count, 1, slack)
            while left:
                found = compute_figures(keys, chosen, "BOUNDED_LOAD", stream, left[0], count, 1, slack)
                if found.lasting > left[0]:
                    break
                yield found
                left = left[1:]


def show(found: Sequence[Found]) -> None:
    """Print of each stream, W and cap the figures of each grouping."""
    columns = list(dict.fromkeys((one.grouping, one.sources) for one in found))
    table = make_table("stream", "W", "cap", "fewest", *(f"{name}, S = {sources}" for name, sources in columns))
    for of in dict.fromkeys((one.stream, one.workers, one.cap) for one in found):
        row = {(f.grouping, f.sources): f for f in found if (f.stream, f.workers, f.cap) == of}
        cells = [
            f"{f.replication:.2f}; {f.lasting:.3f} ({f.reachable:.3f}), {f.worst:.3f} ({f.reachable_worst:.3f})"
            if (f := row.get(at))
            else "–"
            for at in columns
        ]
        table.add_row(of[0], f"{of[1]:,}", f"{of[2]:.2f}", f"{next(iter(row.values())).fewest:.2f}", *cells)
    print_table(table)


def summarise(found: Sequence[Found]) -> None:
    """Print in how many cases PLANNED has fewer replicas, how far it is from the fewest, and what its places allow."""
    planned = {(f.stream, f.workers, f.cap, f.sources): f for f in found if f.grouping == "PLANNED"}
    bounded = {(f.stream, f.workers, f.cap): f for f in found if f.grouping != "PLANNED"}
    alone = {at[:3]: f for at, f in planned.items() if at[3] == 1}
    both = [
        (round(alone[at].replication, 2), round(f.replication, 2), at[0]) for at, f in bounded.items() if at in alone
    ]
    fewer, more = sum(mine < theirs for mine, theirs, _ in both), [of for mine, theirs, of in both if mine > theirs]
    print(f"\n{len(alone)} cases of one source. In {len(alone) - len(both)} no slack keeps BOUNDED_LOAD at the cap.")
    equal = len(both) - fewer - len(more)
    print(f"PLANNED has fewer replicas in {fewer}, as many in {equal}, more in {len(more)}: {more}")
    for name, all_of in ("PLANNED", planned), ("BOUNDED_LOAD", bounded):
        over = sum(f.is_above for f in all_of.values())
        print(f"{name}'s worst batch is above the cap in {over} of {len(all_of)} cases.")
    others = [f.replication - alone[at[:3]].replication for at, f in planned.items() if at[3] > 1 and at[:3] in alone]
    if others:
        print(f"More sources than one: from {min(others):.4f} to {max(others):.4f} workers a key more.")
    heads = "replication / fewest, median", "most", "lasting, median", "reachable, median", "most"
    table = make_table("grouping", "W", "cap", *heads)
    for name, all_of in ("PLANNED", alone), ("BOUNDED_LOAD", bounded):
        for workers, cap in dict.fromkeys(at[1:] for at in all_of):
            here = [f for at, f in all_of.items() if at[1:] == (workers, cap)]
            ratios, reachable = [f.replication / f.fewest for f in here], [f.reachable for f in here]
            cells = median(ratios), max(ratios), median(f.lasting for f in here), median(reachable), max(reachable)
            table.add_row(name, f"{workers:,}", f"{cap:.2f}", *(f"{x:.3f}" for x in cells))
    print_table(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", nargs="+", default=list(STREAMS), metavar="NAME")
    parser.add_argument("--workers", nargs="+", type=int, default=[10, 50, 100, 1000])
    parser.add_argument("--sources", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--caps", nargs="+", type=float, default=[1.02, 1.05, 1.10])
    parser.add_argument("--read", type=Path, metavar="CSV", help="show what was found earlier")
    given = parser.parse_args()
    if given.read:
        found = [Found(**row) for row in csv.read_csv(given.read).to_pylist()]
    else:
        found = list(compare(given.streams, given.workers, given.sources, given.caps))
    found.sort(key=lambda one: (one.stream, one.workers, one.cap, one.grouping != "PLANNED", one.sources))
    show(found)
    summarise(found)


if __name__ == "__main__":
    main()
