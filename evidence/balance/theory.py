"""The tables of evidence/balance/theory.md, by counting: why some streams take more replicas than the bound.

    python -m evidence.balance.theory

R10 to R40 at W = 100: a worker with k whole small keys has a gap of 1.1 − k·s for the hot key, where s is a small key's
share in fair shares. So an assignment with n_k such workers needs Σ k·n_k replicas of whole keys, two of each other
small key, and of the hot key as many as it takes to fill gaps, the widest first. *Least* is the minimum over all n_k.

W = 1,000: a worker has 100 tuples a window, so by chance a key has more in some windows than in others. The table has
what any scheme needs, even one that knows the future, if it keeps each window of the stream's second half at 1.05, 1.1
or 1.15, in multiples of the bound for 1.1: a key of n tuples in a window of T is on at least n / (cap · T/W) workers.

Known frequencies: replication over the bound and lasting, W = 1,000, of an assignment made from the whole stream's
frequencies, with expected loads of at most c. Each tuple goes to the one of its key's workers that is behind most.

Sources that know nothing of each other: what they must replicate. The proof is on the page.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, comb, inf

import numpy as np
from numba import njit
from numpy.typing import NDArray

from evidence.balance.streams import ADVERSARY, STREAMS, WINDOW
from evidence.tables import make_table, print_table
from unskew.apps.cli.simulation.input_stream import StreamSpec
from unskew.grouping import encode_keys
from unskew.grouping.keys import Keys
from unskew.grouping.measures import fewest_replicas, straggler_ratio
from unskew.kafka.connection import Connection

KEYS, WORKERS, CAP = 197, 100, 1.1
MANY, CAPS = 1000, (1.05, 1.1, 1.15)
VARYING = (*(f"R{percent}" for percent in range(0, 100, 10)), "Zipf 1.0, 10k keys", "LN2")
KNOWN, EXPECTED = ("R0", "R20", "R80", "Zipf 0.5, 10k keys", "Zipf 1.0, 10k keys"), (1.01, 1.02, 1.05, 1.1)
LONGEST = 1.02  # load of a worker's whole keys with which chance doesn't carry it above 1.1 in most windows


def read_keys(stream: str, tuples: int = 2_000_000) -> Keys:
    """The keys of a stream, by the name that pages have, or `unskew simulate`."""
    return encode_keys(StreamSpec(STREAMS.get(stream, stream), tuples, 0, lambda: Connection("")).read().keys)


def most_of_windows(codes: NDArray[np.int32], start: int = 0) -> NDArray[np.int64]:
    """The most tuples that each key has in one of the windows from position ``start`` on."""
    starts = range(start, len(codes) - WINDOW + 1, WINDOW)
    return np.max([np.bincount(codes[at : at + WINDOW], minlength=codes.max() + 1) for at in starts], axis=0)


def split_workers(workers: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """All ways to have so many workers of each kind."""
    if kinds == 1:
        yield (workers,)
        return
    for first in range(workers + 1):
        yield from ((first, *rest) for rest in split_workers(workers - first, kinds - 1))


def fill_gaps(hot: float, gaps: Sequence[tuple[float, int]]) -> float:
    """The replicas of the hot key; ``gaps`` are (width, how many), the widest first. Infinite: it doesn't fit."""
    replicas = 0
    for width, count in gaps:
        used = min(count, ceil(max(0.0, hot) / width - 1e-9))
        replicas += used
        hot -= used * width
    return replicas if hot <= 1e-9 else inf


def count_least(share: float, hot: float, most: float) -> float:
    """The fewest replicas of an assignment with loads up to ``CAP`` and whole keys of at most ``most`` a worker."""
    best, small = inf, KEYS - 1
    for counts in split_workers(WORKERS, int(most / share) + 1):
        whole = sum(k * n for k, n in enumerate(counts))
        if whole <= small and small * share + hot <= CAP * WORKERS:
            gaps = [(CAP - k * share, n) for k, n in enumerate(counts)]
            best = min(best, whole + 2 * (small - whole) + fill_gaps(hot, gaps))
    return best


def count_even(share: float, hot: float, cap: float) -> float:
    """The replicas if each worker has two keys, as far as these go, and the hot key fills all workers up to ``cap``."""
    pairs = (KEYS - 1) // 2
    return KEYS - 1 + min(WORKERS, fill_gaps(hot, [(cap, WORKERS - pairs), (cap - 2 * share, pairs)]))


def bound_sources(sources: int, n: int) -> float:
    """The least replicas a key, the mean over the keys that any source has, of an adversary's stream with n·W keys.

    Of n keys that would all be whole at the same worker, the i-th (i ≥ 0) is there in a share (1 − 1/n)^i of the
    sources that get it, at most (in the order of these shares, up to majorisation). A key that m sources get is on one
    worker alone only if all m have it there: with probability (1 − 1/n)^(i·(m − 1)) at most. Otherwise it is on two.
    """
    other = 1 - 1 / n
    got = [comb(sources, m) * n**-m * other ** (sources - m) for m in range(sources + 1)]
    alone = sum(got[m] * other ** (i * (m - 1)) for i in range(n) for m in range(1, sources + 1))
    return 2 - alone / (1 - got[0]) / n


