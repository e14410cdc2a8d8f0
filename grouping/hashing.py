"""The family of hash functions: as many as a scheme wants, from one 64-bit hash a key."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)


def function(seed: int, index: int = 0) -> np.uint64:
    """The number of a seed's ``index``-th hash function (0 ≤ index < 2^32); seeds share none."""
    return np.uint64((seed << 32) + index & 0xFFFF_FFFF_FFFF_FFFF)


@njit(cache=True)
def mix(key: np.uint64, number: np.uint64) -> np.uint64:
    """Hash function ``number`` of a key's hash, both uint64.

    The finaliser of SplitMix64 over ``key + number·φ``: a bijection with full avalanche, so that the functions of
    the family are as good as independent and a key's bytes are still read only once.
    """
    z = key + _GOLDEN * number
    z = (z ^ (z >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    return z ^ (z >> _31)


@njit(cache=True)
def homes(hashes: NDArray[np.uint64], number: np.uint64, workers: int) -> NDArray[np.int32]:
    """``mix(key, number) mod W`` of each key: int32[k]."""
    home = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        home[i] = mix(hashes[i], number) % np.uint64(workers)
    return home


@njit(cache=True)
def rehash(hashes: NDArray[np.uint64], number: np.uint64) -> NDArray[np.uint64]:
    """``mix(key, number)`` of each key: uint64[k]."""
    mixed = np.empty(len(hashes), np.uint64)
    for i in range(len(hashes)):
        mixed[i] = mix(hashes[i], number)
    return mixed


@njit(cache=True)
def draw(
    key: np.uint64, number: np.uint64, deck: NDArray[np.int32], drawn: NDArray[np.int32], out: NDArray[np.int32]
) -> None:
    """Draw ``len(out)`` different workers for a key: a Fisher-Yates shuffle of its own, as far as it's needed.

    The i-th worker is chosen by hash function ``number + i`` among those not yet drawn, so every ordered choice is
    equally likely, the first is the key's home in KEY, and fewer choices are a prefix of more. O(d).

    Parameters
    ----------
    key, number : uint64
        The key's hash, and the number of the first hash function.
    deck : int32[W]
        ``arange(W)``; the same again afterwards.
    drawn : int32[≥ d]
        Room to work in.
    out : int32[d]
        The result, d ≤ W.

    """
    left = np.uint64(len(deck))
    for i in range(len(out)):
        j = i + np.int64(mix(key, number + np.uint64(i)) % left)
        left -= np.uint64(1)
        drawn[i] = j
        deck[i], deck[j] = deck[j], deck[i]
        out[i] = deck[i]
    for i in range(len(out) - 1, -1, -1):
        j = drawn[i]
        deck[i], deck[j] = deck[j], deck[i]
