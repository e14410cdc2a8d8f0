"""What POTC, ON_GREEDY and OFF_GREEDY share: a key's worker is chosen once, and remembered."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import integer
from unskew.grouping.choices.decaying import Decaying
from unskew.grouping.choices.remembered import Remembered, remembered
from unskew.grouping.state import Value


class Sticky(Decaying):
    """Base of the schemes that never split a key.

    Parameters
    ----------
    max_keys : int
        The keys that are remembered at most. Keys that come when they are that many go to the worker that their hash
        names, as in KEY: still one worker, but not chosen.

    """

    #: All sources must agree on a key's worker, so they'd have to share one router.
    shared = True

    def __init__(self, workers: int, *, seed: int = 0, max_keys: int = 1_000_000, half_life: int | None = None) -> None:
        super().__init__(workers, seed=seed, half_life=half_life)
        self.max_keys = integer("max_keys", max_keys, 1)
        self._memory = remembered(np.empty(0, np.uint64), np.empty(0, np.int32), 0)

    def _memory_for(self, newcomers: int) -> Remembered:
        """The memory, with room for that many more keys if ``max_keys`` allows it."""
        memory = self._memory
        size = int(memory.size[0])
        room = min(self.max_keys, size + newcomers)
        if room > len(memory.key):
            room = min(self.max_keys, max(room, 2 * len(memory.key)))
            self._memory = remembered(memory.key[:size], memory.worker[:size], room)
        return self._memory

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys are remembered."""
        return {"remembered": int(self._memory.size[0])}

    def _state(self) -> dict[str, Value]:
        size = int(self._memory.size[0])
        return {
            **super()._state(),
            "loads": self.loads,
            "key": self._memory.key[:size],
            "worker": self._memory.worker[:size],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        keys: NDArray[np.uint64] = state["key"]
        self.loads = state["loads"]
        self._memory = remembered(keys, state["worker"], len(keys))

    def _identity(self) -> str:
        return f"{super()._identity()} max_keys={self.max_keys}"
