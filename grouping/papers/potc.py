"""POTC: the power of two choices without key splitting."""

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer
from unskew.grouping.hashing import draw_candidates, hash_function
from unskew.grouping.interface import Costs, Times
from unskew.grouping.keys import Keys
from unskew.grouping.papers.sticky import StickyGrouping, choose_once


class Potc(StickyGrouping):
    """Send a new key to the least loaded of its d candidates, and all its later tuples to the same worker.

    This is the classical power of two choices for key grouping ("static PoTC"), which shows what key splitting adds.

    Guarantees
    ----------
    * With one router a key is on one worker, one of those that its hashes name: replication 1.
    * No bound on imbalance, because the worker is chosen before the key's frequency is known.

    Time O(1) a tuple and O(d) a new key. Memory: W counters and **a record for each key seen**, 20 to 28 bytes, up to
    ``max_keys``. The scheme needs these records by definition.

    Parameters
    ----------
    choices : int, default 2
        d ≥ 2, the candidates of a key.
    max_keys : int, default 1,000,000
        The most keys that are remembered, at least 1. Later keys go home, as in KEY.

    Notes
    -----
    All sources must agree on a key's worker, which takes coordination. So the scheme is one router that all sources
    share. With a router at each source, as in the topology, a key is on as many workers as its sources have chosen, at
    most d.

    References
    ----------
    Nasir et al., *Partial Key Grouping*, sections 3.1 and 6.2 (Q1, "PoTC").

    Examples
    --------
    >>> workers = Potc(10).route(["tr", "de", "tr", "tr"]).tolist()
    >>> workers[0] == workers[2] == workers[3]
    True

    """

    name = "POTC"
    short = "potc"

    def __init__(self, workers: int, *, seed: int = 0, choices: int = 2, max_keys: int = 1_000_000) -> None:
        super().__init__(workers, seed=seed, max_keys=max_keys)
        self.choices = check_integer("choices", choices, 2)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        choices = draw_candidates(keys.hashes, hash_function(self.seed), min(self.choices, self.workers), self.workers)
        memory = self._memory_for(len(keys.hashes))
        return choose_once(keys.codes, keys.hashes, choices, False, self.loads, memory)

    def _identity(self) -> str:
        return f"{super()._identity()} choices={self.choices}"
