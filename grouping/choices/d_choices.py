"""D_CHOICES: heavy hitters get d choices, as few as will do; the tail gets two."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unskew.grouping.arguments import number
from unskew.grouping.choices.heavy_hitters import CHOICES, DUE, NEVER, TUPLES, next_time, own_choices
from unskew.grouping.choices.w_choices import WChoices
from unskew.grouping.frequent import USED
from unskew.grouping.state import Value


class DChoices(WChoices):
    """Send a tuple of a heavy hitter to the least loaded of d workers, any other to the less loaded of two.

    Heavy hitters are found as in W_CHOICES. d is the same for all of them: the least with which, in expectation, no set
    of the heaviest keys overloads the workers that it may use by more than ``tolerance`` (a fraction of all tuples; see
    ``unskew.grouping.choices.heavy_hitters.enough_choices``). If no d < W does, it's W, as in W_CHOICES.

    Guarantees
    ----------
    * A key that has never been a heavy hitter is on at most its two workers, those of PARTIAL_KEY; a heavy hitter
      on these and those that up to d − 2 further hash functions name.
    * A heavy hitter has at least two choices, and at least p1·W: however little its share, never one.
    * Heavy hitters are what W_CHOICES guarantees.
    * Less replication than W_CHOICES at the same balance, as far as the expectation holds.

    Time O(1) a tuple of the tail, O(d) of a heavy hitter. Memory as W_CHOICES: W loads and 20·W counters.

    Parameters
    ----------
    threshold : float, default 0.2
        As in W_CHOICES: θ in units of 1/W, the authors' 1/5.
    tolerance : float, default 1e-4
        The imbalance ε that is aimed at, as a fraction of all tuples; the authors' 10^-4. Larger: fewer choices.
    half_life : int, tuples of the source, default None
        As in W_CHOICES.
    own_choices : bool, default False
        Ours. Give each heavy hitter a d of its own: max(2, ⌈p·W⌉) by its own share p, and one more whenever the least
        loaded of its candidates is above the mean load by more than ε of all tuples (and 3 tuples). So d isn't planned
        by expectation, and one hot key doesn't make all others wide.

    Notes
    -----
    d is found anew each time that the tuples are a tenth more (at the latest after 10,000, or 20·W if that's
    more), from the shares so far; at first, for 2·W or 1000 tuples, it is 2. The first two candidates differ, as in
    PARTIAL_KEY; further ones may coincide, as the paper's formula supposes of all.

    The authors' prototypes (github.com/anisnasir/SLBStorm and SLBSimulator) have the same threshold 1/(5W) and the same
    ε, and look for d at each tuple of a heavy hitter, from round(p1·W) on, which may be 0 or 1. They try two prefixes
    of the head, its first key and the whole; here it is every prefix, as in the paper. They compare with b/W + ε where
    here it is b·(1/W + ε): an imbalance of ε for each of the b workers. On Zipf streams (z = 0.8 to 2, W = 5 to 100)
    the d found is theirs or a little less, never below p1·W or 2.

    What change does: as in W_CHOICES, and worse, for d comes from shares of the whole stream. A key of 80 % that comes
    after 2 M tuples has d = 3 at first, and a million tuples later its workers still have six times the mean. And as d
    is planned by expectation, ε isn't always kept on calm streams either (hash functions that coincide).

    References
    ----------
    Nasir et al., *When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing*, ICDE 2016,
    section IV ("D-Choices", "Finding the optimal d").

    Examples
    --------
    One key has a fifth of the tuples, so it needs four of twenty workers, and one more for those that it must share:

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
        self._tolerance = number("tolerance", tolerance, 0, 1, above=True)
        self.own_choices = bool(own_choices)
        self.tally[CHOICES] = min(2, self.workers)
        self.tally[DUE] = NEVER if self.own_choices else next_time(0, self.workers)
        if self.own_choices:
            self._more = np.zeros(len(self._sketch.key), np.int64)

    def _halve(self) -> None:
        super()._halve()
        self._more >>= 1

    def internals(self) -> Mapping[str, Any]:
        """As W_CHOICES; with choices of their own, ``choices`` are the most that a heavy hitter has now."""
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
