"""The ring of tokens: which worker owns a key, and how tokens are taken away or added."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.hashing import function, mix
from unskew.grouping.keys import hash_keys


class Ring(NamedTuple):
    """T tokens in the order of the ring. Read-only."""

    positions: NDArray[np.uint64]  # [T], ascending
    owners: NDArray[np.int32]  # [T]


def ring_of(tokens: NDArray[np.int64], seed: int) -> Ring:
    """The ring on which worker i has the tokens ``i-0`` to ``i-(tokens[i] - 1)``. O(T log T), once for equal tokens.

    Parameters
    ----------
    tokens : int64[W]
        Each at least 1.
    seed : int
        Chooses the hash function on top of mmh3, for tokens and keys alike.

    """
    return _ring(np.ascontiguousarray(tokens, np.int64).tobytes(), seed)


@lru_cache(maxsize=8)
def _ring(tokens: bytes, seed: int) -> Ring:
    counts = np.frombuffer(tokens, np.int64)
    node = np.repeat(np.arange(len(counts)), counts)
    token = np.arange(len(node)) - np.repeat(np.cumsum(counts) - counts, counts)
    parts = [pa.array(node).cast(pa.string()), pa.array(token).cast(pa.string()), "-"]
    positions = _places(hash_keys(pc.call_function("binary_join_element_wise", parts)), function(seed))
    order = np.argsort(positions, kind="stable")
    ring = Ring(positions[order], node[order].astype(np.int32))
    for array in ring:
        array.flags.writeable = False
    return ring


def owners_of(ring: Ring, hashes: NDArray[np.uint64], seed: int) -> NDArray[np.int32]:
    """The owner of each key: that of the first token clockwise from the key's hash. int32[k], O(k log T)."""
    at = np.searchsorted(ring.positions, _places(hashes, function(seed)))
    return ring.owners[np.where(at == len(ring.positions), 0, at)]


@kernel
def _places(hashes: NDArray[np.uint64], number: np.uint64) -> NDArray[np.uint64]:
    """Where on the ring the mmh3 of keys and tokens fall: uint64[k]."""
    places = np.empty(len(hashes), np.uint64)
    for i in range(len(hashes)):
        places[i] = mix(hashes[i], number)
    return places


def halve(tokens: NDArray[np.int64], node: int) -> NDArray[np.int64]:
    """Take half of the node's tokens away, its last ones; none if it has only one left."""
    fewer = tokens.copy()
    fewer[node] -= fewer[node] // 2
    return fewer


def double(tokens: NDArray[np.int64], node: int) -> NDArray[np.int64]:
    """Double every other node's tokens."""
    more = 2 * tokens
    more[node] = tokens[node]
    return more
