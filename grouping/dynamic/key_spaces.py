"""The generational key spaces of DYNAMIC_KEY: baby, teenage, old; inspired by a JVM's garbage collection.

Slots of fixed number hold the keys that are watched; a slot's space is a mark on it, so that promotion moves nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel
from unskew.grouping.slots import enter_slot, slot_table

FREE, BABY, TEENAGE, OLD = 0, 1, 2, 3
NEVER = np.int64(-(1 << 62))


class KeySpaces(NamedTuple):
    """C slots, and the hash table that finds a key's slot.

    ``baby`` keys stay when babies are thinned out at a promotion; until then as many newcomers are let in again.
    """

    capacity: NDArray[np.int64]  # [4], keys of each space (of FREE: 0)
    space: NDArray[np.int8]  # [C], FREE, BABY, TEENAGE or OLD
    key: NDArray[np.uint64]  # [C], the key's hash
    frequency: NDArray[np.float64]  # [C], its tuples since it was let in
    born: NDArray[np.int64]  # [C], the number of the tuple that it came with
    seen: NDArray[np.int64]  # [C], ms, when it was seen last
    checked: NDArray[np.int64]  # [C], ms, when its pool's scaling was checked last
    pool: NDArray[np.int32]  # [C], workers that it may use
    size: NDArray[np.int64]  # [4], keys in each space; [FREE]: no slot below is free
    table: NDArray[np.int32]  # see unskew.grouping.slots


def key_spaces(distinct_keys: int) -> KeySpaces:
    """Empty spaces, sized 50 / 40 / 10 % of the hint (each at least 1)."""
    baby, teenage, old = (max(1, distinct_keys * percent // 100) for percent in (50, 40, 10))
    slots = 2 * baby + teenage + old
    return KeySpaces(
        capacity=np.array([0, baby, teenage, old]),
        space=np.zeros(slots, np.int8),
        key=np.zeros(slots, np.uint64),
        frequency=np.zeros(slots),
        born=np.zeros(slots, np.int64),
        seen=np.zeros(slots, np.int64),
        checked=np.zeros(slots, np.int64),
        pool=np.zeros(slots, np.int32),
        size=np.zeros(4, np.int64),
        table=slot_table(slots),
    )


@kernel
def admit(spaces: KeySpaces, key: np.uint64, pool: int, born: int) -> int:
    """Let a key that is in no space into the babies, fewer than twice their room: its slot."""
    slot: int = spaces.size[FREE]
    while spaces.space[slot] != FREE:
        slot += 1
    spaces.size[FREE] = slot + 1
    spaces.space[slot] = BABY
    spaces.key[slot] = key
    spaces.frequency[slot] = 0
    spaces.born[slot] = born
    spaces.checked[slot] = NEVER
    spaces.pool[slot] = pool
    spaces.size[BABY] += 1
    enter_slot(spaces.table, spaces.key, slot)
    return slot


@kernel
def promote(spaces: KeySpaces, now: int, into_old: bool, evict_after: int) -> None:
    """One promotion.

    1. Old and teenage keys that haven't been seen for ``evict_after`` ms go.
    2. Of the babies, the most frequent stay, as many as have room.
    3. The most frequent of babies and teenagers together are the teenagers.
    4. If ``into_old``: likewise, of teenagers and old.

    Of equals the one in the higher space is first, then the one that came first.
    """
    for slot in range(len(spaces.space)):
        if spaces.space[slot] >= TEENAGE and now - spaces.seen[slot] > evict_after:
            spaces.space[slot] = FREE
    babies = _by_frequency(spaces, BABY, BABY)
    for slot in babies[spaces.capacity[BABY] :]:
        spaces.space[slot] = FREE
    _fill(spaces, BABY, TEENAGE)
    if into_old:
        _fill(spaces, TEENAGE, OLD)
    rebuild(spaces)


@kernel
def rebuild(spaces: KeySpaces) -> None:
    """Make the sizes and the hash table anew from the slots."""
    spaces.table[:] = -1
    spaces.size[:] = 0
    for slot in range(len(spaces.space)):
        space = spaces.space[slot]
        if space != FREE:
            spaces.size[space] += 1
            enter_slot(spaces.table, spaces.key, slot)


@kernel
def _fill(spaces: KeySpaces, lower: int, upper: int) -> None:
    best = _by_frequency(spaces, lower, upper)
    room = spaces.capacity[upper]
    for slot in best[:room]:
        spaces.space[slot] = upper
    for slot in best[room:]:
        spaces.space[slot] = lower


@kernel
def _by_frequency(spaces: KeySpaces, lower: int, upper: int) -> NDArray[np.int64]:
    """The slots of two spaces, most frequent first; three stable sorts, the least important first."""
    slots = np.flatnonzero((spaces.space == lower) | (spaces.space == upper))
    slots = slots[np.argsort(spaces.born[slots], kind="mergesort")]
    slots = slots[np.argsort(-spaces.space[slots], kind="mergesort")]
    return slots[np.argsort(-spaces.frequency[slots], kind="mergesort")]
