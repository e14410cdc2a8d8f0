"""DYNAMIC_KEY's compiled routing: pools of workers that grow and shrink, and key spaces that say which may grow.

The spaces are generations, as in a JVM's garbage collection: baby, teenage, old. Watched keys are in a fixed number of
slots. A slot's space is a mark, so that a promotion moves nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.slots import enter_slot, enter_slots, find_slot, slot_table

FREE, BABY, TEENAGE, OLD = 0, 1, 2, 3
NEVER = np.int64(-(1 << 62))

# Positions in `clock` and `tally`.
ORIGIN, NOW, LANDMARK = 0, 1, 2
TUPLES, CYCLES, UPS, DOWNS = 0, 1, 2, 3
UNSET = -(1 << 62)
_ENDLESS = 1 << 62
_INITIAL = 2  # every key's initial pool


class KeySpaces(NamedTuple):
    """C slots, and the hash table that finds a key's slot.

    A promotion reduces the babies to ``capacity[BABY]``. Until the next one as many newcomers are admitted.
    """

    capacity: NDArray[np.int64]  # [4], keys of each space (of FREE: 0)
    space: NDArray[np.int8]  # [C], FREE, BABY, TEENAGE or OLD
    key: NDArray[np.uint64]  # [C], the key's hash
    frequency: NDArray[np.float64]  # [C], the key's tuples since its admission
    born: NDArray[np.int64]  # [C], the number of its first tuple
    seen: NDArray[np.int64]  # [C], ms, when it was last seen
    checked: NDArray[np.int64]  # [C], ms, when its pool's scaling was last checked
    pool: NDArray[np.int32]  # [C], its number of workers
    size: NDArray[np.int64]  # [4], keys in each space; [FREE]: a slot below which none is free
    table: NDArray[np.int32]  # see unskew.grouping.slots


class DynamicKeyParameters(NamedTuple):
    """The kernel's parameters; times in ms, loads in % of all tuples."""

    workers: int
    warm_up: int
    check_interval: int
    period: int
    periods_to_old: int
    evict_after: int
    scale_up: float
    scale_down: float
    half_life: int  # 0: shares don't decay


