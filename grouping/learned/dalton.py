"""DALTON: a contextual bandit learns which worker is good for a hot key."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import integer, number
from unskew.grouping.chains import add, chains, nodes_of
from unskew.grouping.choices.frequent import counted, frequent, restored
from unskew.grouping.hashing import function, homes
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.learned.bandit import HOT, SPLIT, Arms, Rules, route_by_value
from unskew.grouping.slots import enter_slots, slot_table
from unskew.grouping.state import Value


class Dalton(Grouping):
    """Send a cold key home, and a hot one where that has been worth most: few tuples there, and few workers in all.

    A key is hot when it has more than a W-th of a ``slide``'s tuples, from then until the end of the next slide. Of a
    hot key's workers each has a value, an average of its rewards in which the last one has a weight of 0.1; mostly the
    key goes where the value is highest, and with probability ``explore`` to another worker. The reward is

        − ½ · (L − mean) / max(L, mean) − ½ · (workers that the key is on) / W

    with the chosen worker's load L and the workers' mean load over the last ``window`` tuples. At first a key explores
    two workers, when that many have been tried by 70 % of the hot keys three, and so on up to ``splits``.

    Guarantees
    ----------
    * A key that has never been hot is on one worker, its home in KEY; so is one that hasn't been hot for two slides.
    * Nothing counts for longer than ``window`` (values: than the key is hot).
    * No bound on imbalance: cold keys are hashed, and half of the reward is for having few workers.

    Time O(1) a tuple of a cold key, O(workers that it was on) of a hot one. Memory: (``window`` / ``slide`` + 2) · W
    loads, at most 16·W counters (16 bytes, 8 to 16 for finding them), and 16·W + 1024 values (24 bytes).

    Parameters
    ----------
    slide : int, tuples, default 10,000
        How often it's found out which keys are hot. Smaller: sooner, and more keys by chance.
    window : int, tuples, default 100,000
        At least ``slide``; a multiple of it (else rounded down to one). Over how many tuples loads and workers count.
    explore : float, default 0.1
        ε in [0, 1], how much of a hot key's tuples explores; the authors' 0.1.
    splits : int, default None
        How many workers a key may explore at most; None: all. The authors' code says 6, with which a key of 80 % has at
        best 1.3 times the mean load at W = 10.

    Notes
    -----
    Written from the authors' code (github.com/ezapridou/Dalton, one partitioner), not from the paper. There a slide and
    a window are measured in time stamps, which its sources count up by one a tuple, and have no default. What differs:

    * Keys are counted exactly there, or from 10,000 keys on in a sketch of 4 × 40 cells, whose error of 5 % makes most
      keys hot when W is above 20. Here by Misra-Gries, at most an eighth of the threshold too low.
    * A place that has left the window isn't taken off the key's there (``expireOld`` clears another bit); here it is.
    * A hot key's values are W numbers there, all −2 at first; here those that were tried, which is the same.
    * Each source is alone, as their single partitioner; several share their values through a reducer there.
    * A draw is a hash of the tuple's number, so that answers don't depend on batches.

    References
    ----------
    Zapridou, Mytilinis and Ailamaki, *Dalton: Learned Partitioning for Distributed Data Streams*, PVLDB 16(3), 2022.

    Examples
    --------
    A key with half of the tuples finds as many workers as it needs to leave no one behind:

    >>> router = Dalton(10, slide=1000)
    >>> workers = router.route([f"k{i}" if i % 2 else "tr" for i in range(40_000)])
    >>> len(set(workers[:1000:2].tolist())), len(set(workers[20_000::2].tolist()))
    (1, 10)

    """

    name = "DALTON"
    short = "dal"
    state_fields = ("loads", "tally")

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        slide: int = 10_000,
        window: int = 100_000,
        explore: float = 0.1,
        splits: int | None = None,
    ) -> None:
        super().__init__(workers, seed=seed)
        self.slide = integer("slide", slide, 1)
        self.window = integer("window", window, self.slide)
        self.explore = number("explore", explore, 0, 1)
        self.splits = self.workers if splits is None else integer("splits", splits, 2)
        chance = function(self.seed, 1 << 31)
        self._rules = Rules(chance, self.slide, self.explore, self.splits)
        self.loads = np.zeros((self.window // self.slide + 2, self.workers), np.int64)
        self.tally = np.array([0, 0, 2, 0])
        self._sketch = frequent(min(self.slide, 16 * self.workers))
        self._arms = self._no_arms()

    def _no_arms(self) -> Arms:
        keys, arms = 2 * min(self.workers, self.slide) + 2, 16 * self.workers + 1024
        return Arms(
            np.zeros(keys, np.uint64), np.zeros(keys, np.int64), np.zeros(keys, np.bool_), chains(keys, arms),
            np.zeros(arms), np.zeros(arms, np.int64), slot_table(keys),
        )  # fmt: skip

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = homes(keys.hashes, function(self.seed), self.workers)
        return route_by_value(
            keys.codes, keys.hashes, home, self._rules, self._sketch, self._arms, self.loads, self.tally
        )

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys are hot, how many workers they have tried (100), and how many they may."""
        tried = np.bincount(nodes_of(self._arms.chain)[:, 0])
        return {"hot": len(tried), "workers": np.sort(tried)[::-1][:100].tolist(), "splits": int(self.tally[SPLIT])}

    def _state(self) -> dict[str, Value]:
        hot = int(self.tally[HOT])
        arms = nodes_of(self._arms.chain)
        return {
            **super()._state(),
            **counted(self._sketch),
            "hot": self._arms.key[:hot],
            "expires": self._arms.expires[:hot],
            "sated": self._arms.sated[:hot],
            "slot": arms[:, 0].copy(),
            "worker": self._arms.chain.worker[arms[:, 1]],
            "value": self._arms.value[arms[:, 1]],
            "last": self._arms.last[arms[:, 1]],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._sketch = restored(state, len(self._sketch.key))
        self._arms = arms = self._no_arms()
        hot = len(state["hot"])
        arms.key[:hot] = state["hot"]
        arms.expires[:hot] = state["expires"]
        arms.sated[:hot] = state["sated"]
        enter_slots(arms.table, arms.key, hot)
        for slot, worker, value, last in zip(*(state[field] for field in _OF_ARMS), strict=True):
            node = add(arms.chain, slot, worker)
            arms.value[node], arms.last[node] = value, last

    def _identity(self) -> str:
        parameters = f"slide={self.slide} window={self.window} explore={self.explore} splits={self.splits}"
        return f"{super()._identity()} {parameters}"


_OF_ARMS = ("slot", "worker", "value", "last")
