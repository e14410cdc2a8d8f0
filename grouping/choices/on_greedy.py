"""ON_GREEDY: a new key goes to the least loaded of all workers, and stays there."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.choices.sticky import Remembered, Sticky, remember
from unskew.grouping.compiled import kernel
from unskew.grouping.hashing import function, homes
from unskew.grouping.interface import Costs, Times
from unskew.grouping.keys import Keys
from unskew.grouping.least_loaded import before_first, least_of_all
from unskew.grouping.slots import find_slot


class OnGreedy(Sticky):
    """Send a new key to the least loaded of all workers, and all its tuples after it.

    It shows the balance that an online scheme can reach without splitting keys, if sources could agree.

    Guarantees
    ----------
    * With one router a key is on one worker: replication 1.
    * No bound on imbalance: the choice is made before the key's frequency is known.

    Time O(1) a tuple, amortised. Memory: W counters and **a record for each key seen**, 20 to 28 bytes, up to
    ``max_keys``; the scheme is defined by it.

    Parameters
    ----------
    max_keys : int, default 1,000,000
        The keys that are remembered at most; later ones go where their hash says, as in KEY.
    half_life : int, tuples of the source, default None
        Ours. Count a tuple half each time that so many more have come; None: count from the start, as published.

    Notes
    -----
    Equal loads: the first worker. The scheme is one router that all sources share; with a router at each source, as in
    the topology, a key is on as many workers as its sources chose.

    What change does: a key stays where it was put, however hot it gets. And loads count from the start, so new keys all
    go to the workers that had little before, until their totals have caught up; with a ``half_life`` for a few of them.

    References
    ----------
    Nasir et al., *Partial Key Grouping*, section 6.2 (Q1, "On-Greedy").

    Examples
    --------
    >>> OnGreedy(3).route(["a", "a", "b", "c", "d", "a"]).tolist()
    [0, 0, 1, 2, 1, 0]

    """

    name = "ON_GREEDY"
    short = "ong"

    def __init__(self, workers: int, *, seed: int = 0, max_keys: int = 1_000_000, half_life: int | None = None) -> None:
        super().__init__(workers, seed=seed, max_keys=max_keys, half_life=half_life)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = homes(keys.hashes, function(self.seed), self.workers)
        memory = self._memory_for(len(keys.hashes))
        return self._by_lives(keys.codes, lambda codes: place_new_keys(codes, keys.hashes, home, self.loads, memory))


@kernel
def place_new_keys(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    loads: NDArray[np.int64],
    memory: Remembered,
) -> NDArray[np.int32]:
    """Route each tuple to its key's worker, and a new key to the least loaded worker."""
    workers = np.empty(len(codes), np.int32)
    known, placed, table = memory.key, memory.worker, memory.table
    cursor = before_first()
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        slot = find_slot(table, known, key)
        if slot >= 0:
            worker: int = placed[slot]
        else:
            worker = least_of_all(cursor, loads)
            if not remember(memory, key, worker):
                worker = homes[code]
        loads[worker] += 1
        workers[i] = worker
    return workers
