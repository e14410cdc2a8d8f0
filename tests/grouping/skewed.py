"""Small skewed streams with times and costs; equal arguments give equal streams."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from unskew.grouping.streams import hot, uniform, zipf

#: Streams of the library's, from one key to none twice.
LIBRARY = st.sampled_from(
    [hot(0.0), hot(0.3), hot(0.8, 30), hot(1.0), zipf(0.5, 2000), zipf(1.0, 500), zipf(1.6, 5000), uniform(40_000)]
)
#: Those of at most 500 keys.
FEW_KEYS = st.sampled_from([hot(0.0), hot(0.3), hot(0.8, 30), hot(1.0), zipf(0.8, 100), zipf(1.6, 500)])


@dataclass(frozen=True)
class Stream:
    keys: list
    times: np.ndarray  # ms, ascending
    costs: np.ndarray  # ms

    def part(self, start, stop):
        return Stream(self.keys[start:stop], self.times[start:stop], self.costs[start:stop])

    def __len__(self):
        return len(self.keys)


def skewed(n=4000, distinct=300, z=1.2, seed=0, duration=400):
    """Zipf keys k0, k1, …, with ranks that change once, halfway; ``duration`` in s."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, distinct + 1) ** -float(z)
    rank = rng.choice(distinct, n, p=share / share.sum())
    rank[n // 2 :] = (rank[n // 2 :] + 3) % distinct
    times = np.sort(rng.integers(0, max(1, 1000 * duration), n)) + 1_000_000
    return Stream([f"k{r}" for r in rank], times, rng.lognormal(0, 1, n))


def replication(keys, chosen):
    """Workers a key, of keys that are integers."""
    return len(np.unique(keys * 100_000 + chosen)) / len(np.unique(keys))


def replicas_of(keys, chosen):
    """(key, worker) → how many tuples."""
    pairs, number = np.unique(np.stack([keys, chosen]), axis=1, return_counts=True)
    return dict(zip(map(tuple, pairs.T.tolist()), number.tolist(), strict=True))
