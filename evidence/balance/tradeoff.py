"""How much balance for how many replicas: BOUNDED_LOAD beside what's possible, as in evidence/balance/figures.md.

    python -m evidence.balance.tradeoff [--streams NAME ...] [--workers W ...] [--csv FILE] [--read CSV]
        [--picture FILE]

Four curves a stream and number of workers, of points (replication, lasting), as in ``evidence.balance.balance``:

* *one source*, *sixteen sources*: BOUNDED_LOAD by ``slack``;
* *known frequencies*: by c, an assignment made in advance from the whole stream's frequencies, with expected loads of
  at most c. Each tuple goes to the one of its key's workers that is behind most. Not for streams that change;
* *bound*: Σ max(1, ⌈p·W/c⌉) over the keys, by c; *bound of windows*: the same with each key's greatest share of a
  window of the stream's second half, which is what any scheme needs that keeps each window there at c or below.
"""

import argparse
import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import pyplot as plt
from numba import njit

from evidence.balance.balance import CHANGES, STREAMS, bound, bound_of_windows, measure, routed
from evidence.balance.tables import open_table
from unskew.grouping import encode_keys

SHOWN = ("R0", "R20", "R80", "Zipf 0.5, 10k keys", "Zipf 1.0, 10k keys", "fast drift")
TUPLES = 2_000_000
SLACKS = (0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.35)
CAPS = (1.01, 1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4)


class Point(NamedTuple):
    """A point of a curve; ``by`` is the slack, or c."""

    curve: str
    stream: str
    workers: int
    by: float
    replication: float
    lasting: float


def assigned(shares, workers, cap):
    """Assign keys to workers: the workers of each key.

    ``shares`` are in fair shares of a worker. Each key is divided into as few equal pieces as ``cap`` allows, and the
    pieces go to the workers with the least load, those of the largest key first. Then, as long as a worker has more
    than ``cap``, the excess of its largest key moves to the worker that has the least.
    """
    loads = np.zeros(workers)
    pieces_of = [{} for _ in shares]  # key → worker → share
    at = [{} for _ in range(workers)]  # worker → key → share
    for key in np.argsort(-shares, kind="stable"):
        pieces = min(workers, max(1, int(np.ceil(shares[key] / cap))))
        chosen = np.argpartition(loads, pieces - 1)[:pieces]
        for worker in chosen:
            pieces_of[key][int(worker)] = at[worker][int(key)] = shares[key] / pieces
        loads[chosen] += shares[key] / pieces
    for _ in range(4 * workers):
        worker, least = int(loads.argmax()), int(loads.argmin())
        if loads[worker] <= cap + 1e-9:
            break
        key = max(at[worker], key=at[worker].get)
        moved = min(loads[worker] - cap, cap - loads[least], at[worker][key])
        at[worker][key] -= moved
        pieces_of[key][least] = pieces_of[key].get(least, 0.0) + moved
        at[least][key] = at[least].get(key, 0.0) + moved
        if at[worker][key] <= 1e-9:
            del at[worker][key], pieces_of[key][worker]
        loads[worker] -= moved
        loads[least] += moved
    return [list(chosen) for chosen in pieces_of]


@njit
def follow(codes, starts, choices, workers):
    """Send each tuple to that of its key's workers which is behind most, by buckets that leak 1.02 of a fair share.

    The workers of key k are ``choices[starts[k]:starts[k + 1]]``.
    """
    ahead = np.zeros(workers)
    chosen = np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        best = choices[starts[codes[i]]]
        for at in range(starts[codes[i]] + 1, starts[codes[i] + 1]):
            if ahead[choices[at]] < ahead[best]:
                best = choices[at]
        ahead[best] = max(ahead[best], float(i)) + workers / 1.02
        chosen[i] = best
    return chosen


def known(keys, workers, cap):
    """The worker of each tuple if all frequencies are known in advance."""
    shares = np.bincount(keys.codes, minlength=len(keys.hashes)) / len(keys.codes) * workers
    choices = assigned(shares, workers, cap)
    starts = np.concatenate([[0], np.cumsum([len(some) for some in choices])])
    return follow(keys.codes, starts, np.concatenate(choices).astype(np.int64), workers)


