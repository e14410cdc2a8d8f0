"""How balanced groupings are after the stream has changed: max/mean of windows of 100,000 tuples, and workers a key.

    python -m evidence.balance.change [GROUPING[:option=value,...] ...] [--workers W]

The stream is uniform over 4,096 keys for 2 M tuples; then a key has 80 % for 1 M, then another key has; then it is
uniform again. The table has, of each part (of the first one only the second million), the first, the third and the last
window, and the replication of the last.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from evidence.balance.balance import WINDOW, variant
from unskew.grouping import create
from unskew.grouping.streams import hot, uniform

KEYS, LONG = 4096, 1_000_000
COMPARED = (
    "BOUNDED_LOAD",
    "PLANNED",
    "D_CHOICES",
    "D_CHOICES:half_life=100_000",
    "D_CHOICES:half_life=100_000,own_choices=True",
    "W_CHOICES",
    "W_CHOICES:half_life=100_000",
    "PARTIAL_KEY",
    "PARTIAL_KEY:half_life=100_000",
    "ON_GREEDY",
    "ON_GREEDY:half_life=100_000",
    "HOLISTIC",
    "PORC",
    "PORC:half_life=100_000",
    "DALTON",
    "DYNAMIC_KEY",
    "DYNAMIC_KEY_DECAY",
)


def parts():
    """The parts of the stream: name and keys of each."""
    quiet, heated = uniform(KEYS), hot(0.8, KEYS)
    yield "uniform", quiet.take(0, 2 * LONG)
    yield "a key of 80 %", heated.take(2 * LONG, 3 * LONG)
    yield "another one", (heated.take(3 * LONG, 4 * LONG) + 17) % KEYS
    yield "uniform again", quiet.take(4 * LONG, 5 * LONG)


def windows(keys, chosen, workers):
    """The max/mean and the replication of each window."""
    for at in range(0, len(keys), WINDOW):
        mine, theirs = keys[at : at + WINDOW], chosen[at : at + WINDOW]
        replication = len(np.unique(mine * workers + theirs)) / len(np.unique(mine))
        yield np.bincount(theirs, minlength=workers).max() * workers / WINDOW, replication


def main():
    """Print a row for each grouping."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groupings", nargs="*", metavar="GROUPING", help=f"default: {', '.join(COMPARED)}")
    parser.add_argument("--workers", type=int, default=10)
    arguments = parser.parse_args()
    shown = Table(
        "grouping",
        title=f"max/mean of windows 1, 3, 10 of each part; workers a key in the last, W = {arguments.workers}",
    )
    for name, _ in parts():
        shown.add_column(name)
    for grouping in arguments.groupings or COMPARED:
        name, options = variant(grouping)
        router = create(name, arguments.workers, **options)
        cells, now = [], 0
        for _, keys in parts():
            times = now + np.arange(len(keys)) * 300_000 // LONG  # a million in five minutes
            now = int(times[-1])
            # (A call is a batch, for a grouping that plans batches.)
            cuts = [slice(at, at + WINDOW) for at in range(0, len(keys), WINDOW)]
            chosen = [router.route(keys[cut], times=times[cut], costs=1.0) for cut in cuts]
            found = list(windows(keys, np.concatenate(chosen), arguments.workers))
            balance = [f"{found[at][0]:.2f}" for at in (0, 2, -1)]
            cells.append(f"{' '.join(balance)}; {found[-1][1]:.2f}")
        shown.add_row(" ".join([name, *(f"{option} {value}" for option, value in options.items())]), *cells)
    Console(width=140).print(shown)


if __name__ == "__main__":
    main()
