"""The assignment function F: routing table first, then hash (Equation 1)."""

import numpy as np
from numpy.typing import NDArray


def look_up(
    hashes: NDArray[np.uint64],
    home: NDArray[np.int32],
    table_keys: NDArray[np.uint64],
    table_workers: NDArray[np.int32],
) -> NDArray[np.int32]:
    """F(k) of each key: O(k log N_A).

    Parameters
    ----------
    hashes : uint64[k]
        The keys.
    home : int32[k]
        h(k), the worker that the hash function names.
    table_keys : uint64[N_A], ascending
        The keys of the routing table's entries.
    table_workers : int32[N_A]
        The workers of the routing table's entries.

    Returns
    -------
    int32[k]
        The entry's worker where there is one, else the key's home.

    """
    if not len(table_keys):
        return home
    order = np.argsort(hashes)  # one after the other they are found in half the time or less
    at = np.empty(len(hashes), np.int64)
    at[order] = np.searchsorted(table_keys, hashes[order])
    at = np.minimum(at, len(table_keys) - 1)
    return np.where(table_keys[at] == hashes, table_workers[at], home)