def points(stream, counts):
    """The points of all curves of a stream, one after the other."""
    keys = encode_keys(STREAMS[stream](TUPLES, 0))
    for workers in counts:
        for slack in SLACKS:
            for curve, sources in (("one source", 1), ("sixteen sources", 16)):
                chosen = routed(f"BOUNDED_LOAD:slack={slack}", keys, workers, sources, 0)
                lasting, replication = measure(keys, chosen, workers)
                yield Point(curve, stream, workers, slack, replication, lasting)
        for cap in CAPS:
            least = bound(keys.codes, workers, CHANGES.get(stream, 1), cap)
            yield Point("bound", stream, workers, cap, least, cap)
            yield Point("bound of windows", stream, workers, cap, bound_of_windows(keys.codes, workers, cap), cap)
            if stream not in CHANGES:
                lasting, replication = measure(keys, known(keys, workers, cap), workers)
                yield Point("known frequencies", stream, workers, cap, replication, lasting)


def draw(found, path):
    """Draw the curves, in a column for each stream and a row for each number of workers."""
    streams, counts = (list(dict.fromkeys(getattr(one, field) for one in found)) for field in ("stream", "workers"))
    styles = {
        "one source": {"color": "tab:blue", "marker": "o"},
        "sixteen sources": {"color": "tab:red", "marker": "s"},
        "known frequencies": {"color": "tab:green", "marker": "^", "linewidth": 0.8},
        "bound": {"color": "black", "linestyle": "--"},
        "bound of windows": {"color": "black", "linestyle": ":"},
    }
    size = (2.7 * len(streams), 2.6 * len(counts) + 0.6)
    figure, panels = plt.subplots(len(counts), len(streams), figsize=size, squeeze=False)
    for row, workers in zip(panels, counts, strict=True):
        for axes, stream in zip(row, streams, strict=True):
            here = [one for one in found if (one.stream, one.workers) == (stream, workers)]
            for curve, style in styles.items():
                mine = [one for one in here if one.curve == curve]
                axes.plot(
                    [one.replication for one in mine], [one.lasting for one in mine], label=curve, markersize=3, **style
                )
            axes.axhline(1.1, color="grey", linewidth=0.8)
            least = min(one.replication for one in here)
            axes.set(xscale="log", ylim=(1, 1.45), xlim=(0.95 * least, 10 * least))
            ticks = [tick for tick in (1, 2, 5, 10, 20, 50) if 0.95 * least <= tick <= 10 * least]
            axes.minorticks_off()
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.set_title(f"{stream}, W = {workers:,}", fontsize=8)
            axes.tick_params(labelsize=7)
            axes.grid(alpha=0.3)
    figure.supxlabel("workers a key", fontsize=10)
    figure.supylabel("lasting max/mean; grey: 1.1", fontsize=10)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="upper center", ncols=5, fontsize="small")
    figure.tight_layout(rect=(0.01, 0, 1, 0.96))
    figure.savefig(path, dpi=75)


def read(path):
    """The points in a file that ``--csv`` wrote."""
    with open_table(path) as file:
        for row in csv.DictReader(file):
            yield Point(
                row["curve"], row["stream"], int(row["workers"]), *(float(row[name]) for name in Point._fields[3:])
            )


def write(found, path):
    """Write a row for each point."""
    with open_table(path, "w") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Point._fields)
        rows.writerows([*one[:4], f"{one.replication:.4f}", f"{one.lasting:.4f}"] for one in found)


def main():
    """Find or read the points; write and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", nargs="+", choices=list(STREAMS), default=SHOWN, metavar="NAME")
    parser.add_argument("--workers", nargs="+", type=int, default=[10, 100, 1000])
    parser.add_argument("--csv", type=Path, help="write the points into this file")
    parser.add_argument("--read", type=Path, metavar="CSV", help="show what was found earlier")
    parser.add_argument("--picture", type=Path, help="draw them into this file")
    arguments = parser.parse_args()
    if arguments.read:
        found = list(read(arguments.read))
    else:
        found = []
        for stream in arguments.streams:
            for one in points(stream, arguments.workers):
                print(
                    f"{one.curve}, {one.stream}, W = {one.workers}, {one.by}: {one.replication:.2f}, {one.lasting:.3f}"
                )
                found.append(one)
    if arguments.csv:
        write(found, arguments.csv)
    if arguments.picture:
        draw(found, arguments.picture)


if __name__ == "__main__":
    main()
