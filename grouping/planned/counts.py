"""A source's counts of its part of a batch, before routing.

Hot keys, and keys with remembered replicas, are counted alone. The others are counted in buckets, of which a home has
64, by their hash. A bucket is planned, and its replicas are remembered, like a key's, with its number in place of a
hash.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.hashing import mix_hash, reduce_to_range
from unskew.grouping.kernel_cache import kernel

#: The buckets of each home.
BUCKETS = 64


@kernel
def find_buckets(keys: NDArray[np.uint64], function: np.uint64, workers: int) -> NDArray[np.uint64]:
    """The bucket of each key, or of each bucket itself. A bucket's home is its keys' home in KEY: the same hash, cut
    finer.

    A key whose hash is a bucket's number (probability < 10^-14) belongs to that bucket.
    """
    bucket = np.empty(len(keys), np.uint64)
    number = np.uint64(BUCKETS * workers)
    for i in range(len(keys)):
        bucket[i] = (
            keys[i] if keys[i] < number else np.uint64(reduce_to_range(mix_hash(keys[i], function), BUCKETS * workers))
        )
    return bucket


def bucket_homes(buckets: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The home of each bucket."""
    return (buckets // np.uint64(BUCKETS)).astype(np.int32)


def unique_keys(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The distinct keys, ascending. ``np.unique`` hashes integers, which takes several times as long."""
    ordered = np.sort(keys)
    return ordered[np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]]


class SourceCounts(NamedTuple):
    """The load of one source's part of a batch, in tuples or in cost.

    Memory: 16 bytes a bucket or key that is counted alone.

    """

    tuples: int  #: The number of tuples.
    #: uint64[k]: The buckets with tuples, and the hashes of the keys counted alone. Ascending.
    keys: NDArray[np.uint64]
    loads: NDArray[np.float64]  #: float64[k]: The loads of these keys: integers if tuples are counted.


class BatchCounts(NamedTuple):
    """The counts of S sources."""

    keys: NDArray[np.uint64]  #: uint64[m]: The buckets, and the keys that any source has counted alone. Ascending.
    loads: NDArray[np.float64]  #: float64[m]: The loads of these keys, at the sources that counted them.
    at: list[NDArray[np.int64]]  #: list of int64[k]: For each source, the positions of its keys in ``keys``.
    #: list of float64[k]: For each source and each of its keys, that key's load at the sources before it.
    before: list[NDArray[np.float64]]


def merge_counts(parts: Sequence[SourceCounts]) -> BatchCounts:
    """Merge the counts of S ≥ 1 sources, in the order of the sources."""
    keys = unique_keys(np.concatenate([part.keys for part in parts]))
    loads, before = np.zeros(len(keys)), []
    positions = [np.searchsorted(keys, part.keys) for part in parts]
    for part, at in zip(parts, positions, strict=True):
        before.append(loads[at])
        loads[at] += part.loads
    return BatchCounts(keys, loads, positions, before)
