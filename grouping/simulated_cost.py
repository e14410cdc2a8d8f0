"""Simulated costs of tuples: a time at the worker, equal for all keys or per class of keys."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.keys import KeyArray, encode_keys
from unskew.grouping.streams import class_costs


@dataclass(frozen=True)
class Cost:
    """The simulated cost of a tuple, during which workers sleep, the same at routers and workers.

    Parameters
    ----------
    seconds : float
        The cost of a tuple.
    factors : tuple of float
        The factor of ``seconds`` for each class of keys. A key's hash chooses its class. Empty: all tuples cost the
        same.
    seed : int
        The seed of keys' classes.

    """

    seconds: float = 0.0
    factors: tuple[float, ...] = ()
    seed: int = 0

    @property
    def mean(self) -> float:
        """The mean cost of a tuple, over all classes (s)."""
        return self.seconds * float(np.mean(self.factors)) if self.factors else self.seconds

    def of(self, keys: KeyArray) -> NDArray[np.float64]:
        """The cost of each of n tuples: float64[n], ms."""
        if not self.factors:
            return np.full(len(keys), 1000 * self.seconds)
        return 1000 * self.seconds * class_costs(encode_keys(keys), self.factors, seed=self.seed)

    def total(self, keys: KeyArray) -> float:
        """The total cost of these tuples (s)."""
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
