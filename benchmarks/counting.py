"""Why some streams take more replicas than the bound: the tables of docs/bounded-load, by counting.

    python -m benchmarks.counting

R10 to R40 at W = 100:
A worker with k of the small keys whole has a gap of 1.1 − k·s for the hot one, s a small key's share in fair shares. So
an assignment with n_k such workers needs Σ k·n_k places for whole keys, two for each other small key, and for the hot
key as many as fill the widest gaps first. *Least* is the least of that over all n_k.

W = 1,000: a worker has 100 tuples a window, so by chance a key has more in some windows than in others. Shown is what
any scheme needs, even one that knows what is to come, if it keeps each window of the stream's second half at 1.05, 1.1
or 1.15 (``bound_of_windows``), in multiples of the bound for 1.1.
"""

from math import ceil

from benchmarks.balance import STREAMS, bound, bound_of_windows
from unskew.grouping import encode

KEYS, WORKERS, CAP = 197, 100, 1.1
MANY, CAPS = 1000, (1.05, 1.1, 1.15)
VARYING = (*(f"R{percent}" for percent in range(0, 100, 10)), "Zipf 1.0, 10k keys", "LN2")
LONGEST = 1.02  # what whole keys may bring a worker so that chance doesn't carry it above 1.1 in most windows


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


def hot_places(hot, gaps):
    """On how many workers the hot key must be; ``gaps``: (width, how many), the widest first. None: it doesn't fit."""
    places = 0
    for width, count in gaps:
        used = min(count, ceil(max(0.0, hot) / width - 1e-9))
        places += used
        hot -= used * width
    return places if hot <= 1e-9 else None


def least(share, hot, most):
    """The fewest places of any assignment with loads of at most ``CAP`` and whole keys of at most ``most`` a worker."""
    best = KEYS * WORKERS
    for counts in splits(WORKERS, fits(share, most) + 1):
        whole = sum(k * n for k, n in enumerate(counts))
        if whole > KEYS - 1 or (KEYS - 1) * share + hot > CAP * WORKERS:
            continue
        found = hot_places(hot, [(CAP - k * share, n) for k, n in enumerate(counts)])
        if found is not None:
            best = min(best, whole + 2 * (KEYS - 1 - whole) + found)
    return best


def even(share, hot, cap):
    """The places if two keys are on each worker, as far as they go, and the hot key fills all up to ``cap``."""
    pairs = (KEYS - 1) // 2
    return KEYS - 1 + (hot_places(hot, [(cap, WORKERS - pairs), (cap - 2 * share, pairs)]) or WORKERS)


def by_windows():
    """Print what windows need at W = 1,000, in multiples of the bound."""
    print(f"\n| | {' | '.join(str(cap) for cap in CAPS)} |\n| --- |{' ---: |' * len(CAPS)}")
    for stream in VARYING:
        codes = encode(STREAMS[stream](2_000_000, 0)).codes
        least = bound(codes, MANY)
        print(f"| {stream} | {' | '.join(f'{bound_of_windows(codes, MANY, cap) / least:.2f}' for cap in CAPS)} |")


def main():
    """Print the tables, in multiples of the bound."""
    rows = {
        "least, frequencies known": lambda *stream: least(*stream, CAP),
        f"… with no worker's whole keys above {LONGEST}": lambda *stream: least(*stream, LONGEST),
        f"two keys on each of {(KEYS - 1) // 2} workers, loads up to 1.10": lambda *stream: even(*stream, CAP),
        "… up to 1.07": lambda *stream: even(*stream, 1.07),
    }
    print("| | R10 | R20 | R30 | R40 |\n| --- | ---: | ---: | ---: | ---: |")
    for name, places in rows.items():
        cells = []
        for percent in (10, 20, 30, 40):
            share = (1 - percent / 100) * WORKERS / KEYS
            hot = percent / 100 * WORKERS + share
            cells.append(f"{places(share, hot) / (KEYS - 1 + ceil(hot / CAP)):.2f}")
        print(f"| {name} | {' | '.join(cells)} |")
    by_windows()


if __name__ == "__main__":
    main()
