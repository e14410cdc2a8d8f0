"""Parts of a stream as the routers and monitors get them: with no more distinct keys than they have."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.keys import Keys


class Substreams:
    """Cuts parts out of a stream of n tuples with K distinct keys; O(1) a tuple of the part, 4 · K bytes."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._position = np.full(len(keys.hashes), -1, np.int32)

    def part(self, which: slice | NDArray[np.int64]) -> Keys:
        """The tuples of a slice or of these numbers."""
        codes = self.keys.codes[which]
        if len(codes) >= len(self.keys.hashes):
            return Keys(codes, self.keys.hashes, self.keys.distinct)
        renumbered, used = _renumber(np.ascontiguousarray(codes), self._position)
        return Keys(renumbered, self.keys.hashes[used], self.keys.distinct.take(pa.array(used)))


@kernel
def _renumber(codes: NDArray[np.int32], position: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Number the codes by first appearance: the new codes, and the old code of each. ``position`` is all -1, again."""
    renumbered, used = np.empty(len(codes), np.int32), np.empty(len(codes), np.int32)
    distinct = 0
    for i in range(len(codes)):
        code = codes[i]
        if position[code] < 0:
            position[code] = distinct
            used[distinct] = code
            distinct += 1
        renumbered[i] = position[code]
    for i in range(distinct):
        position[used[i]] = -1
    return renumbered, used[:distinct].copy()
