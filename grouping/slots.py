"""Keys in slots, compiled: a hash table of keys' slots, and a chain of workers for each slot.

The table uses open addressing over schemes' arrays of keys. A chain has a key's workers, latest first. The nodes of all
chains come from one pool.

The table's functions take plain arrays, because numba counts references to a named tuple's fields at each access, which
costs more than the look-up. So kernels take the arrays out of named tuples once, before the loop over tuples.
"""

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel

#: The number of entries for the salt at a table's end.
SALT = 2
_1, _32 = np.uint64(1), np.uint64(32)


def slot_table(slots: int) -> NDArray[np.int32]:
    """An empty table for so many slots: int32[a power of 2 ≥ 2·slots, and ``SALT``]. Free entries are −1.

    A key's position is given by its product with the salt, an odd random number, which doesn't affect answers. So
    nobody can choose keys that collide (multiply-shift hashing: Dietzfelbinger et al., J. Algorithms 25, 1997).
    """
    table = np.full((1 << max(2 * slots - 1, 1).bit_length()) + SALT, -1, np.int32)
    table[-SALT:] = np.frombuffer(os.urandom(4 * SALT), np.int32)
    return table


@kernel
def find_slot(table: NDArray[np.int32], keys: NDArray[np.uint64], key: np.uint64) -> int:
    """The slot of the key, or −1 if it wasn't entered."""
    return find_within(table, len(table) - SALT, keys, key)


@kernel
def enter_slot(table: NDArray[np.int32], keys: NDArray[np.uint64], slot: int) -> None:
    """Enter a slot with a new key, for ``find_slot``."""
    enter_within(table, len(table) - SALT, keys, slot)


@kernel
def enter_slots(table: NDArray[np.int32], keys: NDArray[np.uint64], slots: int) -> None:
    """Empty the table and enter the first ``slots`` slots."""
    table[:-SALT] = -1
    for slot in range(slots):
        enter_slot(table, keys, slot)


@kernel
def find_within(table: NDArray[np.int32], span: int, keys: NDArray[np.uint64], key: np.uint64) -> int:
    """As ``find_slot``, in the table's first ``span`` entries, a power of 2."""
    at = first_probe(table, span, key)
    while table[at] >= 0 and keys[table[at]] != key:
        at = (at + 1) & (span - 1)
    slot: int = table[at]
    return slot


@kernel
def enter_within(table: NDArray[np.int32], span: int, keys: NDArray[np.uint64], slot: int) -> None:
    """As ``enter_slot``, in the table's first ``span`` entries, a power of 2."""
    at = first_probe(table, span, keys[slot])
    while table[at] >= 0:
        at = (at + 1) & (span - 1)
    table[at] = slot


@kernel
def first_probe(table: NDArray[np.int32], span: int, key: np.uint64) -> np.int64:
    """Where a key's search begins: the highest bits of its product with the salt."""
    salt = (np.uint64(table[-2]) << _32) ^ np.uint64(table[-1]) | _1
    return np.int64((key * salt >> _32) * np.uint64(span) >> _32)


END = -1
FREE, SPARE = 0, 1  # positions in `pool`


class Chains(NamedTuple):
    """C chains, one per slot, with M nodes in all. Memory: 4 bytes a chain and 8 a node."""

    head: NDArray[np.int32]  # [C], a chain's latest node, or END
    worker: NDArray[np.int32]  # [M]
    following: NDArray[np.int32]  # [M], the node that was added before this one, or END
    pool: NDArray[np.int64]  # [2], the first free node; the number of free ones


def make_chains(slots: int, nodes: int) -> Chains:
    """Empty chains."""
    following = np.arange(1, nodes + 1).astype(np.int32)
    following[-1] = END
    return Chains(np.full(slots, END, np.int32), np.zeros(nodes, np.int32), following, np.array([0, nodes]))


@kernel
def add_node(of: Chains, slot: int, worker: int) -> int:
    """Prepend a worker to a slot's chain. Return its node, or END if none is free."""
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
def drop_nodes(of: Chains, slot: int) -> None:
    """Return a slot's nodes to the pool."""
    node: int = of.head[slot]
    of.head[slot] = END
    while node != END:
        after: int = of.following[node]
        of.following[node] = of.pool[FREE]
        of.pool[FREE] = node
        of.pool[SPARE] += 1
        node = after


@kernel
def list_nodes(of: Chains) -> NDArray[np.int32]:
    """All pairs (slot, node), int32[n, 2], each slot's earliest node first, for restoring with ``add_node``."""
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
