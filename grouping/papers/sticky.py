"""POTC, ON_GREEDY and OFF_GREEDY: a key's worker is chosen once and kept in a routing table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer
from unskew.grouping.choices.decay import DecayingGrouping
from unskew.grouping.hashing import choose_homes, draw_candidates, hash_function
from unskew.grouping.interface import Costs, Times
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import KeyArray, Keys, encode_keys, sum_by_key
from unskew.grouping.least_loaded import before_first, build_heap, least_of_all, raise_least
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

    Beyond ``max_keys``, keys go home, as in KEY: each still has one worker, but not chosen by load.
    """

    shared = True  #: All sources must agree on a key's worker, so they would have to share one router.

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


class Potc(StickyGrouping):
    """Send a new key to the least loaded of its d candidates, and all its later tuples to the same worker.

    This is the classical power of two choices for key grouping ("static PoTC"), which shows what key splitting adds.

    Guarantees
    ----------
    * With one router a key is on one worker, one of those that its hashes name: replication 1.
    * No bound on imbalance, because the worker is chosen before the key's frequency is known.

    Time O(1) a tuple and O(d) a new key. Memory: W counters and **a record for each key seen**, 20 to 28 bytes, up to
    ``max_keys``. The scheme needs these records by definition.

    Parameters
    ----------
    choices : int, default 2
        d ≥ 2, the candidates of a key.
    max_keys : int, default 1,000,000
        The most keys that are remembered, at least 1. Later keys go home, as in KEY.

    Notes
    -----
    All sources must agree on a key's worker, which takes coordination. So the scheme is one router that all sources
    share. With a router at each source, as in the topology, a key is on as many workers as its sources have chosen, at
    most d.

    References
    ----------
    Nasir et al., *Partial Key Grouping*, sections 3.1 and 6.2 (Q1, "PoTC").

    Examples
    --------
    >>> workers = Potc(10).route(["tr", "de", "tr", "tr"]).tolist()
    >>> workers[0] == workers[2] == workers[3]
    True

    """

    name = "POTC"
    short = "potc"

    def __init__(self, workers: int, *, seed: int = 0, choices: int = 2, max_keys: int = 1_000_000) -> None:
        super().__init__(workers, seed=seed, max_keys=max_keys)
        self.choices = check_integer("choices", choices, 2)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        choices = draw_candidates(keys.hashes, hash_function(self.seed), min(self.choices, self.workers), self.workers)
        memory = self._memory_for(len(keys.hashes))
        return choose_once(keys.codes, keys.hashes, choices, False, self.loads, memory)

    def _identity(self) -> str:
        return f"{super()._identity()} choices={self.choices}"


class OnGreedy(StickyGrouping):
    """Send a new key to the least loaded of all workers, and all its later tuples to the same worker.

    It shows which balance an online scheme could reach without splitting keys if all sources agreed.

    Guarantees
    ----------
    * With one router a key is on one worker: replication 1.
    * No bound on imbalance, because the worker is chosen before the key's frequency is known.

    Time O(1) a tuple, amortised. Memory: W counters and **a record for each key seen**, 20 to 28 bytes, up to
    ``max_keys``. The scheme needs these records by definition.

    Parameters
    ----------
    max_keys : int, default 1,000,000
        The most keys that are remembered, at least 1. Later keys go home, as in KEY.
    half_life : int, tuples of the source, default None
        Ours. Halve all counts after each ``half_life`` tuples, at least 1. None: count from the start, as published.

    Notes
    -----
    Of equal loads the first worker is chosen. The scheme is one router that all sources share. With a router at each
    source, as in the topology, a key is on as many workers as its sources have chosen.

    After a change of the stream: a key stays where it was put, however hot it becomes. Loads count from the start, so
    all new keys go to the workers that had little before until their totals have caught up. With a ``half_life`` that
    takes a few half-lives.

    References
    ----------
    Nasir et al., *Partial Key Grouping*, section 6.2 (Q1, "On-Greedy").

    Examples
    --------
    >>> OnGreedy(3).route(["a", "a", "b", "c", "d", "a"]).tolist()
    [0, 0, 1, 2, 1, 0]

    """

    name = "ON_GREEDY"
    short = "ong"

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = choose_homes(keys.hashes, hash_function(self.seed), self.workers)
        memory = self._memory_for(len(keys.hashes))
        return self._route_by_half_lives(
            keys.codes, lambda codes: choose_once(codes, keys.hashes, home[:, None], True, self.loads, memory)
        )


