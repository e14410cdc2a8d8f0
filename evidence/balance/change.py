"""How balanced groupings are after the stream has changed: max/mean of windows of 100,000 tuples, and workers a key.

    python -m evidence.balance.change [GROUPING[:option=value:...] ...] [--workers W]

The stream is uniform over 4,096 keys for 2 M tuples; then a key has 80 % for 1 M, then another key has; then it is
uniform again. The table has, of each part (of the first one only the second million), the first, the third and the last
window, and the replication of the last.
"""

import argparse

import numpy as np

from evidence.balance.streams import WINDOW, draw_changes
from evidence.tables import make_table, print_table
from unskew.apps.cli.simulation.options import SimulationOptions
from unskew.grouping import create
from unskew.grouping.measures import straggler_ratio

MILLION = 1_000_000
_FORGETTING = "D_CHOICES", "W_CHOICES", "PARTIAL_KEY", "ON_GREEDY", "PORC"
COMPARED = (
    *("BOUNDED_LOAD", "PLANNED", *_FORGETTING, "HOLISTIC", "DALTON", "DYNAMIC_KEY", "DYNAMIC_KEY_DECAY"),
    *(f"{name}:half_life=100000" for name in _FORGETTING),
    "D_CHOICES:half_life=100000:own_choices=true",
)


def main() -> None:
    """Print a row for each grouping."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groupings", nargs="*", metavar="GROUPING", default=COMPARED)
    parser.add_argument("--workers", type=int, default=10)
    given = parser.parse_args()
    shown = make_table("grouping", *(name for name, _ in draw_changes(1)))
    for label, name, options in SimulationOptions(groupings=",".join(given.groupings)).schemes:
        router, cells, now = create(name, given.workers, **options), [], 0
        for _, keys in draw_changes(MILLION):
            times = now + np.arange(len(keys)) * 300_000 // MILLION  # a million in five minutes
            now, windows = int(times[-1]), [slice(at, at + WINDOW) for at in range(0, len(keys), WINDOW)]
            # (A call is a batch, for a grouping that plans batches.)
            chosen = [router.route(keys[at], times=times[at], costs=1.0) for at in windows]
            uneven = [straggler_ratio(np.bincount(each, minlength=given.workers)) for each in chosen]
            last = keys[windows[-1]]
            replication = len(np.unique(last * given.workers + chosen[-1])) / len(np.unique(last))
            cells.append(f"{' '.join(f'{uneven[at]:.2f}' for at in (0, 2, -1))}; {replication:.2f}")
        shown.add_row(label, *cells)
    print_table(shown)


if __name__ == "__main__":
    main()
