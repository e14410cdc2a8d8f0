"""What BOUNDED_LOAD knows of the workers: how far each is ahead, its recent load, and which key is too much for it.

Time is the cost that the source has sent so far. A worker of share s of the crew's speed does (1 + slack) · s of a unit
of cost in a unit of time: a little more than its share, so that together they keep up. ``ahead`` is the time at which
it will have done all that it has got; how far it's ahead of the source is how full it is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel

# How far a worker may be ahead, in windows and (if that's more) in tuples of a worker: to be open to a key that has no
# place there; to take a whole key's tuple; to take any. A split key's limit is between the first two.
OPEN, WHOLE, FULL = 0.01, 0.06, 0.08
FEW_OPEN, FEW_WHOLE, FEW_FULL = 1.0, 6.5, 8.0
_VOTES = 2  # by which a key must lead at a worker before it's split
# Positions in `tally`: tuples so far; the worker looked at last in turn; whether new keys are placed.
TUPLES, TURN, PLACING = 0, 1, 2


class Rules(NamedTuple):
    """The parameters as the kernel takes them."""

    number: np.uint64  # the hash function
    pace: float  # time that a worker of mean speed needs for a unit of cost
    window: int  # tuples of this source
    period: int  # its tuples after which what hasn't been used is forgotten
    placed: int  # keys that are placed when they are new, at most; 0: none


class Crew(NamedTuple):
    """What is known of the W workers: 56 bytes each."""

    load: NDArray[np.float64]  # [W, 4], a row a worker, so that it's in one line of the processor's cache; see below
    rival: NDArray[np.uint64]  # [W], the key that leads among those that it had no room for
    votes: NDArray[np.int64]  # [W], by how many tuples it leads
    keys: NDArray[np.int64]  # [W], remembered keys whose first worker it is


#: Columns of ``Crew.load``: the time at which it will have done all that it has got; the time that a unit of cost takes
#: it, 1 / ((1 + slack) · its share of the speed); its load since the recent one was estimated; that, in fair shares.
AHEAD, PACE, PASSING, RECENT = 0, 1, 2, 3


def crew(shares: NDArray[np.float64], slack: float) -> Crew:
    """Idle workers; ``shares`` [W] of the crew's speed, 1 in all."""
    load = np.zeros((len(shares), 4))
    load[:, PACE] = 1 / ((1 + slack) * shares)
    counts = [np.zeros(len(shares), np.int64) for _ in range(2)]
    return Crew(load, np.zeros(len(shares), np.uint64), *counts)


@kernel
def limits(rules: Rules, unit: float) -> tuple[float, float, float]:
    """How far ahead a worker may be, as times; ``unit`` is the mean cost of a tuple."""
    window = unit * rules.window
    worker = unit * rules.pace
    return (
        max(OPEN * window, FEW_OPEN * worker),
        max(WHOLE * window, FEW_WHOLE * worker),
        max(FULL * window, FEW_FULL * worker),
    )


@kernel
def leads(key: np.uint64, worker: int, crew: Crew) -> bool:
    """Vote for a key at a worker that has no room for it; whether it has won.

    The vote is Boyer and Moore's: a key that has most of the tuples there leads in the end.
    """
    if crew.rival[worker] == key:
        crew.votes[worker] += 1
        if crew.votes[worker] >= _VOTES:
            crew.votes[worker] = 0
            return True
    elif crew.votes[worker] > 0:
        crew.votes[worker] -= 1
    else:
        crew.rival[worker] = key
        crew.votes[worker] = 1
    return False


@kernel
def estimate(crew: Crew, rules: Rules) -> None:
    """Take up the load since the last time into the estimate of the recent one; with a weight of 1/4."""
    load = crew.load
    total = load[:, PASSING].sum()
    for worker in range(len(load)):
        share = load[worker, PASSING] / total * load[worker, PACE] / rules.pace * len(load) if total > 0 else 0.0
        load[worker, RECENT] += (share - load[worker, RECENT]) / 4
        load[worker, PASSING] = 0.0
