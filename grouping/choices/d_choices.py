"""D_CHOICES: heavy hitters get d choices, as few as will do; the tail gets two."""

from unskew.grouping.arguments import number
from unskew.grouping.choices.heavy_hitters import CHOICES, DUE, next_time
from unskew.grouping.choices.w_choices import WChoices


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

    def __init__(self, workers: int, *, seed: int = 0, threshold: float = 0.2, tolerance: float = 1e-4) -> None:
        super().__init__(workers, seed=seed, threshold=threshold)
        self._tolerance = number("tolerance", tolerance, 0, 1, above=True)
        self.tally[CHOICES] = min(2, self.workers)
        self.tally[DUE] = next_time(0, self.workers)

    def _identity(self) -> str:
        return f"{super()._identity()} tolerance={self._tolerance}"
