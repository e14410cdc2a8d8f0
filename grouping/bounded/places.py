"""Which keys aren't just at home: the keys that BOUNDED_LOAD remembers, each with its workers in the order they joined.

C slots hold keys; a key's first worker is in its slot, the others are nodes of a chain, of which there are M for all.
A chain is read as a circle: node −1 stands for the first worker, and follows the last node.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.slots import enter_slot, enter_slots, slot_table

KEYS, FREE, SPARE, SPAN = 0, 1, 2, 3  # positions in `size`
NONE, SEEN, ALL = 0, 1, 2  # keys with one worker that stay when places are tidied
FIRST = -1  # the node that stands for a key's first worker


class Places(NamedTuple):
    """C slots of 41 bytes, M nodes of 9, and the hash table that finds a key's slot, of 8 to 16 bytes a slot."""

    key: NDArray[np.uint64]  # [C], the key's hash
    first: NDArray[np.int32]  # [C], its first worker
    length: NDArray[np.int32]  # [C], how many workers it has
    reach: NDArray[np.float64]  # [C], length ** -1/4
    cursor: NDArray[np.int32]  # [C], the node where its last tuple went, of a long chain
    since: NDArray[np.int32]  # [C], its tuples since the cursor was at the first worker
    head: NDArray[np.int32]  # [C], its first node, or FIRST
    last: NDArray[np.int32]  # [C], its last node, or FIRST
    seen: NDArray[np.bool_]  # [C], whether it has come since the last time that places were tidied
    worker: NDArray[np.int32]  # [M]
    following: NDArray[np.int32]  # [M], the next node, or FIRST
    used: NDArray[np.bool_]  # [M], whether a tuple has gone there since places were tidied
    size: NDArray[np.int64]  # [4], keys; the first free node; nodes that are free; entries of the table in use
    table: NDArray[
        np.int32
    ]  # see unskew.grouping.slots; no more of it is in use than few keys need, to stay in the cache


def places(keys: int, nodes: int) -> Places:
    """Room for that many keys, and for that many workers besides their first ones."""
    following = np.arange(1, nodes + 1).astype(np.int32)
    following[-1] = FIRST
    return Places(
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
def reach_of(length: int) -> float:
    """How far a key of that many workers may reach between what's open to all and what is to a whole key."""
    return 1 / math.sqrt(math.sqrt(float(length)))


@kernel
def find(table: NDArray[np.int32], span: int, keys: NDArray[np.uint64], key: np.uint64) -> int:
    """The slot with that key, or −1: ``unskew.grouping.slots.find_slot`` in the first ``span`` entries of the table."""
    at = np.int64(key) & (span - 1)
    while table[at] >= 0 and keys[table[at]] != key:
        at = (at + 1) & (span - 1)
    slot: int = table[at]
    return slot


@kernel
def remember(places: Places, key: np.uint64, worker: int) -> int:
    """Give a key that has no slot yet (there must be a free one) a slot, with one worker; the slot."""
    slot: int = places.size[KEYS]
    places.size[KEYS] += 1
    places.key[slot] = key
    places.first[slot] = worker
    places.length[slot] = 1
    places.reach[slot] = 1.0
    places.cursor[slot] = places.head[slot] = places.last[slot] = FIRST
    places.since[slot] = 0
    places.seen[slot] = True
    if 4 * slot < places.size[SPAN] or places.size[SPAN] == len(places.table):
        enter_slot(places.table[: places.size[SPAN]], places.key, slot)
    else:
        _enter_all(places)
    return slot


@kernel
def _enter_all(places: Places) -> None:
    """Make all keys findable anew, in a part of the table of 4 to 8 entries a key, or all of it."""
    span = 16
    while span < 4 * (places.size[KEYS] + 1) and span < len(places.table):
        span *= 2
    places.size[SPAN] = span
    enter_slots(places.table[:span], places.key, places.size[KEYS])


@kernel
def join(places: Places, slot: int, worker: int) -> None:
    """Add a worker to a key's, if a node is free; the cursor moves there."""
    if places.size[SPARE] == 0:
        return
    added: int = places.size[FREE]
    places.size[FREE] = places.following[added]
    places.size[SPARE] -= 1
    places.worker[added] = worker
    places.used[added] = True
    places.following[added] = FIRST
    if places.head[slot] == FIRST:
        places.head[slot] = added
    else:
        places.following[places.last[slot]] = added
    places.last[slot] = places.cursor[slot] = added
    places.length[slot] += 1
    places.reach[slot] = reach_of(places.length[slot])


@kernel
def tidy(places: Places, keep: int) -> None:
    """Forget the workers (but each key's first) where no tuple went since the last time, and then whole keys.

    Keys that are left with one worker stay if ``keep`` is ALL, or if it's SEEN and they have come since.
    """
    kept = 0
    for slot in range(places.size[KEYS]):
        _forget_unused(places, slot)
        if places.length[slot] == 1 and not (keep == ALL or (keep == SEEN and places.seen[slot])):
            continue
        places.key[kept] = places.key[slot]
        places.first[kept] = places.first[slot]
        places.length[kept] = places.length[slot]
        places.reach[kept] = reach_of(places.length[slot])
        places.head[kept] = places.head[slot]
        places.last[kept] = places.last[slot]
        places.cursor[kept] = FIRST
        places.since[kept] = 0
        places.seen[kept] = False
        kept += 1
    if kept < places.size[KEYS]:
        places.size[KEYS] = kept
        _enter_all(places)


@kernel
def _forget_unused(places: Places, slot: int) -> None:
    before = FIRST
    node: int = places.head[slot]
    while node != FIRST:
        after: int = places.following[node]
        if places.used[node]:
            places.used[node] = False
            before = node
        else:
            if before == FIRST:
                places.head[slot] = after
            else:
                places.following[before] = after
            places.following[node] = places.size[FREE]
            places.size[FREE] = node
            places.size[SPARE] += 1
            places.length[slot] -= 1
        node = after
    places.last[slot] = before


@kernel
def chained(places: Places) -> NDArray[np.int32]:
    """All chains as rows, in the order of the slots: slot, worker, whether it's used, whether the cursor is there."""
    rows = np.zeros((len(places.worker) - places.size[SPARE], 4), np.int32)
    row = 0
    for slot in range(places.size[KEYS]):
        node: int = places.head[slot]
        while node != FIRST:
            rows[row, 0] = slot
            rows[row, 1] = places.worker[node]
            rows[row, 2] = places.used[node]
            rows[row, 3] = places.cursor[slot] == node
            node = places.following[node]
            row += 1
    return rows


@kernel
def chain(places: Places, rows: NDArray[np.int32]) -> None:
    """Take up the chains that ``chained`` gave, and make the keys findable; the slots' other fields are there."""
    keys = places.size[KEYS]
    places.length[:keys] = 1
    places.reach[:keys] = 1.0
    places.head[:keys] = FIRST
    places.last[:keys] = FIRST
    places.cursor[:keys] = FIRST
    for row in range(len(rows)):
        slot: int = rows[row, 0]
        cursor: int = places.cursor[slot]
        join(places, slot, rows[row, 1])
        added: int = places.last[slot]
        places.used[added] = rows[row, 2] != 0
        places.cursor[slot] = added if rows[row, 3] else cursor
    _enter_all(places)
