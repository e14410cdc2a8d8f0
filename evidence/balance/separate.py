"""What sources must replicate that know nothing of each other: an adversary's stream.

    python -m evidence.balance.separate [--workers W] [--measure]

The stream has n·W keys. Each source draws, once, which of them it gets: each key with probability 1/n; then all its
keys are equally frequent. So over all sources no key is hot (none has more than a W-th of the stream; the bound is one
worker a key), but at each source about W keys have a W-th each. The proof is in evidence/balance/theory.md.
"""

import argparse
from math import comb

import numpy as np

from evidence.balance.balance import measure, routed
from unskew.grouping import encode_keys

SOURCES = (2, 4, 16, 64)
SPREAD = range(2, 33)  # n
TUPLES = 2_000_000


def least(sources, spread):
    """The least replicas a key, the mean over the keys that any source has; ``spread`` is n.

    Of n keys that would all be whole at the same worker, the i-th (i ≥ 0) is there in a share (1 − 1/n)^i of the
    sources that get it, at most (in the order of these shares, up to majorisation). A key that m sources get is on one
    worker alone only if all m have it there: with probability (1 − 1/n)^(i·(m − 1)) at most. Otherwise it is on two.
    """
    chance = 1 / spread
    got = [comb(sources, m) * chance**m * (1 - chance) ** (sources - m) for m in range(sources + 1)]
    alone = [
        sum(got[m] * (1 - chance) ** (i * (m - 1)) for m in range(1, sources + 1)) / (1 - got[0]) for i in range(spread)
    ]
    return 2 - sum(alone) / spread


def stream(sources, spread, workers, seed):
    """The adversary's 2 M tuples: the sources come in turns, each with all its keys once a round, in any order."""
    rng = np.random.default_rng(seed)
    length = TUPLES // sources
    parts = []
    for _ in range(sources):
        own = np.flatnonzero(rng.random(spread * workers) < 1 / spread)
        rounds = np.tile(own, (length // len(own) + 1, 1))
        parts.append(rng.permuted(rounds, axis=1).ravel()[:length])
    return np.stack(parts, axis=1).ravel()


def main():
    """Print the bound for some numbers of sources, and what BOUNDED_LOAD does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--measure", action="store_true", help="route the stream by BOUNDED_LOAD, too")
    arguments = parser.parse_args()
    print("| sources | n | least replication |" + (" BOUNDED_LOAD, lasting |" if arguments.measure else ""))
    print("| ---: | ---: | ---: |" + (" ---: |" if arguments.measure else ""))
    for sources in SOURCES:
        spread = max(SPREAD, key=lambda n: least(sources, n))
        cells = [f"{least(sources, spread):.2f}"]
        if arguments.measure:
            keys = encode_keys(stream(sources, spread, arguments.workers, 0))
            chosen = routed("BOUNDED_LOAD", keys, arguments.workers, sources, 0)
            lasting, replication = measure(keys, chosen, arguments.workers)
            cells.append(f"{replication:.2f}, {lasting:.2f}")
        print(f"| {sources} | {spread} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
