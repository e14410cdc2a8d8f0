"""Streams of someone who knows the hash functions and wants a scheme to break its promise, and how near they come.

``python -m tests.grouping.attacks`` prints the table of evidence/balance/attacks.md.
"""

import time
from itertools import pairwise

import numpy as np

from unskew.grouping import create, encode_keys
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.streams import zipf

#: Keys among which those with certain hashes are found.
MANY = np.arange(100_000)
HASHES = encode_keys(MANY).hashes
#: Keys that programs stumble over.
ODD = ["", "a", "x" * 100_000, "\0", "null", None, "é", "\U0001f600", " a", "a "]


def attacks(workers, n, window):
    """Name → the keys, int64[n], of a stream that attacks W workers and a window of that many tuples."""
    home = choose_homes(HASHES, hash_function(0), workers)
    at = np.arange(n)
    looks = 3 if workers <= 40 else 2  # of more, no two keys of so many have the same
    named = np.stack([choose_homes(HASHES, hash_function(0, look), workers) for look in range(looks)])
    alike = MANY[(named == named[:, :1]).all(axis=0)]
    one_of_each = MANY[np.unique(home, return_index=True)[1]]
    return {
        "one key": np.zeros(n, np.int64),
        "no key twice": at,
        "two keys in turn": at % 2,
        "keys of one home": np.resize(MANY[home == 0], n),
        "keys of one home after the other": np.resize(np.repeat(one_of_each, 500), n),
        "keys with the same candidates": np.resize(alike[:2], n),
        "sorted": np.sort(zipf(1.0, 1000).take(0, n)),
        "in runs of 1,000": at // 1000,
        "hot for every other half window": np.where(at // max(window // 2, 1) % 2 == 0, 0, 1 + at % 4096),
        "hot at the end of each window": np.where(at % window >= 0.95 * window, 10**6 + at // window, at % 4096),
        "ever hotter": np.where(np.random.default_rng(0).random(n) < at / n, 0, 1 + at % 4096),
    }


def chased(router, n, chunk=20):
    """Keys, int64[n], that chase worker 0: those that went there when they came last, and else new ones."""
    there, new, keys = [], 10**7, []
    while len(keys) < n:
        own = there[:chunk]
        if not own:
            own = list(range(new, new + chunk))
            new += chunk
        there = [key for key, worker in zip(own, router.route(own).tolist(), strict=True) if worker == 0]
        keys += own
    return np.array(keys[:n])


def shares(n, sources, seed=0):
    """Which of n tuples each of S sources has: most are at the first one, and some sources may have none."""
    at = (np.random.default_rng(seed).random(n) ** 3 * sources).astype(int)
    return [np.flatnonzero(at == source) for source in range(sources)]


def bound(n, workers, slack, window):
    """What BOUNDED_LOAD's docstring promises: of any n tuples in a row, a worker gets at most so many."""
    full = max(0.08 * (1 + slack) * window / workers, 8)
    return (1 + slack) * n / workers + max(full, 1 / slack) + 1


def share_bound(share, worker, slack, window):
    """What its docstring promises of a worker with such a share: by how much any stretch may exceed it."""
    r = share[worker] / share.min()
    full = max(0.08 * (1 + slack) * window / len(share), 8)
    return (max(share[worker] * len(share) * full, r / slack) + r) * (1 + 1e-9)


def excess(steps, allowed):
    """The most by which any stretch's steps exceed what each step allows: a greatest partial sum."""
    before = np.concatenate([[0.0], np.cumsum(steps - allowed)])
    return (before - np.minimum.accumulate(before)).max()


def worst_excess(chosen, workers, slack):
    """The most by which any stretch gives any worker more than (1 + slack) · n/W tuples, by leaky buckets."""
    level, last = np.zeros(workers).tolist(), np.zeros(workers).tolist()
    most, leak = 0.0, (1 + slack) / workers
    for at, worker in enumerate(chosen.tolist()):
        level[worker] = max(0.0, level[worker] - (at - last[worker]) * leak) + 1
        last[worker] = at
        most = max(most, level[worker])
    return most


def bounded(keys, workers, sources, window, slack=0.07):
    """BOUNDED_LOAD: its worst stretch over its bound, for S sources, each of which is restored halfway."""
    options = {"sources": sources, "window": window, "slack": slack}
    chosen = np.empty(len(keys), np.int32)
    for own in shares(len(keys), sources):
        router, other = (create("BOUNDED_LOAD", workers, **options) for _ in range(2))
        half = len(own) // 2
        chosen[own[:half]] = router.route(keys[own[:half]])
        other.load(router.save())
        chosen[own[half:]] = other.route(keys[own[half:]])
    most = sources * bound(0, workers, slack, max(1, round(window / sources**0.5)))
    return worst_excess(chosen, workers, slack) / most


def planned(keys, workers, sources, cuts):
    """PLANNED: a worker's greatest load over its cap, of the batches that end at these places, restored after each."""
    router, worst = create("PLANNED", workers), 0.0
    for first, end in pairwise([0, *cuts, len(keys)]):
        batch, n = keys[first:end], end - first
        if n:
            routed = router.route_together([batch[own] for own in shares(n, sources)])
            loads = np.bincount(np.concatenate(routed), minlength=workers)
            worst = max(worst, loads.max() / max(-(-n // workers), int(1.05 * n / workers + 1e-6)))
        state, router = router.save(), create("PLANNED", workers)
        router.load(state)
    return worst


def porc(keys, workers):
    """PORC: a worker's greatest load over its bound, after any tuple of one source."""
    loads, most = [0] * workers, 0.0
    for tuples, worker in enumerate(create("PORC", workers).route(keys).tolist(), 1):
        loads[worker] += 1
        most = max(most, loads[worker] / (1.01 * tuples / workers + 10))
    return most


def flooded(name, n=300_000):
    """The CPU time of a tuple, ns, of 1,400 keys; and of 1,400 whose hashes agree in their lowest 12 bits."""
    numbers = np.arange(6_000_000)
    alike = numbers[encode_keys(numbers).hashes & np.uint64(4095) == 0][:1400]
    times = []
    for pool in (numbers[:1400], alike):
        router, keys = create(name, 100), encode_keys(np.random.default_rng(0).choice(pool, n))
        router.route(keys)
        begin = time.process_time()
        router.route(keys)
        times.append(1e9 * (time.process_time() - begin) / n)
    return times


def main():
    """Print how near each attack comes to each bound: 1 would be the bound itself."""
    n, all_workers, windows = 20_000, (1, 2, 3, 10, 100, 1000), (500, 100_000)
    rows = {}
    for workers in all_workers:
        for window in windows:
            streams = attacks(workers, n, min(window, 5000))
            streams["what chases a worker"] = chased(create("BOUNDED_LOAD", workers, window=window), n)
            for name, keys in streams.items():
                row = rows.setdefault(name, [0.0] * 5)
                for column, sources in enumerate((1, 3, 64)):
                    row[column] = max(row[column], bounded(keys, workers, sources, window))
                if window == windows[0]:
                    row[3] = max(row[3], *(planned(keys, workers, sources, (1, 17, 3000)) for sources in (1, 3, 64)))
                    row[4] = max(row[4], porc(keys, workers))
    print("| stream | BOUNDED_LOAD, S = 1 | 3 | 64 | PLANNED | PORC |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(f'{figure:.3f}' for figure in row)} |")
    for name in ("BOUNDED_LOAD", "D_CHOICES", "ON_GREEDY"):
        print(
            f"{name}, ns a tuple, of any keys and of keys that collide: {' '.join(f'{t:.0f}' for t in flooded(name))}"
        )


if __name__ == "__main__":
    main()
