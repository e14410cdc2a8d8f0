"""What a source counts in its part of a batch before it routes any tuple of it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Counts(NamedTuple):
    """The load of one source's part of a batch, in tuples or in cost.

    Memory: 16 bytes a key that is counted alone, and 8 a worker.

    Attributes
    ----------
    tuples : int
        The number of tuples.
    keys : uint64[k]
        The hashes of the keys that are counted alone, ascending.
    loads : float64[k]
        The loads of these keys. They are whole numbers if tuples are counted.
    tails : float64[W]
        The load of all other keys, by their home.

    """

    tuples: int
    keys: NDArray[np.uint64]
    loads: NDArray[np.float64]
    tails: NDArray[np.float64]


class Merged(NamedTuple):
    """The counts of S sources.

    Attributes
    ----------
    keys : uint64[m]
        The keys that any source has counted alone, ascending.
    loads : float64[m]
        The loads of these keys at the sources that have counted them alone.
    tails : float64[W]
        All other load, by its keys' home.
    at : list of int64[k]
        For each source, the positions of its keys in ``keys``.
    before : list of float64[k]
        For each source and each of its keys, that key's load at the sources before it.

    """

    keys: NDArray[np.uint64]
    loads: NDArray[np.float64]
    tails: NDArray[np.float64]
    at: list[NDArray[np.int64]]
    before: list[NDArray[np.float64]]


def merged(parts: Sequence[Counts]) -> Merged:
    """Merge the counts of S ≥ 1 sources, in the order of the sources."""
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    loads, before = np.zeros(len(keys)), []
    positions = [np.searchsorted(keys, part.keys) for part in parts]
    for part, at in zip(parts, positions, strict=True):
        before.append(loads[at])
        loads[at] += part.loads
    return Merged(keys, loads, np.sum([part.tails for part in parts], axis=0), positions, before)