class OffGreedy(OnGreedy):
    """Sort the keys by decreasing frequency and assign each to the least loaded worker, before any tuple is routed.

    The scheme gets the whole stream beforehand (``fit``), so it bounds schemes that don't split keys. Unforeseen keys
    are assigned as in ON_GREEDY.

    Guarantees
    ----------
    * With one router a key is on one worker: replication 1.
    * If the whole stream is foreseen, the greatest load at its end is at most 4/3 − 1/(3W) times the least possible
      without key splitting. This is Graham's bound for longest processing time first.
    * If p1 > 1/W, no scheme without key splitting can have a smaller imbalance fraction than p1 − 1/W.

    Time O(1) a tuple, O(K log K) once. Memory: W counters and **a record for each key foreseen or seen**, 28 bytes, up
    to ``max_keys``. The scheme needs these records by definition.

    Parameters
    ----------
    max_keys : int, default 1,000,000
        The most keys that are remembered, at least 1. The most frequent foreseen ones are remembered first. Other keys
        go home, as in KEY.

    Notes
    -----
    Of equal frequencies the key that was foreseen first is assigned first. Of equal loads the first worker is chosen.

    References
    ----------
    Nasir et al., *Partial Key Grouping*, section 6.2 (Q1, "Off-Greedy"); Graham, *Bounds on Multiprocessing Timing
    Anomalies*, 1969.

    Examples
    --------
    >>> router, stream = OffGreedy(2), ["a", "b", "c", "c", "c"]
    >>> router.fit(stream)
    >>> router.route(stream).tolist()
    [1, 1, 0, 0, 0]

    """

    name = "OFF_GREEDY"
    short = "offg"
    state_fields = ("foreseen_keys", "foreseen_counts")

    def __init__(self, workers: int, *, seed: int = 0, max_keys: int = 1_000_000) -> None:
        super().__init__(workers, seed=seed, max_keys=max_keys)
        self.foreseen_keys = np.empty(0, np.uint64)
        self.foreseen_counts = np.empty(0, np.int64)

    def fit(self, keys: KeyArray) -> None:
        """Count the tuples to come, before the first one is routed. Raises ``ValueError`` if routing has begun."""
        if self.loads.any():
            raise ValueError(f"{self.name} can't foresee more: it has begun to route")
        encoded = encode_keys(keys)
        counts = np.bincount(encoded.codes, minlength=len(encoded.hashes))
        all_keys = np.concatenate([self.foreseen_keys, encoded.hashes])
        found, first, at = np.unique(all_keys, return_index=True, return_inverse=True)
        totals = sum_by_key(at, np.concatenate([self.foreseen_counts, counts]), len(found))
        in_order = np.argsort(first)
        self.foreseen_keys, self.foreseen_counts = found[in_order], totals[in_order]

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        if len(keys) and len(self.foreseen_keys):
            self._assign()
        return super()._route(keys, times, costs)

    def _assign(self) -> None:
        order = np.argsort(-self.foreseen_counts, kind="stable")[: self.max_keys]
        workers = _longest_first(self.foreseen_counts[order], self.workers)
        self._memory = make_table(self.foreseen_keys[order], workers, len(order))
        self.foreseen_keys, self.foreseen_counts = self.foreseen_keys[:0], self.foreseen_counts[:0]


@kernel
def _longest_first(counts: NDArray[np.int64], workers: int) -> NDArray[np.int32]:
    """Assign keys, given by descending count, each to the least loaded worker."""
    assigned = np.empty(len(counts), np.int32)
    loads = np.zeros(workers)
    heap = build_heap(loads)
    for i in range(len(counts)):
        assigned[i] = heap[0]
        raise_least(heap, loads, float(counts[i]))
    return assigned
