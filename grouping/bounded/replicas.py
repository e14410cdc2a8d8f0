"""The replicas that BOUNDED_LOAD remembers: keys, each with its workers in the order of joining.

C slots hold the keys. A key's first worker is in its slot. Its other workers are nodes of a chain, of which there are M
for all keys. A chain is circular: node −1 stands for the first worker and follows the last node.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.slots import SALT, enter_within, slot_table

KEYS, FREE, SPARE, SPAN = 0, 1, 2, 3  # positions in `size`
NONE, SEEN, ALL = (
    0,
    1,
    2,
)  # the keys with one worker that `forget_idle_replicas` keeps: none, those seen since the last call, all
FIRST = -1  # the node of a key's first worker


class ReplicaTable(NamedTuple):
    """C slots of 41 bytes, M nodes of 9 bytes, and a hash table of keys' slots of 8 to 16 bytes a slot."""

    key: NDArray[np.uint64]  # [C], the key's hash
    first: NDArray[np.int32]  # [C], its first worker
    length: NDArray[np.int32]  # [C], how many workers it has
    reach: NDArray[np.float64]  # [C], length ** -1/4
    cursor: NDArray[np.int32]  # [C], the node to which its last tuple went
    since: NDArray[np.int32]  # [C], its tuples since the cursor was at the first worker
    head: NDArray[np.int32]  # [C], its first node, or FIRST
    last: NDArray[np.int32]  # [C], its last node, or FIRST
    seen: NDArray[np.bool_]  # [C], whether the key has come since the last `forget_idle_replicas`
    worker: NDArray[np.int32]  # [M]
    following: NDArray[np.int32]  # [M], the next node, or FIRST
    used: NDArray[np.bool_]  # [M], whether a tuple of the key has gone there since the last `forget_idle_replicas`
    size: NDArray[np.int64]  # [4], keys; the first free node; free nodes; used entries of the table
    # See unskew.grouping.slots. Only its first ``size[SPAN]`` entries are in use, so that few keys stay in the cache.
    table: NDArray[np.int32]


def make_replicas(keys: int, nodes: int) -> ReplicaTable:
    """Empty room for so many keys, and workers besides the keys' first ones."""
    following = np.arange(1, nodes + 1).astype(np.int32)
    following[-1] = FIRST
    return ReplicaTable(
        key=np.zeros(keys, np.uint64),
        first=np.zeros(keys, np.int32),
        length=np.zeros(keys, np.int32),
        reach=np.zeros(keys),
        cursor=np.zeros(keys, np.int32),
        since=np.zeros(keys, np.int32),
        head=np.zeros(keys, np.int32),
        last=np.zeros(keys, np.int32),
        seen=np.zeros(keys, np.bool_),
        worker=np.zeros(nodes, np.int32),
        following=following,
        used=np.zeros(nodes, np.bool_),
        size=np.array([0, 0, nodes, 16]),
        table=slot_table(keys),
    )


@kernel
def reach_limit(length: int) -> float:
    """The limit of a key with so many workers, between 0, the limit of open workers, and 1, a whole key's."""
    return 1 / math.sqrt(math.sqrt(float(length)))


@kernel
def add_key(replicas: ReplicaTable, key: np.uint64, worker: int) -> int:
    """Give a new key a free slot, which there must be, with one worker, and return it."""
    slot: int = replicas.size[KEYS]
    replicas.size[KEYS] += 1
    replicas.key[slot] = key
    replicas.first[slot] = worker
    replicas.length[slot] = 1
    replicas.reach[slot] = 1.0
    replicas.cursor[slot] = replicas.head[slot] = replicas.last[slot] = FIRST
    replicas.since[slot] = 0
    replicas.seen[slot] = True
    if 4 * slot < replicas.size[SPAN] or replicas.size[SPAN] == len(replicas.table) - SALT:
        enter_within(replicas.table, replicas.size[SPAN], replicas.key, slot)
    else:
        _enter_all(replicas)
    return slot


@kernel
def _enter_all(replicas: ReplicaTable) -> None:
    """Enter all keys anew, into a part of the table with 4 to 8 entries a key, or into all of it."""
    span = 16
    while span < 4 * (replicas.size[KEYS] + 1) and span < len(replicas.table) - SALT:
        span *= 2
    replicas.size[SPAN] = span
    replicas.table[:span] = -1
    for slot in range(replicas.size[KEYS]):
        enter_within(replicas.table, span, replicas.key, slot)


