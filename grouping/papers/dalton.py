"""DALTON: a contextual bandit learns hot keys' best workers.

A *slide* is a fixed number of tuples. Loads and replicas are counted over a window: the last few slides and the present
one. A hot key's *arms* are the workers that it has been on since it became hot. Each arm has a value.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer, check_number
from unskew.grouping.frequent_keys import USED, MisraGriesSketch, make_room, make_sketch, restore_sketch, save_sketch
from unskew.grouping.hashing import choose_homes, hash_function, mix_hash, reduce_to_range
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys
from unskew.grouping.slots import (
    END,
    SPARE,
    Chains,
    add_node,
    drop_nodes,
    enter_slot,
    enter_slots,
    find_slot,
    list_nodes,
    make_chains,
    slot_table,
)
from unskew.grouping.state import Value

UNTRIED = -2.0  # an untried arm's value, below any reward
STEP = 0.1  # the weight of a new reward
_SHARE_SATED = 0.7  # if such a share of the hot keys is sated, all may explore one more worker
# Positions in `tally`: tuples so far; hot keys; workers that a key may explore now; sated hot keys.
TUPLES, HOT, SPLIT, SATED = 0, 1, 2, 3


class DaltonParameters(NamedTuple):
    """The kernel's parameters."""

    chance: np.uint64  # the hash function that draws
    slide: int  # tuples
    explore: float
    splits: int


class Arms(NamedTuple):
    """C hot keys, and M arms in all. Each arm has a value and the slide in which it was used last."""

    key: NDArray[np.uint64]  # [C]
    expires: NDArray[np.int64]  # [C], the slide at which the key ceases to be hot
    sated: NDArray[np.bool_]  # [C], whether the key was on as many workers as it may explore
    chain: Chains
    value: NDArray[np.float64]  # [M]
    last: NDArray[np.int64]  # [M]
    table: NDArray[np.int32]  # see unskew.grouping.slots


_OF_ARMS = ("slot", "worker", "value", "last")  # a saved state's columns of each arm