def key_spaces(distinct_keys: int) -> KeySpaces:
    """Empty spaces, sized 50, 40 and 10 % of the hint, each at least 1."""
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
def follow_pools(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    times: NDArray[np.int64],
    rules: DynamicKeyParameters,
    spaces: KeySpaces,
    loads: NDArray[np.float64],
    total: NDArray[np.float64],
    clock: NDArray[np.int64],
    tally: NDArray[np.int64],
    admitted: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Route tuple by tuple. ``admitted`` [C] gets the code of slots' keys that this call admits."""
    workers = np.empty(len(codes), np.int32)
    weight = tuple_weight(clock, rules)
    # Out of the named tuple once (see unskew.grouping.slots).
    watched, table, pools = spaces.key, spaces.table, spaces.pool
    frequency, seen, checked, size = spaces.frequency, spaces.seen, spaces.checked, spaces.size
    room = 2 * spaces.capacity[BABY]
    initial = min(_INITIAL, rules.workers)
    for i in range(len(codes)):
        if times[i] > clock[NOW]:
            _advance_clock(times[i], rules, spaces, loads, total, clock, tally)
            weight = tuple_weight(clock, rules)
        now = clock[NOW]
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        home: int = homes[code]
        slot = find_slot(table, watched, key)
        pool: int = pools[slot] if slot >= 0 else initial
        best = _choose_in_pool(home, pool, loads)
        if slot >= 0 and now - checked[slot] >= rules.check_interval:
            checked[slot] = now
            best = _scale_pool(slot, home, best, rules, spaces, loads, total, clock, tally)
        if slot < 0 and size[BABY] < room:
            slot = admit_key(spaces, key, initial, tally[TUPLES])
            admitted[slot] = code
        if slot >= 0:
            frequency[slot] += weight
            seen[slot] = now
        loads[best] += weight
        total[0] += weight
        tally[TUPLES] += 1
        workers[i] = best
    return workers


@kernel
def _scale_pool(
    slot: int,
    home: int,
    best: int,
    rules: DynamicKeyParameters,
    spaces: KeySpaces,
    loads: NDArray[np.float64],
    total: NDArray[np.float64],
    clock: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> int:
    """Check whether a key's pool should grow or shrink; returns its tuple's worker, ``best`` if nothing changes."""
    pool: int = spaces.pool[slot]
    scale = 100 / total[0] if total[0] > 0 else 0.0
    if (
        pool < rules.workers
        and clock[NOW] - clock[ORIGIN] >= rules.warm_up
        and spaces.space[slot] == OLD
        and scale * loads[best] > rules.scale_up
    ):
        joining = (home + pool) % rules.workers
        if loads[joining] < loads[best]:
            spaces.pool[slot] = pool + 1
            tally[UPS] += 1
            return joining
    elif pool > _INITIAL and _count_below(home, pool, loads, rules.scale_down, scale) >= 2:
        spaces.pool[slot] = pool - 1
        tally[DOWNS] += 1
        return _choose_in_pool(home, pool - 1, loads)
    return best


@kernel
def _choose_in_pool(home: int, pool: int, loads: NDArray[np.float64]) -> int:
    """The first of the least loaded workers of home, home + 1, …, home + pool − 1 (mod W)."""
    best = home
    candidate = home
    for _ in range(1, pool):
        candidate += 1
        if candidate == len(loads):
            candidate = 0
        if loads[candidate] < loads[best]:
            best = candidate
    return best


@kernel
def _count_below(home: int, pool: int, loads: NDArray[np.float64], threshold: float, scale: float) -> int:
    """How many of the pool have a share below the threshold."""
    count = 0
    for step in range(pool):
        if scale * loads[(home + step) % len(loads)] < threshold:
            count += 1
    return count


@kernel
def _advance_clock(
    time: int,
    rules: DynamicKeyParameters,
    spaces: KeySpaces,
    loads: NDArray[np.float64],
    total: NDArray[np.float64],
    clock: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> None:
    """Move the clock, and do the promotions that it passes, each as of its time."""
    if clock[ORIGIN] == UNSET:
        clock[ORIGIN] = time
        clock[LANDMARK] = time
    clock[NOW] = time
    passed = (time - clock[ORIGIN]) // rules.period
    settled = 0  # consecutive promotions without a change
    while tally[CYCLES] < passed:
        if spaces.size[BABY] + spaces.size[TEENAGE] + spaces.size[OLD] == 0:
            tally[CYCLES] = passed
            break
        if settled == rules.periods_to_old:
            # One of them was into old, so nothing changes until a key is evicted.
            tally[CYCLES] = max(tally[CYCLES], min(passed, _last_without_eviction(rules, spaces, clock)))
            settled = 0
            continue
        tally[CYCLES] += 1
        into_old = tally[CYCLES] % rules.periods_to_old == 0
        before = spaces.space.copy()
        promote_keys(spaces, clock[ORIGIN] + tally[CYCLES] * rules.period, into_old, rules.evict_after)
        settled = settled + 1 if (spaces.space == before).all() else 0
    # The latest tuple weighs most. Large weights are all scaled by a power of 2, which is exact.
    if rules.half_life > 0:
        halvings = (time - clock[LANDMARK]) // rules.half_life
        if halvings >= 32:
            shrink = 2.0**-halvings
            loads *= shrink
            total *= shrink
            spaces.frequency[:] *= shrink
            clock[LANDMARK] += halvings * rules.half_life


@kernel
def _last_without_eviction(rules: DynamicKeyParameters, spaces: KeySpaces, clock: NDArray[np.int64]) -> int:
    """The number of the last promotion that evicts no key if no more tuples come."""
    last = _ENDLESS
    for slot in range(len(spaces.space)):
        if spaces.space[slot] >= TEENAGE:
            last = min(last, (spaces.seen[slot] + rules.evict_after - clock[ORIGIN]) // rules.period)
    return last


@kernel
def tuple_weight(clock: NDArray[np.int64], rules: DynamicKeyParameters) -> float:
    """A tuple's weight now: 1, or growing with time if shares decay, so that earlier tuples count less."""
    if rules.half_life == 0 or clock[NOW] == UNSET:
        return 1.0
    return 2.0 ** ((clock[NOW] - clock[LANDMARK]) / rules.half_life)


@kernel
def admit_key(spaces: KeySpaces, key: np.uint64, pool: int, born: int) -> int:
    """Admit a key that is in no space to the babies, and return its slot.

    The babies must be fewer than twice their capacity.
    """
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
def promote_keys(spaces: KeySpaces, now: int, into_old: bool, evict_after: int) -> None:
    """One promotion.

    1. Old and teenage keys that haven't been seen for ``evict_after`` ms leave.
    2. Of the babies, the most frequent ones stay, as many as there is room for.
    3. The most frequent of babies and teenagers together become the teenagers.
    4. If ``into_old``, the most frequent of teenagers and old keys together become the old keys.

    Of equally frequent keys, one in a higher space is first, and then the one that came first.
    """
    for slot in range(len(spaces.space)):
        if spaces.space[slot] >= TEENAGE and now - spaces.seen[slot] > evict_after:
            spaces.space[slot] = FREE
    babies = _order_by_frequency(spaces, BABY, BABY)
    for slot in babies[spaces.capacity[BABY] :]:
        spaces.space[slot] = FREE
    _fill_space(spaces, BABY, TEENAGE)
    if into_old:
        _fill_space(spaces, TEENAGE, OLD)
    rebuild_spaces(spaces)


@kernel
def rebuild_spaces(spaces: KeySpaces) -> None:
    """Compute the sizes and the hash table from the slots."""
    enter_slots(spaces.table, spaces.key, 0)
    spaces.size[:] = 0
    for slot in range(len(spaces.space)):
        space = spaces.space[slot]
        if space != FREE:
            spaces.size[space] += 1
            enter_slot(spaces.table, spaces.key, slot)


@kernel
def _fill_space(spaces: KeySpaces, lower: int, upper: int) -> None:
    best = _order_by_frequency(spaces, lower, upper)
    room = spaces.capacity[upper]
    for slot in best[:room]:
        spaces.space[slot] = upper
    for slot in best[room:]:
        spaces.space[slot] = lower


@kernel
def _order_by_frequency(spaces: KeySpaces, lower: int, upper: int) -> NDArray[np.int64]:
    """The slots of two spaces, most frequent first, by three stable sorts, least important first."""
    slots = np.flatnonzero((spaces.space == lower) | (spaces.space == upper))
    slots = slots[np.argsort(spaces.born[slots], kind="mergesort")]
    slots = slots[np.argsort(-spaces.space[slots], kind="mergesort")]
    return slots[np.argsort(-spaces.frequency[slots], kind="mergesort")]
