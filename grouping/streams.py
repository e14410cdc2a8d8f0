"""Random streams of keys with a known distribution: the papers' synthetic workloads.

A key is a number. In streams with ranks, key 0 is the most frequent. The key at a position depends only on the stream,
the seed and the position. Each chunk of 2^16 tuples has a separate random generator, so any part can be drawn alone.

>>> zipf(1.2, 1000).take(0, 5, seed=7).tolist() == zipf(1.2, 1000).take(0, 100, seed=7)[:5].tolist()
True
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import erf, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys

CHUNK = 1 << 16


class KeyStream(ABC):
    """An endless stream of keys."""

    p1: float  #: The share of the most frequent key, of drifting keys at any one time.

    @abstractmethod
    def draw(self, rng: np.random.Generator, first: int, n: int) -> NDArray[np.int64]:
        """Draw the n keys from position ``first`` on from ``rng``: int64[n]."""

    def take(self, start: int, stop: int, seed: int = 0) -> NDArray[np.int64]:
        """The keys of the positions [start, stop): int64[stop - start]."""
        parts = [np.empty(0, np.int64)]
        for number in range(start // CHUNK, -(-stop // CHUNK)):
            first = number * CHUNK
            chunk = self.draw(np.random.default_rng((seed, number)), first, CHUNK)
            parts.append(chunk[max(start - first, 0) : stop - first])
        return np.concatenate(parts)


class WeightedStream(KeyStream):
    """Independent draws from K keys, each with probability weight / Σ weights. Weights are at least 0, and not all 0.

    Time O(1) a draw. Memory: 12 bytes for each of the K keys.
    """

    def __init__(self, weights: ArrayLike) -> None:
        array = np.asarray(weights, np.float64)
        total = array.sum() if array.ndim == 1 else 0.0
        if not 0 < total < np.inf or array.min() < 0:
            raise ValueError("weights must be one row of numbers of at least 0, not all 0")
        self.p1 = float(array.max() / total)
        self._table = alias_table(array)

    def draw(self, rng: np.random.Generator, first: int, n: int) -> NDArray[np.int64]:
        return draw_aliases(rng.random(n), *self._table)


class LognormalStream(KeyStream):
    """Lognormal numbers, rounded to integers, as keys.

    This reading of the PKG paper's LN1 and LN2 agrees with its Table I: P(round(x) = 0) is 14.71 % for LN1, and
    P(round(x) = 3) is 7.01 % for LN2. 10 M draws have 16 k and 1.1 k distinct keys. Lognormal *weights* for so many
    keys would give another p1.
    """

    def __init__(self, mu: float, sigma: float) -> None:
        if sigma <= 0:
            raise ValueError(f"sigma is {sigma!r}; valid: above 0")
        self.mu, self.sigma = mu, sigma
        around = int(np.exp(mu - sigma**2))
        self.p1 = max(self._below(k + 0.5) - self._below(k - 0.5) for k in (0, around, around + 1, around + 2))

    def _below(self, x: float) -> float:
        return 0.5 * (1 + erf((log(x) - self.mu) / (self.sigma * sqrt(2)))) if x > 0 else 0.0

    def draw(self, rng: np.random.Generator, first: int, n: int) -> NDArray[np.int64]:
        return np.rint(rng.lognormal(self.mu, self.sigma, n)).astype(np.int64)


class DriftingStream(KeyStream):
    """A stream of k keys that rotate: every ``every`` tuples, each rank gets the key ``step`` further on."""

    def __init__(self, ranks: KeyStream, k: int, every: int, step: int) -> None:
        if every < 1:
            raise ValueError(f"every is {every!r}; valid: at least 1 (tuples)")
        self._ranks = ranks
        self.p1 = ranks.p1
        self.k, self.every, self.step = k, every, step

    def draw(self, rng: np.random.Generator, first: int, n: int) -> NDArray[np.int64]:
        turns = np.arange(first, first + n) // self.every
        return (self._ranks.draw(rng, first, n) + turns * self.step) % self.k


def _check_key_count(k: int) -> int:
    if not 1 <= k <= 1 << 30 or k != int(k):
        raise ValueError(f"k is {k!r}; valid: a number of keys from 1 to 2^30")
    return int(k)


def zipf(z: float = 1.0, k: int = 100_000) -> WeightedStream:
    """Zipf: the key of rank r, counted from 1, has frequency r^-z / Σ x^-z. z = 0 is uniform."""
    return WeightedStream(np.arange(1, _check_key_count(k) + 1, dtype=np.float64) ** -z)


def uniform(k: int = 4096) -> WeightedStream:
    """Every key is equally frequent."""
    return WeightedStream(np.ones(_check_key_count(k)))


def hot(share: float = 0.8, k: int = 197) -> WeightedStream:
    """Key 0 with probability ``share``, else any of all k keys, uniformly, as in the country streams."""
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share!r}; valid: 0 to 1")
    weights = np.full(_check_key_count(k), (1 - share) / k)
    weights[0] += share
    return WeightedStream(weights)


def matched(p1: float = 0.0932, k: int = 2_900_000) -> WeightedStream:
    """Zipf over k keys with the exponent for which the most frequent key has the share p1, 1/k < p1 < 1."""
    if k == 1 or not 1 / _check_key_count(k) < p1 < 1:
        raise ValueError(f"p1 is {p1!r}; valid for {k} keys: above {1 / k:.3g}, below 1")
    ranks = np.log(np.arange(1, k + 1, dtype=np.float64))
    z = step = 0.0
    # log Σ r^-z = -log p1 by Newton's method: convex and falling, so from the left without overshooting.
    while step > 1e-12 or z == 0.0:
        weights = np.exp(-ranks * z)
        total = weights.sum()
        step = (log(total) + log(p1)) * total / (ranks @ weights)
        z += step
    return WeightedStream(np.exp(-ranks * z))


def lognormal(mu: float = 1.789, sigma: float = 2.366) -> LognormalStream:
    """Lognormal numbers as keys. The defaults are the PKG paper's LN1. Its LN2 has mu 2.245 and sigma 1.133."""
    return LognormalStream(mu, sigma)


