"""PORC (Consistent Grouping): the first virtual worker that isn't full, of a key's endless list of hashes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import check_integer, check_number
from unskew.grouping.choices.decay import DecayingGrouping
from unskew.grouping.hashing import hash_function, mix_hash, reduce_to_range
from unskew.grouping.interface import Costs, Times
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys

_ENDLESS = 2.0**62  # a limit above any load. With a huge tolerance the limit itself is too large for an integer.


class Porc(DecayingGrouping):
    """Send each tuple to the first of its key's choices that isn't full: the power of random choices.

    Each worker has V *virtual workers*. A key has an endless list of choices among all V·W of them, one for each hash
    function. A virtual worker is *full* if its load is at least (1 + ``tolerance``) times the mean load of all virtual
    workers. As in consistent hashing with bounded loads, a key spills over only when its earlier choices are full.

    Guarantees
    ----------
    * At any time a worker has less than (1 + ``tolerance``) · m/W + V of a source's m tuples since the start, whatever
      their order.
    * A key's first choice is at its home in KEY, and the list of its choices is the same at every source.
    * No bound on replication. If all virtual workers but one are full, a tuple of any key goes to that one.

    Time O(1) a tuple of a key whose choices have room. A key's first tuple looks at (1 + ``tolerance``) / ``tolerance``
    choices at most, in expectation. A key that comes often looks at full choices once, until the mean has grown by one
    tuple. Memory: V·W counters and none for keys. While a batch is routed, 16 bytes for each of its distinct keys.

    Parameters
    ----------
    tolerance : float, default 0.01
        ε, at least 0.001: by which share of the mean a virtual worker's load may be above it. The authors' script has
        0.01, and also values up to 3. Larger: fewer replicas and look-ups, less balance.
    virtual : int, default 10
        V ≥ 1, the virtual workers of a worker. The authors' script has 10.
    half_life : int, tuples of the source, default None
        Ours, as in PARTIAL_KEY: halve all counts after each ``half_life`` tuples, at least 1. No bound is proved then.
        None: count from the start, as published.

    Notes
    -----
    We wrote this scheme from the authors' code (``ConsistentGroupingPoRCSingleSource`` of
    github.com/anisnasir/storm-simulator), not from the paper. The answers are the authors', except for the hash
    functions (tests/grouping/test_porc.py). In theirs the i-th one hashes the key's text with ":i" behind it.

    *Left out*: Consistent Grouping also moves virtual workers from overloaded workers to idle ones, for heterogeneous
    clusters, with signals from the workers; the authors' simulator has the call commented out. Here every worker keeps
    its V virtual workers, so this is PoRC for homogeneous workers.

    *The bound*: a tuple goes to a virtual worker whose load is less than (1 + ε) · m/(V·W), where m counts that tuple.
    Loads only grow when a tuple comes, and m only grows. There always is such a virtual worker, because all loads
    together are m − 1. At most a part 1 / (1 + ε) of the virtual workers is full. So each choice of a key that had no
    tuple yet has room with a probability of at least ε / (1 + ε).

    After a change of the stream: loads count from the start. A virtual worker filled by a key that has gone has room
    only as the mean grows. So the bound holds for all tuples, not for the last ones.

    References
    ----------
    Nasir, Horii, Serafini, Kourtellis, Raymond, Girdzijauskas and Osogami, *Load Balancing for Skewed Streams on
    Heterogeneous Cluster*, arXiv 1705.09073, 2017. Mirrokni, Thorup and Zadimoghaddam, *Consistent Hashing with Bounded
    Loads*, SODA 2018.

    Examples
    --------
    A key with half of the tuples spills over, and no worker of 20 gets more than 1.01 times the mean and 10 tuples:

    >>> router = Porc(20)
    >>> workers = router.route([f"k{i}" if i % 2 else "tr" for i in range(40_000)])
    >>> len(set(workers[::2].tolist())), bool(np.bincount(workers).max() < 1.01 * 2000 + 10)
    (20, True)

    """

    name = "PORC"
    short = "porc"
    state_fields = ("loads", "tally")

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        tolerance: float = 0.01,
        virtual: int = 10,
        half_life: int | None = None,
    ) -> None:
        super().__init__(workers, seed=seed, half_life=half_life)
        self.tolerance = check_number("tolerance", tolerance, 1e-3)
        self.virtual = check_integer("virtual", virtual, 1)
        self.loads = np.zeros(self.virtual * self.workers, np.int64)
        self.tally = np.zeros(1, np.int64)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        first = hash_function(self.seed)
        rules = self.tolerance, self.virtual
        return self._route_by_half_lives(
            keys.codes, lambda codes: route_by_probing(codes, keys.hashes, first, *rules, self.loads, self.tally)
        )

    def _halve(self) -> None:
        super()._halve()
        self.tally >>= 1

    def internals(self) -> Mapping[str, Any]:
        """Show how many virtual workers are full."""
        most = (1 + self.tolerance) * (int(self.tally[0]) / len(self.loads))
        return {"full": int((self.loads >= most).sum()) if self.tally[0] else 0}

    def _identity(self) -> str:
        return f"{super()._identity()} tolerance={self.tolerance} virtual={self.virtual}"


@kernel
def route_by_probing(
    codes: NDArray[np.int32],
    hashes: NDArray[np.uint64],
    first: np.uint64,
    tolerance: float,
    virtual: int,
    loads: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Route tuple by tuple. ``loads`` is that of each virtual worker, ``tally`` has the number of tuples so far.

    1. Count the tuple: the mean load of the virtual workers includes it.
    2. Take the next choice of the key until one has less than (1 + tolerance) times the mean load.
    3. Virtual worker v is at worker ⌊v / V⌋.

    Loads are integers and only grow. So full workers stay full until the limit passes the next integer, and a key
    needn't check its first choices before. This changes no answer.
    """
    workers = np.empty(len(codes), np.int32)
    bins = len(loads)
    tuples: int = tally[0]
    level = np.zeros(len(hashes), np.int64)  # per key: the limit when it last looked
    passed = np.zeros(len(hashes), np.uint64)  # per key: how many of its choices were full then
    for i in range(len(codes)):
        code: int = codes[i]
        key: np.uint64 = hashes[code]
        tuples += 1
        full = int(min(np.ceil((1 + tolerance) * (tuples / bins)), _ENDLESS))
        if level[code] != full:
            level[code] = full
            passed[code] = 0
        choice: np.uint64 = first + passed[code]
        chosen = reduce_to_range(mix_hash(key, choice), bins)
        while loads[chosen] >= full:
            choice += np.uint64(1)
            chosen = reduce_to_range(mix_hash(key, choice), bins)
        passed[code] = choice - first
        loads[chosen] += 1
        workers[i] = chosen // virtual
    tally[0] = tuples
    return workers
