"""How DALTON routes and learns, compiled.

A *slide* is so many tuples; loads and places count over the last slides that make a window, and the one that is under
way. A hot key's *arms* are the workers that it was ever on since it got hot, each with its value.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.chains import END, SPARE, Chains, add, drop
from unskew.grouping.choices.frequent import USED, Frequent, make_room
from unskew.grouping.compiled import kernel
from unskew.grouping.hashing import below, mix
from unskew.grouping.slots import enter_slot, enter_slots, find_slot

UNTRIED = -2.0  # an arm's value before it's tried; what is tried is worth more than that
STEP = 0.1  # the weight of a new reward
_SHARE_SATED = 0.7  # of the hot keys must be on as many workers as they may before they may be on one more
# Positions in `tally`: tuples so far; hot keys; how many workers a key may explore now; how many hot keys are sated.
TUPLES, HOT, SPLIT, SATED = 0, 1, 2, 3


class Rules(NamedTuple):
    """The parameters as the kernel takes them."""

    chance: np.uint64  # the hash function that draws
    slide: int  # tuples
    explore: float
    splits: int


class Arms(NamedTuple):
    """C hot keys, and M arms in all; of each the value, and the slide in which it was used last."""

    key: NDArray[np.uint64]  # [C]
    expires: NDArray[np.int64]  # [C], the slide with which it's hot no more
    sated: NDArray[np.bool_]  # [C], whether it was on as many workers as it may
    chain: Chains
    value: NDArray[np.float64]  # [M]
    last: NDArray[np.int64]  # [M]
    table: NDArray[np.int32]  # see unskew.grouping.slots


@kernel
def route_by_value(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    rules: Rules,
    sketch: Frequent,
    arms: Arms,
    loads: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Route tuple by tuple; ``loads`` [s + 2, W] has the window's, and a row for each of its slides and this one's.

    1. With each slide: forget the oldest one's load, the counts, and the hot keys whose time is over.
    2. Count the key; it's hot until the end of the next slide if it has more than a W-th of the last slide's tuples.
    3. A cold key: its home.
    4. A hot key: mostly the arm of the highest value; now and then any worker, or if it's sated any of its own.
    5. Reward that arm by how loaded its worker is, and by how many the key is on.
    """
    workers = np.empty(len(codes), np.int32)
    window, crew = len(loads) - 2, loads.shape[1]
    held: int = loads[0].sum()
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        now: int = tally[TUPLES] // rules.slide
        row = 1 + now % (window + 1)
        if tally[TUPLES] % rules.slide == 0 and now > 0:
            loads[0] -= loads[row]
            held -= loads[row].sum()
            loads[row] = 0
            _forget(now, sketch, arms, tally)
        limit = rules.slide // crew if now > 0 else rules.slide
        counted = _count(key, sketch)
        slot: int = find_slot(arms.table, arms.key, key)
        worker: int = homes[code]
        node = END
        if counted > limit:
            if slot < 0 and tally[HOT] < len(arms.key) and arms.chain.pool[SPARE] > 0:
                slot = _heat(key, worker, now, arms, tally)
            if slot >= 0:
                arms.expires[slot] = now + 2
        tally[TUPLES] += 1
        held += 1
        if slot >= 0:
            node = _choose(slot, worker, now - window, rules, arms, crew, tally)
            worker = arms.chain.worker[node]
            arms.last[node] = now
        loads[0, worker] += 1
        loads[row, worker] += 1
        if slot >= 0:
            mean = held / crew
            places = _places(slot, now - window, arms.chain, arms.last)
            cost = (loads[0, worker] - mean) / max(float(loads[0, worker]), mean)
            _learn(slot, node, -(cost + places / crew) / 2, places, rules, arms, tally)
        workers[i] = worker
    return workers


