"""ON_GREEDY: a new key goes to the least loaded of all workers, and stays there."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.choices.level import before_first, least_of_all
from unskew.grouping.choices.remembered import Remembered, remember
from unskew.grouping.choices.sticky import Sticky
from unskew.grouping.compiled import kernel
from unskew.grouping.hashing import function, homes
from unskew.grouping.interface import Costs, Times
from unskew.grouping.keys import Keys
from unskew.grouping.slots import find_slot


class OnGreedy(Sticky):
    """Send a new key to the least loaded of all workers, and all its tuples after it.

    What can be had online without splitting keys, if sources could agree.

    Guarantees
    ----------
    * With one router a key is on one worker: replication 1.
    * No bound on imbalance: the choice is made before the key's frequency is known.

    Time O(1) a tuple, amortised. Memory: W counters and **a record for each
    key seen**, 20 to 28 bytes, up to ``max_keys``; the scheme is defined by it.

    Parameters
    ----------
    max_keys : int, default 1,000,000
        The keys that are remembered at most; later ones go where their hash says, as in KEY.

    Notes
    -----
    Equal loads: the first worker. The scheme is one router that all sources share; with a router at each source, as in
    the topology, a key is on as many workers as its sources chose.

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

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = homes(keys.hashes, function(self.seed), self.workers)
        return place_new_keys(keys.codes, keys.hashes, home, self.loads, self._memory_for(len(keys.hashes)))


@kernel
def place_new_keys(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    loads: NDArray[np.int64],
    memory: Remembered,
) -> NDArray[np.int32]:
    """For each message: its key's worker; for a new key, the least loaded worker."""
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
