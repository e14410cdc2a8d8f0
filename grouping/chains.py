"""Which workers a key has, for keys in slots: chains of nodes from one pool, the latest worker first, compiled.

Kernels pass the arrays themselves, as they do with ``unskew.grouping.slots``.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel

END = -1
FREE, SPARE = 0, 1  # positions in `pool`


class Chains(NamedTuple):
    """C chains of M nodes in all: 4 bytes a chain, 8 a node."""

    head: NDArray[np.int32]  # [C], a chain's latest node, or END
    worker: NDArray[np.int32]  # [M]
    following: NDArray[np.int32]  # [M], the node before it, or END
    pool: NDArray[np.int64]  # [2], the first free node; how many are free


def chains(slots: int, nodes: int) -> Chains:
    """Empty chains."""
    following = np.arange(1, nodes + 1).astype(np.int32)
    following[-1] = END
    return Chains(np.full(slots, END, np.int32), np.zeros(nodes, np.int32), following, np.array([0, nodes]))


@kernel
def add(of: Chains, slot: int, worker: int) -> int:
    """Put a worker first in a slot's chain; its node, or END if none is free."""
    if of.pool[SPARE] == 0:
        return END
    node: int = of.pool[FREE]
    of.pool[FREE] = of.following[node]
    of.pool[SPARE] -= 1
    of.worker[node] = worker
    of.following[node] = of.head[slot]
    of.head[slot] = node
    return node


@kernel
def drop(of: Chains, slot: int) -> None:
    """Give a slot's nodes back."""
    node: int = of.head[slot]
    of.head[slot] = END
    while node != END:
        after: int = of.following[node]
        of.following[node] = of.pool[FREE]
        of.pool[FREE] = node
        of.pool[SPARE] += 1
        node = after


@kernel
def nodes_of(of: Chains) -> NDArray[np.int32]:
    """All nodes with their slots, int32[n, 2], the earliest of each slot first: the order in which to ``add`` them."""
    rows = np.empty((len(of.worker) - of.pool[SPARE], 2), np.int32)
    row = len(rows)
    for slot in range(len(of.head) - 1, -1, -1):
        node: int = of.head[slot]
        while node != END:
            row -= 1
            rows[row, 0] = slot
            rows[row, 1] = node
            node = of.following[node]
    return rows
