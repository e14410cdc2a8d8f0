"""How many distinct keys a stream has, without remembering them."""

import numpy as np
from numpy.typing import NDArray

_RANGE = 2.0**64


class Distinct:
    """The k smallest hashes seen (KMV): if they reach up to the share s of all hashes, there are about k / s keys.

    Exact below ``size`` keys; beyond, the standard error is 1 / √(size - 2), 0.8 % for the default.

    References
    ----------
    Bar-Yossef et al.: Counting Distinct Elements in a Data Stream, RANDOM 2002, Section 2; Beyer et al.: On Synopses
    for Distinct-Value Estimation under Multiset Operations, SIGMOD 2007 (the unbiased estimate).

    """

    def __init__(self, size: int = 1 << 14) -> None:
        self._size = size
        self._smallest = np.empty(0, np.uint64)

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Take up the hashes of some keys, uint64[n]."""
        if len(self._smallest) == self._size:
            hashes = hashes[hashes < self._smallest[-1]]
        if len(hashes):
            self._smallest = np.unique(np.concatenate([self._smallest, hashes]))[: self._size]

    def estimate(self) -> int:
        """About how many distinct ones there were."""
        if len(self._smallest) < self._size:
            return len(self._smallest)
        return round((self._size - 1) * _RANGE / (float(self._smallest[-1]) + 1))
