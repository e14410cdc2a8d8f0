"""What an equi-join by key of two inputs gives each worker: with hash partitioning, salts, and ``balanced_join``.

A join sends rows of both inputs to workers, such that all rows of a key that must meet do so. Each way of this module
says, for each key, which workers get how many of its left rows. Each of these workers gets all of the key's right rows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.grouping import create, encode_keys
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.keys import Keys, sum_by_key
from unskew.grouping.planned import BatchGrouping
from unskew.grouping.planned.counts import BUCKETS, bucket_homes, find_buckets
from unskew.grouping.planned.quotas import NONE, Quotas
from unskew.grouping.simulator.sources import Substreams
from unskew.grouping.split_join.plan import PAIR_COST
from unskew.shown_keys import show_key

#: Ways to join, as tables name them.
HASH, BALANCED, BALANCED_BY_COST = "KEY", "balanced_join", "balanced_join, cost"
_PLACES = 1 << 30  # on a quota's line


class JoinSides(NamedTuple):
    """Two inputs with k distinct keys."""

    keys: Keys  #: The keys of the n left rows. ``hashes`` and ``distinct`` have the right rows' keys, too.
    right: NDArray[np.int64]  #: int64[k]: The right rows of each key.

    @property
    def left(self) -> NDArray[np.int64]:
        """The left rows of each key: int64[k]."""
        return np.bincount(self.keys.codes, minlength=len(self.right))

    @property
    def pairs(self) -> NDArray[np.int64]:
        """The pairs of each key: int64[k]."""
        return self.left * self.right


def pair_sides(left: Any, right: Any) -> JoinSides:
    """The keys of two inputs, as ``TimedKeys`` has them.

    Keys of two types are compared by their text, such as a generator's numbers and a file's texts. Rows without a key
    are left out, because null equals nothing.
    """
    sides = [_to_array(side).drop_null() for side in (left, right)]
    if sides[0].type != sides[1].type:
        sides = [side.cast(pa.string()).cast(pa.binary()) if pa.types.is_integer(side.type) else side for side in sides]
        sides = [side.cast(pa.binary()) for side in sides]
    n = len(sides[0])
    keys = encode_keys(pa.concat_arrays(sides))
    right_rows = np.bincount(keys.codes[n:], minlength=len(keys.hashes))
    return JoinSides(Keys(keys.codes[:n], keys.hashes, keys.distinct), right_rows)


def _to_array(keys: Any) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        return keys.combine_chunks()
    return keys if isinstance(keys, pa.Array) else pa.array(keys)


class JoinCells(NamedTuple):
    """c cells: a key at a worker, or a key with one salt. A cell has some of the key's left rows, and all right ones.

    Attributes
    ----------
    key : int64[c]
        The key's code.
    worker : int32[c]
    left : int64[c]
        The key's left rows in the cell.

    """

    key: NDArray[np.int64]
    worker: NDArray[np.int32]
    left: NDArray[np.int64]


#: The left rows of a batch by their keys, and these rows counted by key → the batch's cells.
JoinWay: TypeAlias = Callable[[Keys, NDArray[np.int64]], Iterable[JoinCells]]


def place_by_hash(workers: int, seed: int) -> JoinWay:
    """Hash partitioning: all rows of a key are at its home in KEY."""

    def place(keys: Keys, left: NDArray[np.int64]) -> Iterator[JoinCells]:
        yield JoinCells(np.arange(len(left)), choose_homes(keys.hashes, hash_function(seed), workers), left)

    return place


def place_by_salt(workers: int, seed: int) -> JoinWay:
    """W salts: each left row draws one, and each right row is sent with each. The hash is of the key and the salt."""
    draws = np.random.default_rng(seed)

    def place(keys: Keys, left: NDArray[np.int64]) -> Iterator[JoinCells]:
        salts, every = draws.integers(0, workers, len(keys)), np.arange(len(left))
        for salt in range(workers):
            own = np.bincount(keys.codes[salts == salt], minlength=len(left))
            yield JoinCells(every, choose_homes(keys.hashes, hash_function(seed, 1 + salt), workers), own)

    return place


class BalancedPlacement:
    """What ``balanced_join`` does: PLANNED divides the left rows, each batch with the replicas of those before it.

    As in ``unskew.apps.driver.plans.planned_frame``, a key with a quota of its own is divided by chance, a bucket by
    its keys, and what has no quota is at its home. Each left row of a key has a cost, float64[k], by default 1.
    """

    def __init__(self, workers: int, seed: int, cost: NDArray[np.float64] | None = None) -> None:
        planner = create("PLANNED", workers, seed=seed, balance="tuples" if cost is None else "cost")
        assert isinstance(planner, BatchGrouping)
        self._planner, self._cost, self._workers, self._seed = planner, cost, workers, seed
        self._draws = np.random.default_rng(seed)

    def __call__(self, keys: Keys, left: NDArray[np.int64]) -> Iterator[JoinCells]:
        costs = None if self._cost is None else self._cost[keys.codes]
        quotas = self._planner.divide([self._planner.count(Substreams(keys).part(slice(None)), costs)])[0]
        buckets = find_buckets(keys.hashes, hash_function(self._seed), self._workers)
        number = BUCKETS * self._workers
        quota, worker = quotas.of(keys.hashes, buckets, number), bucket_homes(buckets)
        have = np.flatnonzero(quota != NONE)
        of = quota[have]
        worker[have] = self._draw_workers(keys.hashes[have], quotas, of)
        split = have[(quotas.keys[of] >= number) & (np.diff(quotas.firsts)[of] > 1) & (left[have] > 0)]
        whole = np.setdiff1d(np.arange(len(left)), split, assume_unique=True)
        yield JoinCells(whole, worker[whole], left[whole])
        for key in split.tolist():
            workers, amounts = quotas.get_parts(int(quota[key]))
            rows = self._draws.multinomial(left[key], amounts / amounts.sum())
            owners, at = np.unique(workers, return_inverse=True)
            yield JoinCells(np.full(len(owners), key), owners, sum_by_key(at, rows, len(owners)))

    def _draw_workers(self, hashes: NDArray[np.uint64], quotas: Quotas, quota: NDArray[np.int64]) -> NDArray[np.int32]:
        """One worker of each key's quota: the one where the key is on the quota's line, by its hash in every batch."""
        place = choose_homes(hashes, hash_function(self._seed, 1), _PLACES) / _PLACES
        lengths = quotas.ends[quotas.firsts[1:] - 1]
        begins = np.cumsum(lengths) - lengths
        ends = quotas.ends + np.repeat(begins, np.diff(quotas.firsts))
        parts = np.searchsorted(ends, begins[quota] + place * lengths[quota], side="right")
        return quotas.workers[np.minimum(parts, quotas.firsts[quota + 1] - 1)]


class JoinFigures(NamedTuple):
    """What a way to join does to W workers, in all batches."""

    fullest: float  #: The fullest worker's rows of both inputs ÷ the mean if each row were sent once.
    fullest_with_pairs: float  #: The same with a left row that costs 1 + ``PAIR_COST`` for each of its partners.
    right_sent: float  #: How many right rows are sent ÷ the right rows.


class JoinedKey(NamedTuple):
    """A key with its rows on both sides, and its pairs."""

    key: str
    left: int
    right: int
    pairs: int


@dataclass(frozen=True)
class JoinSimulation:
    """Two inputs that are joined by W workers."""

    sides: JoinSides  #: The inputs.
    workers: int  #: W.
    #: The left rows of a batch, each of which is joined with all right rows. None: the left input is one batch.
    batch: int | None
    seed: int  #: The seed of the hash functions and draws.

    def compute_figures(self) -> dict[str, JoinFigures]:
        """Each way's name → its figures. The plan of the last one has the cost of pairs."""
        cost = 1.0 + PAIR_COST * self.sides.right.astype(np.float64)
        ways: dict[str, JoinWay] = {
            HASH: place_by_hash(self.workers, self.seed),
            f"salt {self.workers}": place_by_salt(self.workers, self.seed),
            BALANCED: BalancedPlacement(self.workers, self.seed),
            BALANCED_BY_COST: BalancedPlacement(self.workers, self.seed, cost),
        }
        return {name: self._measure(way) for name, way in ways.items()}

    def count_batches(self) -> int:
        return len(self._cut_batches())

    def find_hottest(self) -> list[JoinedKey]:
        """The five keys with most load on both sides, pairs included."""
        left, right, pairs = self.sides.left, self.sides.right, self.sides.pairs
        first = np.argsort(-(left + right + PAIR_COST * pairs), kind="stable")[:5].tolist()
        figures = (each[first].tolist() for each in (left, right, pairs))
        return list(starmap(JoinedKey, zip(map(show_key, self.sides.keys.texts(first)), *figures, strict=True)))

    def _cut_batches(self) -> list[slice]:
        n = len(self.sides.keys)
        size = self.batch or max(n, 1)
        return [slice(start, start + size) for start in range(0, max(n, 1), size)]

    def _measure(self, way: JoinWay) -> JoinFigures:
        """Sum the fullest worker's load over all batches, because a batch ends when this worker does."""
        fullest, sent = np.zeros(2), 0
        keys, right, batches = self.sides.keys, self.sides.right, self._cut_batches()
        for batch in batches:
            part = Keys(keys.codes[batch], keys.hashes, keys.distinct)
            rows, pairs = np.zeros(self.workers), np.zeros(self.workers)
            for cells in way(part, np.bincount(part.codes, minlength=len(right))):
                copies = right[cells.key]
                rows += np.bincount(cells.worker, cells.left + copies, self.workers)
                pairs += np.bincount(cells.worker, cells.left * copies, self.workers)
                sent += int(copies.sum())
            loads = np.array([rows, rows + PAIR_COST * pairs])
            fullest += loads.max(axis=1)
        copied = len(batches) * int(right.sum())  # if each row is sent once in each batch
        total = len(keys) + copied + PAIR_COST * np.array([0, self.sides.pairs.sum()])
        by_rows, by_pairs = (fullest * self.workers / total).tolist()
        return JoinFigures(by_rows, by_pairs, sent / copied)
