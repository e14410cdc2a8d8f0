"""Hash functions: one 64-bit hash of each key's bytes, and a family of hash functions over that hash.

The hash of the bytes is the first 64 bits of MurmurHash3 x64 128 (seed 0), computed over Arrow's buffers, because the
mmh3 package hashes one Python object per call, which for distinct strings would cost more than routing. Tests check
that both implementations agree.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_N1, _N2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_1, _5, _8, _27, _30 = np.uint64(1), np.uint64(5), np.uint64(8), np.uint64(27), np.uint64(30)
_31, _32, _33, _64 = np.uint64(31), np.uint64(32), np.uint64(33), np.uint64(64)


def hash_with_murmur(keys: pa.Array) -> NDArray[np.uint64]:
    """The hash of each key of a large_binary array: uint64[k]. O(bytes)."""
    _, offsets, data = keys.buffers()
    if not len(keys):
        return np.empty(0, np.uint64)
    bounds = np.frombuffer(offsets, np.int64, len(keys) + 1, 8 * keys.offset)
    return _hash_buffers(np.frombuffer(data or b"", np.uint8), bounds)


@kernel
def _hash_buffers(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(bounds) - 1, np.uint64)
    for i in range(len(hashes)):
        start, stop = bounds[i], bounds[i + 1]
        h1 = h2 = np.uint64(0)
        at = start
        while at + 16 <= stop:
            h1 ^= _mix_k1(_load_word(data, at, at + 8))
            h1 = (_rotate_left(h1, _27) + h2) * _5 + _N1
            h2 ^= _mix_k2(_load_word(data, at + 8, at + 16))
            h2 = (_rotate_left(h2, _31) + h1) * _5 + _N2
            at += 16
        if stop - at > 8:
            h2 ^= _mix_k2(_load_word(data, at + 8, stop))
        if stop > at:
            h1 ^= _mix_k1(_load_word(data, at, min(at + 8, stop)))
        length = np.uint64(stop - start)
        h1 ^= length
        h2 ^= length
        h1 += h2
        h2 += h1
        hashes[i] = _finalise_hash(h1) + _finalise_hash(h2)
    return hashes


@kernel
def _load_word(data: NDArray[np.uint8], start: int, stop: int) -> np.uint64:
    """Up to 8 bytes, little-endian."""
    word = np.uint64(0)
    for at in range(stop - 1, start - 1, -1):
        word = (word << _8) | np.uint64(data[at])
    return word


@kernel
def _rotate_left(x: np.uint64, by: np.uint64) -> np.uint64:
    return (x << by) | (x >> (_64 - by))


@kernel
def _mix_k1(word: np.uint64) -> np.uint64:
    return _rotate_left(word * _C1, _31) * _C2


@kernel
def _mix_k2(word: np.uint64) -> np.uint64:
    return _rotate_left(word * _C2, _33) * _C1


@kernel
def _finalise_hash(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> _33)) * _M1
    h = (h ^ (h >> _33)) * _M2
    return h ^ (h >> _33)


def hash_function(seed: int, index: int = 0) -> np.uint64:
    """The number of a seed's ``index``-th hash function, 0 ≤ index < 2^32.

    Seeds that are equal modulo 2^32 share all hash functions; others have none in common.
    """
    return np.uint64((seed << 32) + index & 0xFFFF_FFFF_FFFF_FFFF)


@kernel
def mix_hash(key: np.uint64, number: np.uint64) -> np.uint64:
    """Apply hash function ``number`` to a key's hash, both uint64.

    This is the finaliser of SplitMix64 over ``key + number·φ``, a bijection with full avalanche. So the family's
    functions are practically independent, and a key's bytes are read only once.
    """
    z = key + _GOLDEN * number
    z = (z ^ (z >> _30)) * _A
    z = (z ^ (z >> _27)) * _B
    return z ^ (z >> _31)


@kernel
def reduce_to_range(mixed: np.uint64, n: int) -> np.int64:
    """Map a mixed hash to [0, n), uniformly, by multiply and shift, which is several times faster than mod."""
    return np.int64(((mixed >> _32) * np.uint64(n)) >> _32)


@kernel
def choose_homes(hashes: NDArray[np.uint64], number: np.uint64, workers: int) -> NDArray[np.int32]:
    """Each key's home, by a hash function: int32[k]."""
    home = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        home[i] = reduce_to_range(mix_hash(hashes[i], number), workers)
    return home


@kernel
def draw_candidates(hashes: NDArray[np.uint64], number: np.uint64, choices: int, workers: int) -> NDArray[np.int32]:
    """Draw d different workers for each key (d ≤ W): int32[k, d]. O(k·d).

    This is a Fisher-Yates shuffle of the workers per key, ended after d steps: hash function ``number + i`` chooses the
    i-th worker among those not yet drawn. So every ordered choice is equally likely. The first worker is the key's home
    in KEY. With fewer choices, a key has a prefix of its workers with more.
    """
    drawn = np.empty((len(hashes), choices), np.int32)
    if choices == 2:  # the shuffle's two steps inlined
        for i in range(len(hashes)):
            first = reduce_to_range(mix_hash(hashes[i], number), workers)
            second = 1 + reduce_to_range(mix_hash(hashes[i], number + _1), workers - 1)
            drawn[i, 0] = first
            drawn[i, 1] = 0 if second == first else second
        return drawn
    deck = np.arange(workers).astype(np.int32)
    for i in range(len(hashes)):
        draw_for_key(hashes[i], number, deck, drawn[i])
    return drawn


@kernel
def draw_for_key(key: np.uint64, number: np.uint64, deck: NDArray[np.int32], drawn: NDArray[np.int32]) -> None:
    """Fill ``drawn`` with candidates of one key. O(d). ``deck`` is 0, …, W − 1 before and after."""
    for step in range(len(drawn)):
        other = step + reduce_to_range(mix_hash(key, number + np.uint64(step)), len(deck) - step)
        drawn[step] = other
        deck[step], deck[other] = deck[other], deck[step]
    for step in range(len(drawn) - 1, -1, -1):
        other = drawn[step]
        drawn[step] = deck[step]
        deck[step], deck[other] = deck[other], deck[step]
