"""The replicas that PLANNED remembers: of buckets that aren't only at home, and of keys not only at their bucket's."""

from collections.abc import Callable
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.kernel_cache import kernel
from unskew.grouping.planned.assignment import ReplicaAssignment
from unskew.grouping.planned.counts import bucket_homes

Hashes: TypeAlias = NDArray[np.uint64]


@kernel
def find_positions(sorted_keys: Hashes, keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Each key's first position among sorted keys, arbitrary if it is missing, and whether it is there.

    Hashes are evenly spread, so a table by their first bits leaves little to search.
    """
    bits = np.uint64(1)
    while (1 << bits) < len(sorted_keys):
        bits += np.uint64(1)
    shift = np.uint64(64) - bits
    starts = np.zeros((1 << bits) + 1, np.int64)
    for key in sorted_keys:
        starts[np.int64(key >> shift) + 1] += 1
    starts = np.cumsum(starts)
    at, found = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    for i in range(len(keys)):
        first = np.int64(keys[i] >> shift)
        low, high = starts[first], starts[first + 1]
        end = high
        while low < high:
            middle = (low + high) // 2
            if sorted_keys[middle] < keys[i]:
                low = middle + 1
            else:
                high = middle
        if low < end and sorted_keys[low] == keys[i]:
            at[i], found[i] = low, True
    return at, found


class CurrentReplicas(NamedTuple):
    """The replicas of m keys before a batch."""

    #: int64[m + 1], workers : int32[p]: The replicas of key k are ``workers[starts[k] : starts[k + 1]]``, in the order
    #: of filling.
    starts: NDArray[np.int64]
    workers: NDArray[np.int32]
    rows: NDArray[np.int64]  #: int64[p]: The row of each replica in ``ReplicaIndex``, or −1.


class ReplicaIndex(NamedTuple):
    """p remembered replicas of 20 bytes each, sorted by key. A key's are in the order of filling."""

    key: Hashes  #: uint64[p]: The key's hash, or a bucket.
    worker: NDArray[np.int32]  #: int32[p]: The worker.
    used: NDArray[np.int64]  #: int64[p]: When the replica was last used: the number of tuples routed before that batch.
    most: int  #: The most remembered replicas.

    @classmethod
    def none(cls, most: int) -> Self:
        """An empty index for at most ``most`` replicas."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0, np.int64), most)

    def among(self, keys: Hashes) -> Hashes:
        """The keys of ``keys`` with remembered replicas."""
        return keys[find_positions(self.key, keys)[1]]

    def default(self, buckets: Hashes) -> NDArray[np.int32]:
        """Where keys without remembered replicas of these buckets are: their bucket's first replica."""
        at, found = find_positions(self.key, buckets)
        home = bucket_homes(buckets)
        home[found] = self.worker[at[found]]
        return home

    def of(self, keys: Hashes, buckets: Hashes) -> CurrentReplicas:
        """The replicas of m different keys of these buckets. A bucket's is itself."""
        known, first, count = np.unique(self.key, return_index=True, return_counts=True)
        at, found = find_positions(known, keys)
        number = np.ones(len(keys), np.int64)
        number[found] = count[at[found]]
        begin = np.full(len(keys), -1)
        begin[found] = first[at[found]]
        starts = np.concatenate([[0], np.cumsum(number)])
        of_key = np.repeat(np.arange(len(keys)), number)
        rows = np.where(found[of_key], begin[of_key] + np.arange(starts[-1]) - starts[of_key], -1)
        workers = self.default(buckets)[of_key]
        workers[rows >= 0] = self.worker[rows[rows >= 0]]
        return CurrentReplicas(starts, workers, rows)

    def after(
        self,
        keys: Hashes,
        buckets: Hashes,
        loads: NDArray[np.float64],
        present: CurrentReplicas,
        assigned: ReplicaAssignment,
        clock: int,
    ) -> Self:
        """The replicas after a batch of m keys with these buckets and loads that began at ``clock``."""
        m = len(keys)
        item, worker = assigned.item, assigned.worker
        changed = np.zeros(m, np.bool_)
        changed[item] = True
        of_key = np.repeat(np.arange(m), np.diff(present.starts))
        remembered = present.rows >= 0
        new = ~remembered[present.starts[:-1]]
        used = self.used.copy()
        used[present.rows[remembered & ~changed[of_key]]] = clock
        at, found = find_positions(self.key, buckets)
        used[at[found & new]] = clock  # of their bucket
        times = np.full(len(item), clock)
        theirs = np.flatnonzero(changed[of_key])
        at, had = _find_pairs(of_key[theirs], present.workers[theirs], item, worker)
        row = np.where(had, present.rows[theirs[at]], -1)
        idle = ~assigned.receives_load(loads) & (row >= 0)
        times[idle] = used[row[idle]]
        stays = np.ones(len(used), np.bool_)
        stays[present.rows[remembered & changed[of_key]]] = False
        # If a bucket moves, its keys that aren't remembered stay where they are.
        left = np.flatnonzero(~changed & new & np.isin(buckets, keys[changed]))
        key = np.concatenate([self.key[stays], keys[item], keys[left]])
        order = np.argsort(key, kind="stable")
        workers = np.concatenate([self.worker[stays], worker, present.workers[present.starts[left]]])
        times = np.concatenate([used[stays], times, np.full(len(left), clock)])
        return self._replace(key=key[order], worker=workers[order], used=times[order])

    def prune(self, since: int, buckets: Callable[[Hashes], Hashes]) -> Self:
        """The replicas used since then, without keys only where their bucket is, and buckets only at home.

        If there are too many, those used last.
        """
        stays = np.flatnonzero(self.used >= since)
        if len(stays) > self.most:
            stays = np.sort(stays[np.argsort(-self.used[stays], kind="stable")[: self.most]])
        kept = self._replace(key=self.key[stays], worker=self.worker[stays], used=self.used[stays])
        _, which, number = np.unique(kept.key, return_inverse=True, return_counts=True)
        bucket = buckets(kept.key)
        default = np.where(bucket == kept.key, bucket_homes(bucket), kept.default(bucket))
        away = (number[which] > 1) | (kept.worker != default)
        return kept._replace(key=kept.key[away], worker=kept.worker[away], used=kept.used[away])


def count_new_replicas(present: CurrentReplicas, assigned: ReplicaAssignment, loads: NDArray[np.float64]) -> int:
    """The number of replicas with tuples that an assignment of m keys with these loads adds."""
    of_key = np.repeat(np.arange(len(loads)), np.diff(present.starts))
    theirs = np.isin(of_key, assigned.item)
    _, had = _find_pairs(of_key[theirs], present.workers[theirs], assigned.item, assigned.worker)
    return int((assigned.receives_load(loads) & ~had).sum())


def _find_pairs(
    keys: NDArray[np.int64], workers: NDArray[np.int32], key: NDArray[np.int64], worker: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Each pair's position among distinct pairs with ascending keys, and whether it is there."""
    most = 1 + workers.max(initial=0)
    order = np.lexsort((workers, keys))
    pairs = (keys * most + workers)[order]
    wanted = np.where(worker < most, key * most + worker, -1)
    at = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
    return order[at], pairs[at] == wanted
