"""The routing table paper's synthetic workload: Zipf frequencies whose keys change places between intervals."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TUPLES_PER_KEY = 100


@dataclass(frozen=True)
class Workload:
    """Section 5, "Synthetic data". The defaults are those of Table 2 as far as they can be made out.

    Attributes
    ----------
    keys : int
        K, size of the key domain.
    z : float
        Distribution skewness.
    f : float
        Fluctuation rate: between two intervals the load that hashing gives to some worker changes by f·L̄ at least.
    seed : int
        Everything random comes from it.

    """

    keys: int = 10_000
    z: float = 0.85
    f: float = 1.0
    seed: int = 0

    def intervals(self, home: NDArray[np.int32], workers: int) -> Iterator[NDArray[np.float64]]:
        """The tuples of each key, interval after interval without end: float64[K].

        Parameters
        ----------
        home : int32[K]
            h(k), the worker that the hash function names: swaps are between keys of different workers.
        workers : int
            N_D.

        Notes
        -----
        The paper "keeps swapping frequencies between keys from different task instances until the change on workload
        is significant enough". Swaps of random keys don't get to f = 1 with thousands of keys. Here one worker,
        drawn anew each time, gets the frequencies of random *tuples'* keys of other workers in exchange for
        smaller ones of its own.

        """
        rng = np.random.default_rng(self.seed)
        share = np.arange(1, self.keys + 1) ** -self.z
        frequency = np.sort(rng.multinomial(TUPLES_PER_KEY * self.keys, share / share.sum()))[::-1].astype(np.float64)
        cumulated = np.cumsum(frequency)
        key = rng.permutation(self.keys)  # of each rank
        rank = np.argsort(key)  # of each key
        while True:
            yield frequency[rank]
            worker = rng.integers(workers)
            own = np.flatnonzero(home == worker)
            wanted = self.f * cumulated[-1] / workers if 0 < len(own) < self.keys else 0.0
            for _ in range(100 * self.keys):
                if wanted <= 0:
                    break
                heavy = int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right"))
                light = int(rank[rng.choice(own)])
                if home[key[heavy]] != worker and frequency[heavy] > frequency[light]:
                    wanted -= frequency[heavy] - frequency[light]
                    key[heavy], key[light] = key[light], key[heavy]
                    rank[key[heavy]], rank[key[light]] = heavy, light