@kernel
def _count(key: np.uint64, sketch: Frequent) -> int:
    slot: int = find_slot(sketch.table, sketch.key, key)
    if slot < 0:
        if sketch.size[USED] == len(sketch.key):
            sketch.size[USED] = make_room(sketch.key, sketch.counter, sketch.size, sketch.table)
        slot = sketch.size[USED]
        sketch.key[slot] = key
        enter_slot(sketch.table, sketch.key, slot)
        sketch.size[USED] += 1
    sketch.counter[slot] += 1
    counted: int = sketch.counter[slot]
    return counted


@kernel
def _forget(now: int, sketch: Frequent, arms: Arms, tally: NDArray[np.int64]) -> None:
    """Begin a slide: no counts, and only the hot keys that were hot in the last one."""
    sketch.key[:] = 0
    sketch.counter[:] = 0
    sketch.size[:] = 0
    sketch.table[:] = -1
    kept = 0
    for slot in range(tally[HOT]):
        if arms.expires[slot] <= now:
            drop(arms.chain, slot)
            continue
        head = arms.chain.head[slot]
        arms.chain.head[slot] = END
        arms.chain.head[kept] = head
        arms.key[kept] = arms.key[slot]
        arms.expires[kept] = arms.expires[slot]
        arms.sated[kept] = arms.sated[slot]
        kept += 1
    tally[HOT] = kept
    tally[SATED] = arms.sated[:kept].sum()
    enter_slots(arms.table, arms.key, kept)


@kernel
def _heat(key: np.uint64, home: int, now: int, arms: Arms, tally: NDArray[np.int64]) -> int:
    """A key that gets hot: until now it was at home."""
    slot: int = tally[HOT]
    tally[HOT] += 1
    arms.key[slot] = key
    arms.sated[slot] = False
    enter_slot(arms.table, arms.key, slot)
    node = add(arms.chain, slot, home)
    arms.value[node] = UNTRIED
    arms.last[node] = now
    return slot


@kernel
def _choose(slot: int, home: int, oldest: int, rules: Rules, arms: Arms, crew: int, tally: NDArray[np.int64]) -> int:
    """The arm to pull: as a node of the key's chain; a new one, if a node is free."""
    drawn = mix(np.uint64(tally[TUPLES]), rules.chance)
    chain, value = arms.chain, arms.value
    best: int = chain.head[slot]
    node = best
    if (drawn >> np.uint64(11)) * 2.0**-53 >= rules.explore:
        while node != END:
            if value[node] > value[best] or (value[node] == value[best] and chain.worker[node] == home):
                best = node
            node = chain.following[node]
        return best
    again = mix(drawn, rules.chance)
    if arms.sated[slot]:
        place = below(again, _places(slot, oldest, chain, arms.last))
        while place > 0 or arms.last[node] < oldest:
            if arms.last[node] >= oldest:
                place -= 1
            node = chain.following[node]
        return node
    worker = int(below(again, crew))
    while node != END:
        if chain.worker[node] == worker:
            return node
        node = chain.following[node]
    node = add(chain, slot, worker)
    if node == END:
        return best
    value[node] = UNTRIED
    return node


@kernel
def _places(slot: int, oldest: int, chain: Chains, last: NDArray[np.int64]) -> int:
    """On how many workers the key was in the window."""
    places = 0
    node: int = chain.head[slot]
    while node != END:
        places += last[node] >= oldest
        node = chain.following[node]
    return places


@kernel
def _learn(
    slot: int, node: int, reward: float, places: int, rules: Rules, arms: Arms, tally: NDArray[np.int64]
) -> None:
    """Move the arm's value towards its reward; when most hot keys are sated, all may explore one worker more."""
    arms.value[node] += STEP * (reward - arms.value[node])
    if places == tally[SPLIT] and not arms.sated[slot]:
        arms.sated[slot] = True
        tally[SATED] += 1
    if tally[SPLIT] < rules.splits and tally[SATED] >= _SHARE_SATED * tally[HOT]:
        arms.sated[:] = False
        tally[SATED] = 0
        tally[SPLIT] += 1
