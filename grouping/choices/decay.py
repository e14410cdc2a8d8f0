"""The option ``half_life``: counts that decay, for schemes that would otherwise count from the start."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer
from unskew.grouping.interface import Grouping
from unskew.grouping.state import Value


class DecayingGrouping(Grouping):
    """Base of the schemes with a ``half_life``.

    After each ``half_life`` tuples all counts are halved, so tuples older than a few half-lives don't matter. Between
    halvings, counts are integers that only grow, as the kernels require. None: count from the start, as published.
    """

    def __init__(self, workers: int, *, seed: int = 0, half_life: int | None = None) -> None:
        super().__init__(workers, seed=seed)
        self.half_life = None if half_life is None else check_integer("half_life", half_life, 1)
        self.loads = np.zeros(self.workers, np.int64)
        self.age = 0  # tuples since the last halving

    def _route_by_half_lives(
        self, codes: NDArray[np.int32], route: Callable[[NDArray[np.int32]], NDArray[np.int32]]
    ) -> NDArray[np.int32]:
        """Route by ``route``, and halve the counts after each ``half_life`` tuples."""
        if self.half_life is None:
            return route(codes)
        workers = np.empty(len(codes), np.int32)
        start = 0
        while start < len(codes):
            end = min(len(codes), start + self.half_life - self.age)
            workers[start:end] = route(codes[start:end])
            self.age += end - start
            if self.age == self.half_life:
                self._halve()
                self.age = 0
            start = end
        return workers

    def _halve(self) -> None:
        """Halve all counts, rounded down."""
        self.loads >>= 1

    def _state(self) -> dict[str, Value]:
        return {**super()._state(), **({} if self.half_life is None else {"age": self.age})}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.age = state.get("age", 0)

    def _identity(self) -> str:
        return super()._identity() + ("" if self.half_life is None else f" half_life={self.half_life}")
