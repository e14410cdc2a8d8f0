"""How skewed NEXMark's bids are, by auction and by bidder, in windows of event time.

    python -m evidence.speed.nexmark [--rates R,R,…] [--window S] [--windows N] [--workers W]

The rates are events/s of event time, of which 46 in 50 are bids. The table has medians over the windows: the keys of a
window, the share of its hottest key, and the largest over the mean worker with KEY, whose hash gives each key a worker.
"""

import argparse
import statistics

import numpy as np
import orjson
from numpy.typing import NDArray

from evidence.tables import make_table, print_table
from unskew.grouping import create as grouping
from unskew.producers.datasets.nexmark import ACTIVE, BIDS, CYCLE
from unskew.producers.datasets.registry import create_dataset


def windows(rate: int, seconds: int, number: int, field: str) -> list[NDArray[np.int64]]:
    """A field of the bids of each window, int64[n].

    The first windows are left out, until there are as many persons as cold bids come from.
    """
    length = rate * seconds
    skipped = -(-ACTIVE * CYCLE // length)
    values: list[int] = []
    times: list[NDArray[np.int64]] = []
    for block in create_dataset(
        "NEXMARK", event_rate=rate, records=(skipped + number) * length * BIDS // CYCLE
    ).blocks():
        assert block.times is not None
        times.append(block.times)
        values += [orjson.loads(message)["bid"][field] for message in block.messages.to_pylist()]
    window = np.concatenate(times) // (1000 * seconds)
    found = np.array(values)
    return [found[window == window[0] + at] for at in range(skipped, skipped + number)]


def main() -> None:
    """Print a row for each rate and key."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="1000,10000,100000", help="default: %(default)s")
    parser.add_argument("--window", type=int, default=5, help="seconds of event time; default: %(default)s")
    parser.add_argument("--windows", type=int, default=5, help="how many; default: %(default)s")
    parser.add_argument("--workers", type=int, default=10, help="default: %(default)s")
    given = parser.parse_args()
    table = make_table("events/s", "key", "keys", "hottest key", f"KEY: max/mean, W = {given.workers}", left=2)
    for rate in map(int, given.rates.split(",")):
        for field in ("auction", "bidder"):
            keys, shares, largest = [], [], []
            for window in windows(rate, given.window, given.windows, field):
                counts = np.unique(window, return_counts=True)[1]
                loads = np.bincount(grouping("KEY", given.workers).route(window), minlength=given.workers)
                keys.append(len(counts))
                shares.append(counts.max() / len(window))
                largest.append(loads.max() / loads.mean())
            cells = f"{statistics.median(keys):,.0f}", f"{statistics.median(shares):.1%}"
            table.add_row(f"{rate:,}", field, *cells, f"{statistics.median(largest):.2f}")
    print_table(table)


if __name__ == "__main__":
    main()
