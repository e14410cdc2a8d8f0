"""SHUFFLE: round robin, the bound of balance."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys


class Shuffle(Grouping):
    """Send each tuple to the next worker in turn, whatever its key.

    Guarantees
    ----------
    * A source's loads never differ by more than one tuple.
    * A key may be on every worker: replication up to W.

    Time O(1) a tuple, memory O(1).

    Notes
    -----
    Each source starts at another worker (``at_source``), or all would favour the same first workers.

    References
    ----------
    Nasir et al., *The Power of Both Choices*, section II ("shuffle grouping").

    Examples
    --------
    >>> Shuffle(3).route(["a"] * 5).tolist()
    [0, 1, 2, 0, 1]

    """

    name = "SHUFFLE"
    short = "sg"
    uses_keys = False
    state_fields = ("turn",)

    def __init__(self, workers: int, *, seed: int = 0) -> None:
        super().__init__(workers, seed=seed)
        self.turn = self.seed % self.workers

    def at_source(self, source: int) -> Self:
        self.turn = (self.seed + source) % self.workers
        return self

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        n = len(keys)
        workers = (np.arange(self.turn, self.turn + n) % self.workers).astype(np.int32)
        self.turn = (self.turn + n) % self.workers
        return workers
