"""The family of hash functions: as many as a scheme wants, from one 64-bit hash a key."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)
_1, _27, _30, _31, _32 = np.uint64(1), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


def function(seed: int, index: int = 0) -> np.uint64:
    """The number of a seed's ``index``-th hash function (0 ≤ index < 2^32); seeds share none."""
    return np.uint64((seed << 32) + index & 0xFFFF_FFFF_FFFF_FFFF)


@kernel
def mix(key: np.uint64, number: np.uint64) -> np.uint64:
    """Hash function ``number`` of a key's hash, both uint64.

    The finaliser of SplitMix64 over ``key + number·φ``: a bijection with full avalanche, so that the functions of
    the family are as good as independent and a key's bytes are still read only once.
    """
    z = key + _GOLDEN * number
    z = (z ^ (z >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    return z ^ (z >> _31)


@kernel
def below(mixed: np.uint64, n: int) -> np.int64:
    """A mixed hash as a number in [0, n), all equally likely: by multiply and shift, several times faster than mod."""
    return np.int64(((mixed >> _32) * np.uint64(n)) >> _32)


@kernel
def homes(hashes: NDArray[np.uint64], number: np.uint64, workers: int) -> NDArray[np.int32]:
    """The worker that a hash function names for each key: int32[k]."""
    home = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        home[i] = below(mix(hashes[i], number), workers)
    return home


@kernel
def candidates(hashes: NDArray[np.uint64], number: np.uint64, choices: int, workers: int) -> NDArray[np.int32]:
    """Draw d different workers for each key (d ≤ W): int32[k, d]. O(k·d).

    A Fisher-Yates shuffle of the workers for each key, as far as it's needed: the i-th is chosen by hash function
    ``number + i`` among those not yet drawn. So every ordered choice is equally likely, the first is the key's home in
    KEY, and fewer choices are a prefix of more.
    """
    drawn = np.empty((len(hashes), choices), np.int32)
    if choices == 2:  # the shuffle's two steps written out
        for i in range(len(hashes)):
            first = below(mix(hashes[i], number), workers)
            second = 1 + below(mix(hashes[i], number + _1), workers - 1)
            drawn[i, 0] = first
            drawn[i, 1] = 0 if second == first else second
        return drawn
    deck = np.arange(workers).astype(np.int32)
    swapped = np.empty(choices, np.int64)
    for i in range(len(hashes)):
        for step in range(choices):
            other = step + below(mix(hashes[i], number + np.uint64(step)), workers - step)
            swapped[step] = other
            deck[step], deck[other] = deck[other], deck[step]
            drawn[i, step] = deck[step]
        for step in range(choices - 1, -1, -1):
            other = swapped[step]
            deck[step], deck[other] = deck[other], deck[step]
    return drawn
