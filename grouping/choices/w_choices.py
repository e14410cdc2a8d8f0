"""W_CHOICES: heavy hitters may go to all workers, the tail to two."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_number
from unskew.grouping.choices.decay import DecayingGrouping
from unskew.grouping.choices.heavy_hitters import CHOICES, DUE, NEVER, TUPLES, heavy_shares, route_by_weight
from unskew.grouping.frequent_keys import TAKEN_OFF, make_sketch, restore_sketch, save_sketch
from unskew.grouping.hashing import draw_candidates, hash_function
from unskew.grouping.interface import Costs, Times
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value


class WChoices(DecayingGrouping):
    """Send a tuple of a heavy hitter to the least loaded of all workers, any other to the less loaded of two.

    Heavy hitters are keys with a share of at least θ = ``threshold`` / W, found online in the source's part of the
    stream.

    Guarantees
    ----------
    * A key that has never been a heavy hitter is on at most its two workers, those of PARTIAL_KEY.
    * No key with less than θ of the tuples so far counts as a heavy hitter, and no key does by chance: its certain
      count is three standard deviations above the threshold, and at least 4 tuples.
    * Every key with a share above 1.5·θ counts as a heavy hitter once the stream is long enough to tell.
    * So the load is as balanced as its tail: as PARTIAL_KEY on keys below the threshold up to which it provably
      balances, 1/(5W) (Theorem 5.1 there).

    Time O(1) a tuple, amortised. Memory: W loads and 4 / θ = 20·W counters of heavy hitters, of 16 bytes each and 8 to
    16 bytes to find each.

    Parameters
    ----------
    threshold : float, default 0.2
        θ in units of 1/W, from 0.01 to 10. The authors use 1/5, the most that PARTIAL_KEY is proved to balance, and try
        1/8 to 2. Lower: more keys on all workers, and more memory.
    half_life : int, tuples of the source, default None
        Ours. Halve all counts after each ``half_life`` tuples, at least 1. None: count from the start, as published.
        It should be at least some ten times 5·W. Otherwise no key is counted often enough to be a heavy hitter.

    Notes
    -----
    At low skew and with few keys *all* keys may truly be above θ, and then the scheme is SHUFFLE. An example is W
    equally frequent keys, of 1/W each. D_CHOICES then finds how few choices suffice.

    The authors count with SpaceSaving, whose counts are too high by up to N/m. Their prototypes have m = 100 counters
    whatever W is, and add the error once more. So with many workers nearly every key passes. This scheme counts with
    Misra-Gries, whose counts are never too high, and has 4/θ counters.

    After a change of the stream: shares and loads count from the start. A key that becomes hot after N tuples is a
    heavy hitter within N/(5W) of its tuples. Then it goes to all workers, first to those with the fewest tuples. The
    loads are even again after a few windows. A key that has gone stays a heavy hitter until its share of the whole
    stream is below θ. With a ``half_life`` that takes a few half-lives.

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing*, ICDE 2016,
    sections III and IV; Misra and Gries, *Finding Repeated Elements*, 1982.

    Examples
    --------
    >>> workers = WChoices(4).route(["tr"] * 400)
    >>> np.bincount(workers).tolist()
    [100, 100, 100, 100]

    """

    name = "W_CHOICES"
    short = "wc"
    state_fields = ("loads", "tally")

    def __init__(self, workers: int, *, seed: int = 0, threshold: float = 0.2, half_life: int | None = None) -> None:
        super().__init__(workers, seed=seed, half_life=half_life)
        self.threshold = check_number("threshold", threshold, 0.01, 10)
        self._tolerance = 0.0  # heavy hitters have all workers, except in D_CHOICES
        self.tally = np.array([0, self.workers, NEVER])
        self._sketch = make_sketch(int(np.ceil(4 * self.workers / self.threshold)))
        self._more = np.zeros(0, np.int64)  # heavy hitters don't count how many they need

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        first = hash_function(self.seed)
        tail = draw_candidates(keys.hashes, first, min(2, self.workers), self.workers)
        if self.workers == 1:
            tail = np.repeat(tail, 2, axis=1)
        rules = first, self.threshold / self.workers, self._tolerance
        state = self._sketch, self._more, self.loads, self.tally
        return self._route_by_half_lives(
            keys.codes, lambda codes: route_by_weight(codes, keys.hashes, tail, *rules, *state)
        )

    def _halve(self) -> None:
        super()._halve()
        self._sketch.counter[:] >>= 1
        self._sketch.size[TAKEN_OFF] >>= 1
        tuples = int(self.tally[TUPLES])
        self.tally[TUPLES] -= tuples - tuples // 2
        self.tally[DUE] -= tuples - tuples // 2

    def internals(self) -> Mapping[str, Any]:
        """Show how many choices a heavy hitter has, the number of heavy hitters, and their 100 largest shares."""
        tuples = int(self.tally[TUPLES])
        shares = heavy_shares(self._sketch, self.threshold / self.workers, tuples) if tuples else np.empty(0)
        return {
            "choices": int(self.tally[CHOICES]),
            "heavy": len(shares),
            "shares": [round(share, 6) for share in shares[:100].tolist()],
        }

    def _state(self) -> dict[str, Value]:
        return {**super()._state(), **save_sketch(self._sketch)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._sketch = restore_sketch(state, len(self._sketch.key))

    def _identity(self) -> str:
        return f"{super()._identity()} threshold={self.threshold}"
