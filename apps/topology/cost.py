"""What tuples are made to cost: a simulated time at the worker, perhaps by key."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.costs import class_costs
from unskew.grouping.keys import KeyArray, encode


@dataclass(frozen=True)
class Cost:
    """The simulated cost of a tuple, the same function at routers and workers; it is spent asleep.

    Parameters
    ----------
    seconds : float
        Of a tuple; 0: it is free.
    factors : tuple of float
        How many times that a tuple costs, one factor for each class of keys: a key is in one of them by its hash. None:
        all tuples cost alike.
    seed : int
        Chooses the classes.

    """

    seconds: float = 0.0
    factors: tuple[float, ...] = ()
    seed: int = 0

    @property
    def mean(self) -> float:
        """Of a tuple whose key is any (s)."""
        return self.seconds * float(np.mean(self.factors)) if self.factors else self.seconds

    def of(self, keys: KeyArray) -> NDArray[np.float64]:
        """Of each of n tuples: float64[n], ms."""
        if not self.factors:
            return np.full(len(keys), 1000 * self.seconds)
        return 1000 * self.seconds * class_costs(encode(keys), self.factors, seed=self.seed)

    def total(self, keys: KeyArray) -> float:
        """Of all these tuples together (s)."""
        return float(self.of(keys).sum()) / 1000 if self.factors else len(keys) * self.seconds

    def __str__(self) -> str:
        """In words.

        >>> print(Cost()), print(Cost(0.002)), print(Cost(0.001, (1.0, 64.0)))
        tuples cost nothing
        2 ms a tuple
        1 to 64 ms a tuple, by key
        (None, None, None)
        """
        if not self.seconds:
            return "tuples cost nothing"
        if not self.factors:
            return f"{1000 * self.seconds:g} ms a tuple"
        least, most = (1000 * self.seconds * end for end in (min(self.factors), max(self.factors)))
        return f"{least:g} to {most:g} ms a tuple, by key"


FREE = Cost()
