"""The least loaded of all workers when each tuple adds 1 to a load: amortised O(1), and nothing to keep in step.

A level is the load of the least loaded worker. Loads only grow, so a worker that has left the level doesn't come back,
and a cursor that passes over the workers finds those that are still on it. At the end the level rises, and the cursor
starts anew. The level never exceeds the mean load, so it has risen at most N/W times when N tuples are routed: 2·W
steps each time are at most two a tuple, however unbalanced the loads are.
"""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.compiled import kernel


@kernel
def before_first() -> NDArray[np.int64]:
    """A cursor that hasn't looked yet: int64[2], level and position."""
    return np.array([-1, 0])


@kernel
def least_of_all(cursor: NDArray[np.int64], loads: NDArray[np.int64]) -> int:
    """The least loaded worker, of equals the first; the cursor moves on to it."""
    level, at = cursor
    while at < len(loads) and loads[at] != level:
        at += 1
    if at == len(loads):
        level = loads.min()
        at = 0
        while loads[at] != level:
            at += 1
    cursor[0], cursor[1] = level, at
    return at
