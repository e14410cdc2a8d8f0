"""The replicas that PLANNED remembers: the workers of each key that isn't only at its home."""

from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.hashing import homes
from unskew.grouping.planned.assignment import Assigned

Hashes: TypeAlias = NDArray[np.uint64]


def position(sorted_keys: Hashes, keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Each key's position among sorted keys, and whether it is among them. If it isn't, its position is arbitrary."""
    if not len(sorted_keys):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return at, sorted_keys[at] == keys


class Present(NamedTuple):
    """The replicas of m keys before a batch.

    Attributes
    ----------
    starts : int64[m + 1], workers : int32[p]
        The replicas of key k are ``workers[starts[k] : starts[k + 1]]``, in the order in which it got them. If none is
        remembered, it is the key's home.
    rows : int64[p]
        The row of each replica in ``Replicas``, or −1.

    """

    starts: NDArray[np.int64]
    workers: NDArray[np.int32]
    rows: NDArray[np.int64]


class Replicas(NamedTuple):
    """p remembered replicas of 20 bytes each, sorted by key. A key's replicas are in the order in which it got them.

    Attributes
    ----------
    key : uint64[p]
        The key's hash.
    worker : int32[p]
        The worker.
    used : int64[p]
        When the replica was used last: the number of tuples routed before the batch that used it.
    most : int
        The most replicas that are remembered.

    """

    key: Hashes
    worker: NDArray[np.int32]
    used: NDArray[np.int64]
    most: int

    @classmethod
    def none(cls, most: int) -> Self:
        """No replicas yet. ``most`` is the most that will be remembered."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.int64), most)

    def among(self, keys: Hashes) -> Hashes:
        """Those keys of ``keys`` that have remembered replicas."""
        return keys[position(self.key, keys)[1]]

    def of(self, keys: Hashes, homes: NDArray[np.int32]) -> Present:
        """The replicas of m different keys with these homes."""
        known, first, count = np.unique(self.key, return_index=True, return_counts=True)
        at, found = position(known, keys)
        number = np.ones(len(keys), np.int64)
        number[found] = count[at[found]]
        begin = np.full(len(keys), -1)
        begin[found] = first[at[found]]
        starts = np.concatenate([[0], np.cumsum(number)])
        of_key = np.repeat(np.arange(len(keys)), number)
        rows = np.where(found[of_key], begin[of_key] + np.arange(starts[-1]) - starts[of_key], -1)
        workers = homes[of_key]
        workers[rows >= 0] = self.worker[rows[rows >= 0]]
        return Present(starts, workers, rows)

    def after(self, keys: Hashes, present: Present, assigned: Assigned, clock: int) -> Self:
        """The replicas after a batch of these keys, which began at ``clock``."""
        m = len(keys)
        item, worker, amount = assigned.where(assigned.item < m)
        changed = np.zeros(m, np.bool_)
        changed[item] = True
        number = np.diff(present.starts)
        of_key = np.repeat(np.arange(m), number)
        remembered = present.rows >= 0
        used = self.used.copy()
        used[present.rows[remembered & ~changed[of_key]]] = clock
        # A changed key's replicas begin with those that it had, in their order.
        nth = np.arange(len(item)) - np.searchsorted(item, item)
        had = nth < number[item]
        row = np.full(len(item), -1)
        row[had] = present.rows[present.starts[item[had]] + nth[had]]
        idle = (amount == 0) & (row >= 0)
        times = np.full(len(item), clock)
        times[idle] = used[row[idle]]
        stays = np.ones(len(used), np.bool_)
        stays[present.rows[remembered & changed[of_key]]] = False
        key = np.concatenate([self.key[stays], keys[item]])
        order = np.argsort(key, kind="stable")
        columns = np.concatenate([self.worker[stays], worker]), np.concatenate([used[stays], times])
        return self._replace(key=key[order], worker=columns[0][order], used=columns[1][order])

    def kept(self, since: int, function: np.uint64, workers: int) -> Self:
        """The replicas used since then, without keys that are only at home. If they are too many, those used last."""
        stays = np.flatnonzero(self.used >= since)
        if len(stays) > self.most:
            stays = np.sort(stays[np.argsort(-self.used[stays], kind="stable")[: self.most]])
        key, worker, used = self.key[stays], self.worker[stays], self.used[stays]
        _, which, number = np.unique(key, return_inverse=True, return_counts=True)
        away = (number[which] > 1) | (worker != homes(key, function, workers))
        return self._replace(key=key[away], worker=worker[away], used=used[away])