def drifting(z: float = 1.1, k: int = 10_000, every: int = 1_000_000, step: int = 10) -> DriftingStream:
    """Zipf whose ranks rotate by ``step`` keys every ``every`` tuples."""
    return DriftingStream(zipf(z, k), k, every, step)


def class_costs(keys: Keys, values: Sequence[float], *, seed: int = 0) -> NDArray[np.float64]:
    """Costs by key class, float64[n], ms. A key's hash chooses its class, and all tuples of a class have the same cost.

    POSG's experiments (Rivetti et al., *Proactive Online Scheduling for Shuffle Grouping*, section V-A) draw each key's
    class. Here the seed decides the class, the same at every source.
    """
    classes = choose_homes(keys.hashes, hash_function(seed, 1 << 20), len(values))
    return np.asarray(values, np.float64)[classes][keys.codes]


# Walker's alias table: draws from a discrete distribution of any size in constant time.


@kernel
def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Vose's table of K weights ≥ 0 with a sum above 0: thresholds float64[K] and aliases int32[K]. Time O(K)."""
    k = len(weights)
    threshold = weights * (k / weights.sum())
    alias = np.arange(k).astype(np.int32)
    pending = np.empty(k, np.int32)  # light columns from the left, heavy ones from the right
    light, heavy = 0, k
    for i in range(k):
        if threshold[i] < 1.0:
            pending[light] = i
            light += 1
        else:
            heavy -= 1
            pending[heavy] = i
    while light > 0 and heavy < k:
        light -= 1
        small, large = pending[light], pending[heavy]
        alias[small] = large
        threshold[large] -= 1.0 - threshold[small]
        if threshold[large] < 1.0:
            heavy += 1
            pending[light] = large
            light += 1
    # The rest on either side is 1 up to rounding.
    for i in range(light):
        threshold[pending[i]] = 1.0
    for i in range(heavy, k):
        threshold[pending[i]] = 1.0
    return threshold, alias


@kernel
def draw_aliases(
    uniform: NDArray[np.float64], threshold: NDArray[np.float64], alias: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Draw once for each number in [0, 1). K times the number has an integer part, the column, and a fraction.

    The fraction chooses between the column's two keys.
    """
    k = len(threshold)
    drawn = np.empty(len(uniform), np.int64)
    for i in range(len(uniform)):
        at = uniform[i] * k
        column = min(np.int64(at), k - 1)
        drawn[i] = column if at - column < threshold[column] else alias[column]
    return drawn