@kernel
def add_worker(replicas: ReplicaTable, slot: int, worker: int) -> None:
    """Add a worker to a key's workers if a node is free. The cursor moves to that node."""
    if replicas.size[SPARE] == 0:
        return
    added: int = replicas.size[FREE]
    replicas.size[FREE] = replicas.following[added]
    replicas.size[SPARE] -= 1
    replicas.worker[added] = worker
    replicas.used[added] = True
    replicas.following[added] = FIRST
    if replicas.head[slot] == FIRST:
        replicas.head[slot] = added
    else:
        replicas.following[replicas.last[slot]] = added
    replicas.last[slot] = replicas.cursor[slot] = added
    replicas.length[slot] += 1
    replicas.reach[slot] = reach_limit(replicas.length[slot])


@kernel
def mark_use(replicas: ReplicaTable, slot: int, worker: int) -> bool:
    """Record that a key's tuple goes to a worker. Return False if that isn't one of the key's."""
    if replicas.first[slot] == worker:
        return True
    node: int = replicas.head[slot]
    while node != FIRST:
        if replicas.worker[node] == worker:
            replicas.used[node] = True
            return True
        node = replicas.following[node]
    return False


@kernel
def forget_idle_replicas(replicas: ReplicaTable, keep: int) -> None:
    """Forget workers without a tuple since the last call, except keys' first ones. Then forget whole keys.

    A key with one worker left stays if ``keep`` is ALL, or if it is SEEN and the key has come since the last call.
    """
    kept = 0
    for slot in range(replicas.size[KEYS]):
        _prune_slot(replicas, slot)
        if replicas.length[slot] == 1 and not (keep == ALL or (keep == SEEN and replicas.seen[slot])):
            continue
        replicas.key[kept] = replicas.key[slot]
        replicas.first[kept] = replicas.first[slot]
        replicas.length[kept] = replicas.length[slot]
        replicas.reach[kept] = reach_limit(replicas.length[slot])
        replicas.head[kept] = replicas.head[slot]
        replicas.last[kept] = replicas.last[slot]
        replicas.cursor[kept] = FIRST
        replicas.since[kept] = 0
        replicas.seen[kept] = False
        kept += 1
    if kept < replicas.size[KEYS]:
        replicas.size[KEYS] = kept
        _enter_all(replicas)


@kernel
def _prune_slot(replicas: ReplicaTable, slot: int) -> None:
    before = FIRST
    node: int = replicas.head[slot]
    while node != FIRST:
        after: int = replicas.following[node]
        if replicas.used[node]:
            replicas.used[node] = False
            before = node
        else:
            if before == FIRST:
                replicas.head[slot] = after
            else:
                replicas.following[before] = after
            replicas.following[node] = replicas.size[FREE]
            replicas.size[FREE] = node
            replicas.size[SPARE] += 1
            replicas.length[slot] -= 1
        node = after
    replicas.last[slot] = before


@kernel
def list_chains(replicas: ReplicaTable) -> NDArray[np.int32]:
    """All chains as rows in order of slots: slot, worker, whether it was used, whether the cursor is there."""
    rows = np.zeros((len(replicas.worker) - replicas.size[SPARE], 4), np.int32)
    row = 0
    for slot in range(replicas.size[KEYS]):
        node: int = replicas.head[slot]
        while node != FIRST:
            rows[row, 0] = slot
            rows[row, 1] = replicas.worker[node]
            rows[row, 2] = replicas.used[node]
            rows[row, 3] = replicas.cursor[slot] == node
            node = replicas.following[node]
            row += 1
    return rows


@kernel
def restore_chains(replicas: ReplicaTable, rows: NDArray[np.int32]) -> None:
    """Restore the chains of ``list_chains``, and enter the keys. The slots' other fields must be restored first."""
    keys = replicas.size[KEYS]
    replicas.length[:keys] = 1
    replicas.reach[:keys] = 1.0
    replicas.head[:keys] = FIRST
    replicas.last[:keys] = FIRST
    replicas.cursor[:keys] = FIRST
    for row in range(len(rows)):
        slot: int = rows[row, 0]
        cursor: int = replicas.cursor[slot]
        add_worker(replicas, slot, rows[row, 1])
        added: int = replicas.last[slot]
        replicas.used[added] = rows[row, 2] != 0
        replicas.cursor[slot] = added if rows[row, 3] else cursor
    _enter_all(replicas)