def assign_keys(shares: NDArray[np.float64], workers: int, cap: float) -> list[list[int]]:
    """The workers of each key, whose ``shares`` are in fair shares of a worker.

    Each key is divided into as few equal pieces as ``cap`` allows, which go to the workers with the least load, those
    of the largest key first. Then, as long as a worker has more than ``cap``, the excess of its largest key moves to
    the worker that has the least.
    """
    loads, at = np.zeros(workers), [dict[int, float]() for _ in range(workers)]  # at: worker → key → share
    for key in np.argsort(-shares, kind="stable").tolist():
        pieces = min(workers, max(1, ceil(shares[key] / cap)))
        for worker in np.argpartition(loads, pieces - 1)[:pieces].tolist():
            at[worker][key] = shares[key] / pieces
            loads[worker] += at[worker][key]
    for _ in range(4 * workers):
        worker, least = int(loads.argmax()), int(loads.argmin())
        if loads[worker] <= cap + 1e-9:
            break
        key = max(at[worker], key=at[worker].__getitem__)
        moved = min(loads[worker] - cap, cap - loads[least], at[worker][key])
        for to, more in ((worker, -moved), (least, moved)):
            at[to][key] = at[to].get(key, 0.0) + more
            loads[to] += more
    return [[worker for worker in range(workers) if at[worker].get(key, 0.0) > 1e-9] for key in range(len(shares))]


@njit
def follow_assignment(
    codes: NDArray[np.int32], starts: NDArray[np.int64], choices: NDArray[np.int64], workers: int
) -> NDArray[np.int32]:
    """Send each tuple to that of its key's workers which is behind most, by buckets that leak 1.02 of a fair share."""
    ahead, chosen = np.zeros(workers), np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        own = choices[starts[codes[i]] : starts[codes[i] + 1]]
        best = own[np.argmin(ahead[own])]
        ahead[best] = max(ahead[best], float(i)) + workers / 1.02
        chosen[i] = best
    return chosen


def measure_known(keys: Keys, workers: int, cap: float) -> str:
    """Replication over the bound, and lasting, if all frequencies are known in advance."""
    counts = np.bincount(keys.codes)
    choices = assign_keys(counts / len(keys.codes) * workers, workers, cap)
    starts = np.cumsum([0, *map(len, choices)])
    chosen = follow_assignment(keys.codes, starts, np.concatenate(choices).astype(np.int64), workers)
    replicas = len(np.unique(keys.codes.astype(np.int64) * workers + chosen))
    late = np.array_split(chosen[len(chosen) // 2 :], 10)
    lasting = np.mean([straggler_ratio(np.bincount(part, minlength=workers)) for part in late])
    return f"{replicas / fewest_replicas(counts, workers, CAP):.2f}, {lasting:.2f}"


def print_numbers(heads: Sequence[object], rows: Mapping[str, Sequence[float | str]]) -> None:
    """Print a table of numbers, and of what is text already."""
    table = make_table("", *map(str, heads))
    for name, row in rows.items():
        table.add_row(name, *(value if isinstance(value, str) else f"{value:.2f}" for value in row))
    print_table(table)


def main() -> None:
    """Print the tables, the first two in multiples of the bound."""
    ways = {
        "least, frequencies known": lambda *stream: count_least(*stream, CAP),
        f"… with no worker's whole keys above {LONGEST}": lambda *stream: count_least(*stream, LONGEST),
        f"two keys on each of {(KEYS - 1) // 2} workers, loads up to 1.10": lambda *stream: count_even(*stream, CAP),
        "… up to 1.07": lambda *stream: count_even(*stream, 1.07),
    }
    percents = (10, 20, 30, 40)
    shares = [(1 - percent / 100) * WORKERS / KEYS for percent in percents]
    of = [(share, percent / 100 * WORKERS + share) for share, percent in zip(shares, percents, strict=True)]
    bounds = [KEYS - 1 + ceil(hot / CAP) for _, hot in of]
    rows = {name: [way(*each) / least for each, least in zip(of, bounds, strict=True)] for name, way in ways.items()}
    print_numbers([f"R{percent}" for percent in percents], rows)
    rows = {}
    for stream in VARYING:
        codes = read_keys(stream).codes
        most = most_of_windows(codes, len(codes) // WINDOW // 2 * WINDOW)
        needed = [np.maximum(1, np.ceil(most * MANY / cap / WINDOW - 1e-9)).sum() for cap in CAPS]
        rows[stream] = [each / fewest_replicas(np.bincount(codes), MANY, CAP) for each in needed]
    print_numbers(CAPS, rows)
    known = {stream: read_keys(stream) for stream in KNOWN}
    print_numbers(EXPECTED, {of: [measure_known(keys, MANY, cap) for cap in EXPECTED] for of, keys in known.items()})
    print_numbers([*ADVERSARY], {"workers a key, at least": [bound_sources(*each) for each in ADVERSARY.items()]})


if __name__ == "__main__":
    main()
