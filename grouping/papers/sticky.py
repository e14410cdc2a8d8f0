"""The base of POTC, ON_GREEDY and OFF_GREEDY: a key's worker is chosen once and kept in a routing table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer
from unskew.grouping.choices.decay import DecayingGrouping
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.least_loaded import before_first, least_of_all
from unskew.grouping.slots import enter_slot, enter_slots, find_slot, slot_table
from unskew.grouping.state import Value


class StickyTable(NamedTuple):
    """The routing table of a scheme that splits no keys: up to C keys in order of arrival, with workers.

    Memory: 12 bytes a key, and 8 to 16 bytes for the hash table that finds it.
    """

    key: NDArray[np.uint64]  # [C]
    worker: NDArray[np.int32]  # [C]
    size: NDArray[np.int64]  # [1]
    table: NDArray[np.int32]  # see unskew.grouping.slots


def make_table(keys: NDArray[np.uint64], workers: NDArray[np.int32], room: int) -> StickyTable:
    """A routing table of these n keys and their workers, with room for ``room`` keys in all."""
    room = max(room, len(keys))
    memory = StickyTable(np.zeros(room, np.uint64), np.zeros(room, np.int32), np.array([len(keys)]), slot_table(room))
    memory.key[: len(keys)] = keys
    memory.worker[: len(keys)] = workers
    enter_slots(memory.table, memory.key, len(keys))
    return memory


@kernel
def add_key(memory: StickyTable, key: np.uint64, worker: int) -> bool:
    """Add a new key and its worker. Return False if there is no room."""
    slot: int = memory.size[0]
    if slot == len(memory.key):
        return False
    memory.key[slot] = key
    memory.worker[slot] = worker
    memory.size[0] += 1
    enter_slot(memory.table, memory.key, slot)
    return True


@kernel
def choose_once(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    candidates: NDArray[np.int32],
    everywhere: bool,
    loads: NDArray[np.int64],
    memory: StickyTable,
) -> NDArray[np.int32]:
    """Route each tuple to its key's worker.

    A new key gets the least loaded of its candidates [K, d], or of all workers if it may go ``everywhere``. If the
    table is full, it gets its first candidate.
    """
    workers = np.empty(len(codes), np.int32)
    known, chosen, table = memory.key, memory.worker, memory.table
    cursor = before_first()
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        slot = find_slot(table, known, key)
        if slot >= 0:
            worker: int = chosen[slot]
        else:
            worker = candidates[code, 0]
            for j in range(1, candidates.shape[1]):
                if loads[candidates[code, j]] < loads[worker]:
                    worker = candidates[code, j]
            if everywhere:
                worker = least_of_all(cursor, loads)
            if not add_key(memory, key, worker):
                worker = candidates[code, 0]
        loads[worker] += 1
        workers[i] = worker
    return workers


class StickyGrouping(DecayingGrouping):
    """Base of the schemes that never split a key.

    Parameters
    ----------
    max_keys : int
        The most keys that are remembered. Further keys go home, as in KEY: each still has one worker, but not chosen by
        load.

    """

    #: All sources must agree on a key's worker, so they would have to share one router.
    shared = True

    def __init__(self, workers: int, *, seed: int = 0, max_keys: int = 1_000_000, half_life: int | None = None) -> None:
        super().__init__(workers, seed=seed, half_life=half_life)
        self.max_keys = check_integer("max_keys", max_keys, 1)
        self._memory = make_table(np.empty(0, np.uint64), np.empty(0, np.int32), 0)

    def _memory_for(self, newcomers: int) -> StickyTable:
        """The routing table, with room for so many more keys if ``max_keys`` allows it."""
        memory = self._memory
        size = int(memory.size[0])
        room = min(self.max_keys, size + newcomers)
        if room > len(memory.key):
            room = min(self.max_keys, max(room, 2 * len(memory.key)))
            self._memory = make_table(memory.key[:size], memory.worker[:size], room)
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
        self._memory = make_table(keys, state["worker"], len(keys))

    def _identity(self) -> str:
        return f"{super()._identity()} max_keys={self.max_keys}"
