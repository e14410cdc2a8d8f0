"""Where a key of BOUNDED_LOAD goes when it finds no room where it is, compiled."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.bounded.crew import AHEAD, RECENT, TURN, Crew, Rules
from unskew.grouping.compiled import kernel
from unskew.grouping.hashing import below, mix

LOOKS = 16  # workers that a key's own hash functions name (the first is its home), and as many in turn
_NEWCOMER = 0.3  # what a key is supposed to bring to a worker that it joins, in fair shares
_ROOMY = 0.9  # a recent load below the fair share: no need to look further
_AGREED = 0.4  # of how far a worker may be ahead at all, so far is open to a key that stays, if there are other sources


@kernel
def elsewhere(
    key: np.uint64,
    now: float,
    opening: float,
    reach: float,
    full: float,
    stays: bool,
    rules: Rules,
    crew: Crew,
    tally: NDArray[np.int64],
) -> int:
    """Find a worker for a key that finds no room: in the order of its own hash functions, then in turn.

    For a key that stays, the one with the least recent load of those that are open; for another, the first open one.
    If other sources place keys too, the first for both: so they agree, as long as most of the first ones are open; not
    one beyond the key's ``reach``, where it would find no room with its next tuple.
    If none is open, the one of them that is the least ahead, if it has room, or any that has.
    """
    best = lowest = -1
    agree = stays and rules.placed == 0
    if agree:
        opening = min(_AGREED * full, reach)
    least = level = np.inf
    for look in range(1, 2 * LOOKS):
        if look == LOOKS and least < _ROOMY:
            break
        if look < LOOKS:
            worker = int(below(mix(key, rules.number + np.uint64(look)), len(crew.load)))
        else:
            worker = _in_turn(tally, len(crew.load))
        if crew.load[worker, AHEAD] - now < level:
            lowest, level = worker, crew.load[worker, AHEAD] - now
        if crew.load[worker, AHEAD] - now <= opening and crew.load[worker, RECENT] < least:
            best, least = worker, crew.load[worker, RECENT]
            if not stays or agree or (look >= LOOKS and least < _ROOMY):
                break
    if best < 0:
        return lowest if level <= full else _any_with_room(now, full, crew, tally)
    if stays:
        crew.load[best, RECENT] += _NEWCOMER
    return best


@kernel
def _any_with_room(now: float, full: float, crew: Crew, tally: NDArray[np.int64]) -> int:
    """Give the next worker that isn't full; if all were, which takes a small window (see the proof), the least full."""
    for _ in range(len(crew.load)):
        worker = _in_turn(tally, len(crew.load))
        if crew.load[worker, AHEAD] - now <= full:
            return worker
    return int(np.argmin(crew.load[:, AHEAD]))


@kernel
def _in_turn(tally: NDArray[np.int64], workers: int) -> int:
    turn: int = (tally[TURN] + 1) % workers
    tally[TURN] = turn
    return turn