class Dalton(Grouping):
    """Send a cold key home, and a hot key to the worker that has earned the highest rewards.

    A key becomes hot when it has more than a W-th of a ``slide``'s tuples. It is hot until the end of the next slide.
    In the first slide no key is hot.

    Each of a hot key's workers has a value: an average of its rewards in which the last one has a weight of 0.1. Mostly
    the key goes where the value is highest, and with probability ``explore`` to a random worker. The reward is high if
    the worker has few tuples and the key is on few workers:

        − ½ · (L − mean) / max(L, mean) − ½ · (workers that the key is on) / W

    L is the chosen worker's load, and mean is the workers' mean load, both over the last ``window`` tuples. At first a
    key explores two workers. When 70 % of the hot keys have been on that many workers, a key may explore three, and so
    on up to ``splits``.

    Guarantees
    ----------
    * A key that has never been hot is on one worker, its home in KEY. A key goes home again when it is no longer hot.
    * No load counts for longer than ``window`` and the present slide. A value lasts as long as its key is hot.
    * No bound on imbalance: cold keys are hashed, and half of the reward is for having few workers.

    Time O(1) a tuple of a cold key. For a hot key it is O(w), where w is the number of workers that the key was on.
    Memory: (``window`` / ``slide`` + 2) · W loads; at most 16·W counters of 16 bytes, and 8 to 16 bytes to find each;
    16·W + 1024 values of 24 bytes.

    Parameters
    ----------
    slide : int, tuples, default 10,000
        How many tuples a slide has. With each slide the counts start anew. Smaller: hot keys are found sooner, and more
        keys are hot by chance.
    window : int, tuples, default 100,000
        The tuples over which loads and workers count. At least ``slide``; it is rounded down to a multiple of it.
    explore : float, default 0.1
        ε in [0, 1], the share of a hot key's tuples that explore. The authors' value is 0.1.
    splits : int, default None
        The most workers that a key may explore, at least 2; None: all. The authors' code has 6. With 6, a key of 80 %
        has at best 1.3 times the mean load at W = 10.

    Notes
    -----
    We wrote this scheme from the authors' code (one partitioner of github.com/ezapridou/Dalton), not from the paper.
    Their code measures a slide and a window in time stamps, which its sources increase by one a tuple. It has no
    default for either. The differences:

    * The authors count keys exactly, or from 10,000 keys on in a sketch of 4 × 40 cells. The sketch's error of 5 %
      makes most keys hot when W is above 20. Here Misra-Gries counts, at most an eighth of the threshold too low.
    * In the authors' code a worker that the key left a window ago still counts, because ``expireOld`` clears another
      bit. Here it doesn't.
    * In the authors' code a hot key has W values, all −2 at first. Here it has only those of tried workers, with the
      same result.
    * In the authors' code several sources share their values through a reducer. Here each source is alone, like their
      single partitioner.
    * A random draw is a hash of the tuple's number, so that answers don't depend on batches.

    References
    ----------
    Zapridou, Mytilinis and Ailamaki, *Dalton: Learned Partitioning for Distributed Data Streams*, PVLDB 16(3), 2022.

    Examples
    --------
    A key with half of the tuples is on one worker at first, and on all of them later:

    >>> router = Dalton(10, slide=1000)
    >>> workers = router.route([f"k{i}" if i % 2 else "tr" for i in range(40_000)])
    >>> len(set(workers[:1000:2].tolist())), len(set(workers[20_000::2].tolist()))
    (1, 10)

    """

    name = "DALTON"
    short = "dal"
    state_fields = ("loads", "tally")

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        slide: int = 10_000,
        window: int = 100_000,
        explore: float = 0.1,
        splits: int | None = None,
    ) -> None:
        super().__init__(workers, seed=seed)
        self.slide = check_integer("slide", slide, 1)
        self.window = check_integer("window", window, self.slide)
        self.explore = check_number("explore", explore, 0, 1)
        self.splits = self.workers if splits is None else check_integer("splits", splits, 2)
        chance = hash_function(self.seed, 1 << 31)
        self._rules = DaltonParameters(chance, self.slide, self.explore, self.splits)
        self.loads = np.zeros((self.window // self.slide + 2, self.workers), np.int64)
        self.tally = np.array([0, 0, 2, 0])
        self._sketch = make_sketch(min(self.slide, 16 * self.workers))
        self._arms = self._no_arms()

    def _no_arms(self) -> Arms:
        keys, arms = 2 * min(self.workers, self.slide) + 2, 16 * self.workers + 1024
        of_keys = np.zeros(keys, np.uint64), np.zeros(keys, np.int64), np.zeros(keys, np.bool_)
        return Arms(*of_keys, make_chains(keys, arms), np.zeros(arms), np.zeros(arms, np.int64), slot_table(keys))

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = choose_homes(keys.hashes, hash_function(self.seed), self.workers)
        return route_by_value(
            keys.codes, keys.hashes, home, self._rules, self._sketch, self._arms, self.loads, self.tally
        )

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys are hot, how many workers keys may explore, and how many were tried (the 100 largest)."""
        tried = np.bincount(list_nodes(self._arms.chain)[:, 0])
        return {"hot": len(tried), "workers": np.sort(tried)[::-1][:100].tolist(), "splits": int(self.tally[SPLIT])}

    def _state(self) -> dict[str, Value]:
        hot = int(self.tally[HOT])
        arms = list_nodes(self._arms.chain)
        return {
            **super()._state(),
            **save_sketch(self._sketch),
            "hot": self._arms.key[:hot],
            "expires": self._arms.expires[:hot],
            "sated": self._arms.sated[:hot],
            "slot": arms[:, 0].copy(),
            "worker": self._arms.chain.worker[arms[:, 1]],
            "value": self._arms.value[arms[:, 1]],
            "last": self._arms.last[arms[:, 1]],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._sketch = restore_sketch(state, len(self._sketch.key))
        self._arms = arms = self._no_arms()
        hot = len(state["hot"])
        arms.key[:hot] = state["hot"]
        arms.expires[:hot] = state["expires"]
        arms.sated[:hot] = state["sated"]
        enter_slots(arms.table, arms.key, hot)
        for slot, worker, value, last in zip(*(state[field] for field in _OF_ARMS), strict=True):
            node = add_node(arms.chain, slot, worker)
            arms.value[node], arms.last[node] = value, last

    def _identity(self) -> str:
        parameters = f"slide={self.slide} window={self.window} explore={self.explore} splits={self.splits}"
        return f"{super()._identity()} {parameters}"


@kernel
def route_by_value(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    homes: NDArray[np.int32],
    rules: DaltonParameters,
    sketch: MisraGriesSketch,
    arms: Arms,
    loads: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Route tuple by tuple.

    The first row of ``loads`` [s + 2, W] is the window's load. Its other rows are the loads of the window's s slides
    and of the present one.

    1. At the beginning of each slide forget the oldest slide's load, the counts, and the keys that are no longer hot.
    2. Count the key. If it has more than a W-th of a slide's tuples, it is hot until the end of the next slide.
    3. A cold key goes home.
    4. A hot key mostly goes to its arm of the highest value. Now and then it goes to a random worker. If the key is
       sated, that is one of its own workers.
    5. That arm's reward depends on its worker's load and on how many workers the key is on.
    """
    routes = np.empty(len(codes), np.int32)
    window, workers = len(loads) - 2, loads.shape[1]
    total: int = loads[0].sum()
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        now: int = tally[TUPLES] // rules.slide
        row = 1 + now % (window + 1)
        if tally[TUPLES] % rules.slide == 0 and now > 0:
            loads[0] -= loads[row]
            total -= loads[row].sum()
            loads[row] = 0
            _begin_slide(now, sketch, arms, tally)
        limit = rules.slide // workers if now > 0 else rules.slide
        counted = _count_tuple(key, sketch)
        slot: int = find_slot(arms.table, arms.key, key)
        worker: int = homes[code]
        node = END
        if counted > limit:
            if slot < 0 and tally[HOT] < len(arms.key) and arms.chain.pool[SPARE] > 0:
                slot = _make_hot(key, worker, now, arms, tally)
            if slot >= 0:
                arms.expires[slot] = now + 2
        tally[TUPLES] += 1
        total += 1
        if slot >= 0:
            node = _choose_arm(slot, worker, now - window, rules, arms, workers, tally)
            worker = arms.chain.worker[node]
            arms.last[node] = now
        loads[0, worker] += 1
        loads[row, worker] += 1
        if slot >= 0:
            mean = total / workers
            replicas = _count_replicas(slot, now - window, arms.chain, arms.last)
            cost = (loads[0, worker] - mean) / max(float(loads[0, worker]), mean)
            _learn_reward(slot, node, -(cost + replicas / workers) / 2, replicas, rules, arms, tally)
        routes[i] = worker
    return routes


@kernel
def _count_tuple(key: np.uint64, sketch: MisraGriesSketch) -> int:
    slot: int = find_slot(sketch.table, sketch.key, key)
    if slot < 0:
        if sketch.size[USED] == len(sketch.key):
            sketch.size[USED] = make_room(sketch.key, sketch.counter, sketch.size, sketch.table)
        slot = sketch.size[USED]
        sketch.key[slot] = key
        enter_slot(sketch.table, sketch.key, slot)
        sketch.size[USED] += 1
    sketch.counter[slot] += 1
    counted: int = sketch.counter[slot]
    return counted


@kernel
def _begin_slide(now: int, sketch: MisraGriesSketch, arms: Arms, tally: NDArray[np.int64]) -> None:
    """Begin a slide: without counts, and only with the hot keys that were hot in the last one."""
    sketch.key[:] = 0
    sketch.counter[:] = 0
    sketch.size[:] = 0
    enter_slots(sketch.table, sketch.key, 0)
    kept = 0
    for slot in range(tally[HOT]):
        if arms.expires[slot] <= now:
            drop_nodes(arms.chain, slot)
            continue
        head = arms.chain.head[slot]
        arms.chain.head[slot] = END
        arms.chain.head[kept] = head
        arms.key[kept] = arms.key[slot]
        arms.expires[kept] = arms.expires[slot]
        arms.sated[kept] = arms.sated[slot]
        kept += 1
    tally[HOT] = kept
    tally[SATED] = arms.sated[:kept].sum()
    enter_slots(arms.table, arms.key, kept)


@kernel
def _make_hot(key: np.uint64, home: int, now: int, arms: Arms, tally: NDArray[np.int64]) -> int:
    """Make a key hot, with its home, where it was, as its only arm. Return its slot."""
    slot: int = tally[HOT]
    tally[HOT] += 1
    arms.key[slot] = key
    arms.sated[slot] = False
    enter_slot(arms.table, arms.key, slot)
    node = add_node(arms.chain, slot, home)
    arms.value[node] = UNTRIED
    arms.last[node] = now
    return slot


@kernel
def _choose_arm(
    slot: int, home: int, oldest: int, rules: DaltonParameters, arms: Arms, workers: int, tally: NDArray[np.int64]
) -> int:
    """The arm to pull, as a node of the key's chain; exploring may add a node, if one is free."""
    drawn = mix_hash(np.uint64(tally[TUPLES]), rules.chance)
    chain, value = arms.chain, arms.value
    best: int = chain.head[slot]
    node = best
    if (drawn >> np.uint64(11)) * 2.0**-53 >= rules.explore:
        while node != END:
            if value[node] > value[best] or (value[node] == value[best] and chain.worker[node] == home):
                best = node
            node = chain.following[node]
        return best
    again = mix_hash(drawn, rules.chance)
    if arms.sated[slot]:
        skipped = reduce_to_range(again, _count_replicas(slot, oldest, chain, arms.last))
        while skipped > 0 or arms.last[node] < oldest:
            if arms.last[node] >= oldest:
                skipped -= 1
            node = chain.following[node]
        return node
    worker = int(reduce_to_range(again, workers))
    while node != END:
        if chain.worker[node] == worker:
            return node
        node = chain.following[node]
    node = add_node(chain, slot, worker)
    if node == END:
        return best
    value[node] = UNTRIED
    return node


@kernel
def _count_replicas(slot: int, oldest: int, chain: Chains, last: NDArray[np.int64]) -> int:
    """The number of workers that got tuples of the key in the window."""
    replicas = 0
    node: int = chain.head[slot]
    while node != END:
        replicas += last[node] >= oldest
        node = chain.following[node]
    return replicas


@kernel
def _learn_reward(
    slot: int, node: int, reward: float, replicas: int, rules: DaltonParameters, arms: Arms, tally: NDArray[np.int64]
) -> None:
    """Move the arm's value towards its reward. If most hot keys are sated, all may explore one more worker."""
    arms.value[node] += STEP * (reward - arms.value[node])
    if replicas == tally[SPLIT] and not arms.sated[slot]:
        arms.sated[slot] = True
        tally[SATED] += 1
    if tally[SPLIT] < rules.splits and tally[SATED] >= _SHARE_SATED * tally[HOT]:
        arms.sated[:] = False
        tally[SATED] = 0
        tally[SPLIT] += 1
