"""Why some streams take more replicas than the bound: the tables of evidence/balance/theory.md, by counting.

    python -m evidence.balance.counting

R10 to R40 at W = 100: a worker with k whole small keys has a gap of 1.1 − k·s for the hot key, where s is a small key's
share in fair shares. So an assignment with n_k such workers needs Σ k·n_k replicas of whole keys, two of each other
small key, and of the hot key as many as it takes to fill gaps, the widest first. *Least* is the minimum over all n_k.

W = 1,000: a worker has 100 tuples a window, so by chance a key has more in some windows than in others. The table has
what any scheme needs, even one that knows the future, if it keeps each window of the stream's second half at 1.05, 1.1
or 1.15 (``bound_of_windows``), in multiples of the bound for 1.1.
"""

import argparse
from math import ceil

from evidence.balance.balance import STREAMS, bound, bound_of_windows
from unskew.grouping import encode_keys

KEYS, WORKERS, CAP = 197, 100, 1.1
MANY, CAPS = 1000, (1.05, 1.1, 1.15)
VARYING = (*(f"R{percent}" for percent in range(0, 100, 10)), "Zipf 1.0, 10k keys", "LN2")
LONGEST = 1.02  # load of a worker's whole keys with which chance doesn't carry it above 1.1 in most windows


def fits(share, most):
    """How many keys of that share are at most ``most`` together."""
    return int(most / share)


def splits(workers, kinds):
    """All ways to have so many workers of each kind."""
    if kinds == 1:
        yield (workers,)
        return
    for first in range(workers + 1):
        for rest in splits(workers - first, kinds - 1):
            yield (first, *rest)


def hot_replicas(hot, gaps):
    """The replicas of the hot key; ``gaps`` are (width, how many), the widest first. None: it doesn't fit."""
    replicas = 0
    for width, count in gaps:
        used = min(count, ceil(max(0.0, hot) / width - 1e-9))
        replicas += used
        hot -= used * width
    return replicas if hot <= 1e-9 else None


def least(share, hot, most):
    """The fewest replicas of an assignment with loads up to ``CAP`` and whole keys of at most ``most`` a worker."""
    best = KEYS * WORKERS
    for counts in splits(WORKERS, fits(share, most) + 1):
        whole = sum(k * n for k, n in enumerate(counts))
        if whole > KEYS - 1 or (KEYS - 1) * share + hot > CAP * WORKERS:
            continue
        found = hot_replicas(hot, [(CAP - k * share, n) for k, n in enumerate(counts)])
        if found is not None:
            best = min(best, whole + 2 * (KEYS - 1 - whole) + found)
    return best


def even(share, hot, cap):
    """The replicas if each worker has two keys, as far as these go, and the hot key fills all workers up to ``cap``."""
    pairs = (KEYS - 1) // 2
    return KEYS - 1 + (hot_replicas(hot, [(cap, WORKERS - pairs), (cap - 2 * share, pairs)]) or WORKERS)


def by_windows():
    """Print what windows need at W = 1,000, in multiples of the bound."""
    print(f"\n| | {' | '.join(str(cap) for cap in CAPS)} |\n| --- |{' ---: |' * len(CAPS)}")
    for stream in VARYING:
        codes = encode_keys(STREAMS[stream](2_000_000, 0)).codes
        least = bound(codes, MANY)
        print(f"| {stream} | {' | '.join(f'{bound_of_windows(codes, MANY, cap) / least:.2f}' for cap in CAPS)} |")


def main():
    """Print the tables, in multiples of the bound."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = {
        "least, frequencies known": lambda *stream: least(*stream, CAP),
        f"… with no worker's whole keys above {LONGEST}": lambda *stream: least(*stream, LONGEST),
        f"two keys on each of {(KEYS - 1) // 2} workers, loads up to 1.10": lambda *stream: even(*stream, CAP),
        "… up to 1.07": lambda *stream: even(*stream, 1.07),
    }
    print("| | R10 | R20 | R30 | R40 |\n| --- | ---: | ---: | ---: | ---: |")
    for name, replicas in rows.items():
        cells = []
        for percent in (10, 20, 30, 40):
            share = (1 - percent / 100) * WORKERS / KEYS
            hot = percent / 100 * WORKERS + share
            cells.append(f"{replicas(share, hot) / (KEYS - 1 + ceil(hot / CAP)):.2f}")
        print(f"| {name} | {' | '.join(cells)} |")
    by_windows()


if __name__ == "__main__":
    main()
