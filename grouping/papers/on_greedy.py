"""ON_GREEDY: a new key goes to the least loaded of all workers and stays there."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.interface import Costs, Times
from unskew.grouping.keys import Keys
from unskew.grouping.papers.sticky import StickyGrouping, choose_once


class OnGreedy(StickyGrouping):
    """Send a new key to the least loaded of all workers, and all its later tuples to the same worker.

    It shows which balance an online scheme could reach without splitting keys if all sources agreed.

    Guarantees
    ----------
    * With one router a key is on one worker: replication 1.
    * No bound on imbalance, because the worker is chosen before the key's frequency is known.

    Time O(1) a tuple, amortised. Memory: W counters and **a record for each key seen**, 20 to 28 bytes, up to
    ``max_keys``. The scheme needs these records by definition.

    Parameters
    ----------
    max_keys : int, default 1,000,000
        The most keys that are remembered, at least 1. Later keys go home, as in KEY.
    half_life : int, tuples of the source, default None
        Ours. Halve all counts after each ``half_life`` tuples, at least 1. None: count from the start, as published.

    Notes
    -----
    Of equal loads the first worker is chosen. The scheme is one router that all sources share. With a router at each
    source, as in the topology, a key is on as many workers as its sources have chosen.

    After a change of the stream: a key stays where it was put, however hot it becomes. Loads count from the start, so
    all new keys go to the workers that had little before until their totals have caught up. With a ``half_life`` that
    takes a few half-lives.

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
        home = choose_homes(keys.hashes, hash_function(self.seed), self.workers)
        memory = self._memory_for(len(keys.hashes))
        return self._route_by_half_lives(
            keys.codes, lambda codes: choose_once(codes, keys.hashes, home[:, None], True, self.loads, memory)
        )
