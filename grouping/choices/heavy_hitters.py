"""The compiled routing of D_CHOICES and W_CHOICES: the tail has two choices, heavy hitters have more."""

import math

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.frequent_keys import TAKEN_OFF, USED, MisraGriesSketch, find_survivors, make_room
from unskew.grouping.hashing import mix_hash, reduce_to_range
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.least_loaded import before_first, least_of_all
from unskew.grouping.slots import enter_slot, find_slot

# Positions in `tally`: tuples so far, d, and the number of tuples at which d is next computed.
TUPLES, CHOICES, DUE = 0, 1, 2
NEVER = 1 << 62
_NOISE = 3  # a load isn't too high if it is above the mean by at most so many tuples


@kernel
def route_by_weight(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    tail: NDArray[np.int32],
    number: np.uint64,
    threshold: float,
    tolerance: float,
    sketch: MisraGriesSketch,
    more: NDArray[np.int64],
    loads: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Route tuple by tuple.

    If each key has its own d, ``more`` [m] is how many choices each needs beyond its share. Otherwise ``more`` is
    empty.

    1. Count the key.
    2. A key of the tail goes to the less loaded of its two candidates, ``tail`` [k, 2].
    3. A heavy key goes to the least loaded of its d candidates, or of all workers if d = W.
    4. If each key has its own d, the key gets one choice more when its least loaded candidate has too high a load.
       Otherwise d is found again when it is due.
    """
    workers = np.empty(len(codes), np.int32)
    cursor = before_first()
    watched, counters, size, table = sketch  # once (see unskew.grouping.slots)
    used = size[USED]
    tuples, choices, due = tally
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        tuples += 1
        slot = find_slot(table, watched, key)
        if slot < 0:
            if used == len(watched):
                used = _make_room(sketch, more)
            slot = used
            watched[slot] = key
            enter_slot(table, watched, slot)
            used += 1
        counters[slot] += 1
        counted: int = counters[slot]
        heavy = is_heavy(counted, threshold * tuples)
        if heavy and len(more):
            choices = own_choices(counted / tuples, more[slot], len(loads))
        if heavy and choices == len(loads):
            worker = least_of_all(cursor, loads)
        else:
            worker: int = tail[code, 0]
            other: int = tail[code, 1]
            if loads[other] < loads[worker]:
                worker = other
            if heavy:
                worker = _least_of_more(key, number, choices, loads, worker)
                if len(more) and loads[worker] - tuples / len(loads) > tolerance * tuples + _NOISE:
                    more[slot] += 1
        loads[worker] += 1
        workers[i] = worker
        if tuples == due:
            size[USED] = used
            choices = enough_choices(heavy_shares(sketch, threshold, tuples), len(loads), tolerance)
            due = next_time(tuples, len(loads))
    size[USED] = used
    tally[:] = tuples, choices, due
    return workers


@kernel
def own_choices(share: float, more: int, workers: int) -> int:
    """The d of one heavy key."""
    return min(workers, max(2, math.ceil(share * workers)) + more)


@kernel
def _make_room(sketch: MisraGriesSketch, more: NDArray[np.int64]) -> int:
    if not len(more):
        return make_room(sketch.key, sketch.counter, sketch.size, sketch.table)
    before = sketch.key.copy()
    kept = make_room(sketch.key, sketch.counter, sketch.size, sketch.table)
    more[:kept] = more[find_survivors(before, sketch.key, kept)]
    more[kept:] = 0
    return kept


@kernel
def next_time(tuples: int, workers: int) -> int:
    """The number of tuples at which d is next computed: a tenth more than now, within bounds."""
    return tuples + min(max(1000, 2 * workers, tuples // 10), max(10_000, 20 * workers))


@kernel
def is_heavy(counted: int, expected: float) -> bool:
    """Whether a key's count is above the count expected at the threshold, and not by chance.

    The margin is three standard deviations of a Poisson count, and three tuples. At a stream's start, or with many
    workers, the threshold alone is less than a few tuples, and every key would pass it.
    """
    return counted > expected and counted >= expected + 3 * math.sqrt(expected) + 3


@kernel
def heavy_shares(sketch: MisraGriesSketch, threshold: float, tuples: int) -> NDArray[np.float64]:
    """The shares of the heavy keys, greatest first.

    They are too high by up to 2/m, which gives keys too many choices rather than too few.
    """
    counts = np.sort(sketch.counter[: sketch.size[USED]])[::-1]
    heavy = 0
    while heavy < len(counts) and is_heavy(counts[heavy], threshold * tuples):
        heavy += 1
    return (counts[:heavy] + sketch.size[TAKEN_OFF]) / tuples


@kernel
def enough_choices(head: NDArray[np.float64], workers: int, tolerance: float) -> int:
    """The least d ≥ max(2, ⌈p1·W⌉) with which no prefix of the head overloads its workers.

    The choices of the h heaviest keys are expected to cover b = W − W·((W − 1)/W)^(h·d) workers. The condition, for
    every h:

        Σ_{i ≤ h} p_i + (b/W)^d · Σ_{h < i ≤ |H|} p_i + (b/W)² · Σ_{i > |H|} p_i  ≤  b · (1/W + tolerance)

    The result is W if no smaller d fulfils it, and 2 if there is no head.
    """
    if not len(head):
        return min(2, workers)
    before = np.cumsum(head)
    tail = max(0.0, 1 - before[-1])
    suspect = 0  # the prefix that failed last fails first
    choices = max(2, math.ceil(head[0] * workers))
    while choices < workers:
        if _prefix_fits(before, suspect, tail, choices, workers, tolerance):
            suspect = 0
            while suspect < len(head) and _prefix_fits(before, suspect, tail, choices, workers, tolerance):
                suspect += 1
            if suspect == len(head):
                return choices
        choices += 1
    return workers


@kernel
def _prefix_fits(
    before: NDArray[np.float64], h: int, tail: float, choices: int, workers: int, tolerance: float
) -> bool:
    covered = 1 - ((workers - 1) / workers) ** float((h + 1) * choices)
    rest = before[-1] - before[h]
    load = before[h] + covered ** float(choices) * rest + covered**2 * tail
    return load <= covered * (1 + workers * tolerance)


@kernel
def _least_of_more(key: np.uint64, number: np.uint64, choices: int, loads: NDArray[np.int64], worker: int) -> int:
    """The least loaded of a worker and those of hash functions 2 … d − 1 (some may coincide)."""
    for j in range(2, choices):
        candidate = int(reduce_to_range(mix_hash(key, number + np.uint64(j)), len(loads)))
        if loads[candidate] < loads[worker]:
            worker = candidate
    return worker
