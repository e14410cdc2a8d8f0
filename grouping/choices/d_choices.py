"""D_CHOICES: heavy hitters get the fewest choices d that suffice, and the tail gets two."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unskew.grouping.arguments import check_bool, check_number
from unskew.grouping.choices.heavy_hitters import CHOICES, DUE, NEVER, TUPLES, next_time, own_choices
from unskew.grouping.choices.w_choices import WChoices
from unskew.grouping.frequent_keys import USED
from unskew.grouping.state import Value


class DChoices(WChoices):
    """Send a tuple of a heavy hitter to the least loaded of d workers, any other to the less loaded of two.

    Heavy hitters are found as in W_CHOICES. d is the same for all of them. It is the least d with which, in
    expectation, no set of the heaviest keys overloads its workers by more than ``tolerance``
    (``unskew.grouping.choices.heavy_hitters.enough_choices``). If no d < W suffices, d is W, as in W_CHOICES.

    Guarantees
    ----------
    * A key that has never been a heavy hitter is on at most its two workers, those of PARTIAL_KEY. A heavy hitter is on
      these and on those that up to d − 2 further hash functions name, or on any worker if d = W.
    * A heavy hitter has at least two choices. When d is found, it has at least p1·W, however small its share. Until d
      is found again (see the notes) p1 may grow, so a key that suddenly becomes hot is on fewer workers.
    * Which keys are heavy hitters has the guarantees of W_CHOICES.
    * Replication is less than in W_CHOICES at the same balance, as far as the expectation holds.

    Time O(1) a tuple of the tail, O(d) of a heavy hitter. Memory as W_CHOICES: W loads and 20·W counters.

    Parameters
    ----------
    threshold : float, default 0.2
        θ in units of 1/W, as in W_CHOICES. The authors use 1/5.
    tolerance : float, default 1e-4
        ε, the imbalance to aim at, as a fraction of all tuples, above 0 and at most 1. The authors use 10^-4. Larger:
        fewer choices.
    half_life : int, tuples of the source, default None
        As in W_CHOICES.
    own_choices : bool, default False
        Ours. Give each heavy hitter a separate d, max(2, ⌈p·W⌉) for its share p. Its d grows by one whenever its least
        loaded candidate is above the mean load by more than ε of all tuples and 3 tuples. So d isn't based on
        expectations, and one hot key doesn't give all others many workers.

    Notes
    -----
    d is found again whenever the tuples have increased by a tenth, and at the latest after 10,000 tuples, or 20·W if
    that is more. It depends on the shares so far. For the first 1000 tuples, or 2·W if that is more, d is 2. The first
    two candidates differ, as in PARTIAL_KEY. Further ones may coincide, which the paper's formula supposes of all.

    The authors' prototypes (github.com/anisnasir/SLBStorm and SLBSimulator) have the same threshold 1/(5W) and the same
    ε. The differences:

    * They look for d at each tuple of a heavy hitter, from round(p1·W) on, which may be 0 or 1.
    * They try two prefixes of the head, its first key and the whole. Here it is every prefix, as in the paper.
    * They compare with b/W + ε. Here it is b·(1/W + ε), an imbalance of ε for each of the b workers.

    On Zipf streams (z = 0.8 to 2, W = 5 to 100) the d found here is theirs or a little less, and never below p1·W or 2.

    After a change of the stream, D_CHOICES is slower than W_CHOICES, because d depends on shares of the whole stream. A
    key of 80 % that comes after 2 M tuples has d = 3 at first. A million tuples later its workers still have six times
    the mean. Because d is based on expectations, ε isn't always kept on calm streams either, if hash functions
    coincide.

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing*, ICDE 2016,
    section IV ("D-Choices", "Finding the optimal d").

    Examples
    --------
    One key has a fifth of the tuples, so it needs four of twenty workers, and two more because it shares them:

    >>> router = DChoices(20)
    >>> _ = router.route([f"k{i}" if i % 5 else "tr" for i in range(10_000)])
    >>> router.internals()["choices"], router.internals()["heavy"]
    (6, 1)

    """

    name = "D_CHOICES"
    short = "dc"

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        threshold: float = 0.2,
        tolerance: float = 1e-4,
        half_life: int | None = None,
        own_choices: bool = False,
    ) -> None:
        super().__init__(workers, seed=seed, threshold=threshold, half_life=half_life)
        self._tolerance = check_number("tolerance", tolerance, 0, 1, above=True)
        self.own_choices = check_bool("own_choices", own_choices)
        self.tally[CHOICES] = min(2, self.workers)
        self.tally[DUE] = NEVER if self.own_choices else next_time(0, self.workers)
        if self.own_choices:
            self._more = np.zeros(len(self._sketch.key), np.int64)

    def _halve(self) -> None:
        super()._halve()
        self._more >>= 1

    def internals(self) -> Mapping[str, Any]:
        """Show what W_CHOICES shows. With ``own_choices``, ``choices`` is the most that any heavy hitter has now."""
        shown = dict(super().internals())
        if self.own_choices:
            counter, tuples = self._sketch.counter, int(self.tally[TUPLES])
            heavy = np.argsort(counter)[::-1][: shown["heavy"]]
            each = [own_choices(n / tuples, m, self.workers) for n, m in np.c_[counter, self._more][heavy].tolist()]
            shown["choices"] = max(each, default=2)
        return shown

    def _state(self) -> dict[str, Value]:
        more = {"more": self._more[: self._sketch.size[USED]]} if self.own_choices else {}
        return {**super()._state(), **more}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        if self.own_choices:
            self._more = np.zeros(len(self._sketch.key), np.int64)
            self._more[: len(state["more"])] = state["more"]

    def _identity(self) -> str:
        own = " own_choices" if self.own_choices else ""
        return f"{super()._identity()} tolerance={self._tolerance}{own}"
