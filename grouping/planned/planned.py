"""PLANNED: each batch is counted before it is routed, and one plan for all sources divides it between the workers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.grouping.arguments import BALANCES, check_choice, check_integer, check_number, check_weights, fair_shares
from unskew.grouping.hashing import hash_function
from unskew.grouping.interface import Costs
from unskew.grouping.keys import KeyArray, encode_keys
from unskew.grouping.planned.assignment import AllowedWorkers, assign_batch
from unskew.grouping.planned.counts import BUCKETS, SourceCounts, bucket_homes, find_buckets, merge_counts, unique_keys
from unskew.grouping.planned.interface import BatchGrouping
from unskew.grouping.planned.quotas import (
    NO_COSTS,
    NONE,
    Quotas,
    locate_cuts,
    make_quotas,
    route_by_quotas,
    sum_worker_loads,
)
from unskew.grouping.planned.replicas import ReplicaIndex, count_new_replicas, find_positions
from unskew.grouping.state import Value, pack_values


class Planned(BatchGrouping):
    """Count a batch, plan it, then route it: no worker gets more than its cap, and keys keep their replicas.

    Each source counts its part of the batch. The counts of all sources are merged, and one plan is made. Each source
    then routes according to its quotas of each key. A key without an exception is at its home in KEY.

    Hot keys are counted alone. All others are counted together, in 64 *buckets* a home, by hash. The plan treats a
    bucket like a key, and remembers its replicas. A key of which nothing else is remembered is where its bucket is.

    If a home would exceed its cap, the greatest keys there go to other workers, and after them the greatest buckets. A
    key with one replica moves whole where it fits whole. Otherwise it is split: the part without room goes to the
    worker with the most room. From then on such a key has several replicas, which the plan fills as a maximum flow.
    Only if no flow carries all load does a key get one more replica. If a key would be split in the first batch, all
    keys above a 16th of a worker's share may leave their homes, if that saves replicas.

    Guarantees
    ----------
    Of each batch of N tuples, whatever its order, however it is divided between the sources, and for any ``threshold``:

    * A worker gets at most max(⌈N/W⌉, ⌊(1 + σ)·N/W⌋) tuples, where σ = ``slack``.
    * With costs, a worker gets at most (1 + σ) times its share of the batch's cost, and in addition one tuple's cost
      for each key and each bucket that is cut there, in each wave.
    * With weights, a worker's share is proportional to its speed.
    * In the first batch of one source, K keys have at most K + W − 1 replicas.
    * Later a key or a bucket gets a replica only if the caps can't be kept with the replicas of all keys and buckets.
    * A key or a bucket with at most σ·N/W − 1 tuples isn't split in the first batch. Later, if it has one replica, it
      gets at most one more in a batch.

    *The cost of buckets*: a bucket's replica is a replica of each of its keys that goes there. By default a bucket has
    some 1.6 % of a worker's share. So it moves whole, unless it has three times as much. If a bucket is split, one
    source splits one of its keys at each cut. Several sources may split all of the bucket's keys. A key that one source
    counts alone, and another source in a bucket, may have one more replica in the batch in which it moves. From then on
    all sources count it alone.

    The bounds on load need all sources' counts together (``divide``). A source alone (``route``) keeps them for its
    part. So do sources that don't share their counts, which also have separate replicas.

    Time O(n) for counting and routing, and O(k log k) for k keys that are counted alone. Each new replica, and each
    path on which keys make room, takes O(p + W), where p is the number of replicas of split keys. Memory: 20 bytes a
    remembered replica, of which there are at most 16·W + 4096, and 16 bytes for what is counted: at most 64·W buckets,
    W / ``threshold`` keys that are hot at a source, and the remembered keys. A batch's tuples are kept until all are
    counted.

    Parameters
    ----------
    slack : float, default 0.05
        σ, from 0 to 10: how much more than its share a worker may get. Smaller: more keys are split.
    threshold : float, default 0.01
        Keys below this part of a worker's share of a source's batch are counted together. From 0 to 1; with 0 each key
        is counted alone. Larger: less to send, and larger buckets.
    remember : int, tuples, default 10,000,000
        A replica that hasn't been used for so many tuples is forgotten. At least 1.
    balance : {"tuples", "cost"}, default "tuples"
        What a load is: tuples, or their ``costs`` in ms. With "cost", ``route`` needs ``costs``.
    weights : sequence of W floats, default None
        The workers' speeds, in any unit, each above 0. None: all workers are alike.
    most_workers : int, at least 1, default None
        A key, such as a noisy tenant, has at most so many workers: its home in KEY, and others that a hash of its
        bucket draws, the same ones for ever and at every source. What exceeds these workers' caps goes there, too, and
        waits, so the guarantees on load and replicas don't hold. Other keys leave such workers if another of theirs has
        room, but no key makes room for another by a new replica. Smaller: more workers are left to other keys, and each
        key has less choice. None: W.

    Notes
    -----
    Each call of ``route`` is a batch, and the answers depend on how the stream is cut into batches. The scheme suits
    micro-batch engines, which keep a batch's tuples anyway, and bound their number.

    In what follows, *key* means a key that is counted alone, or a bucket.

    *The cap* is kept because the sum of the caps is at least N. While some load isn't assigned, some worker has room.
    Quotas are whole numbers, and sources own disjoint stretches of a key's line (``unskew.grouping.planned.quotas``).
    So together they send each worker exactly what the plan says. A tuple with a cost goes to the worker in whose part
    it begins, and may reach beyond that part's end. That happens once for each key that is cut there.

    *Replicas of the first batch*: each key that is put or cut ends with one replica. Any other one fills its worker
    to the cap. A worker is filled only once, and the last worker is filled by a key's last replica. This is
    after McNaughton's wrap-around rule (*Scheduling with Deadlines and Loss Functions*, Management Science, 1959). So
    there are at most W − 1 cuts. A bucket's line at one source has its keys one after the other, in the order of their
    hashes. So a cut splits at most one of them.

    *New replicas*: suppose that no augmenting path starts at a key. Let X be the keys, and Γ the workers, that paths
    from it reach. The workers of Γ are full. All their load is of keys of X, or of keys X' that are only in Γ. So these
    keys have more load than the caps of all their workers Γ, and Hall's condition c(X ∪ X') ≤ C(Γ) fails. Therefore no
    division of the batch keeps the caps with the present replicas.

    *Small keys*: the caps add up to at least (1 + σ)·N − W. Before a key of load L gets a new replica, less than N is
    assigned. So the worker with the most room has room for more than σ·N/W − 1, and takes the key whole. If
    another key needs that room later, a path may lead a part of the load back to the old replica.

    *Compared to the optimum*: the fewest replicas that a batch can have at its cap are NP-hard to find. Of 2,000 small
    first batches (up to 8 keys, 5 workers), PLANNED had none more in 91 %, and two more in three batches, never three.
    In 8,000 later batches it added at most one more than the fewest, and none more in 99.6 %. In
    ``tests/grouping/test_fewest_replicas.py`` are 200 and 600 such batches.

    References
    ----------
    This scheme is ours. Prompt also counts a batch before it is divided, at one receiver: Abdelhamid et al., *Prompt:
    Dynamic Data-Partitioning for Distributed Micro-batch Stream Processing Systems*, SIGMOD 2020. MicroMoE plans each
    micro-batch of tokens for the replicas of experts by a linear program: arXiv 2511.16947. Ford and Fulkerson,
    *Maximal Flow Through a Network*, 1956. Hall, *On Representatives of Subsets*, 1935.

    Examples
    --------
    There are two sources, and one has most of a hot key. No worker of 4 gets more than 1.05 times the mean, and only
    the hot key is on more than one worker.

    >>> planner = Planned(4)
    >>> parts = [["tr"] * 700 + [f"k{i}" for i in range(100)], ["tr"] * 100 + [f"k{i}" for i in range(100)]]
    >>> quotas = planner.divide([planner.count(keys) for keys in parts])
    >>> workers = np.concatenate([planner.follow(*each) for each in zip(parts, quotas)])
    >>> np.bincount(workers).tolist()
    [262, 262, 214, 262]
    >>> planner.internals()["split"]
    1

    """

    name = "PLANNED"
    short = "pl"
    state_fields = ("clock",)

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        slack: float = 0.05,
        threshold: float = 0.01,
        remember: int = 10_000_000,
        balance: str = "tuples",
        weights: Sequence[float] | None = None,
        most_workers: int | None = None,
    ) -> None:
        super().__init__(workers, seed=seed)
        self.slack = check_number("slack", slack, 0, 10)
        self.threshold = check_number("threshold", threshold, 0, 1)
        self.remember = check_integer("remember", remember, 1)
        self.uses_cost = check_choice("balance", balance, BALANCES) == "cost"
        self.weights = None if weights is None else check_weights(weights, self.workers)
        self.most_workers = None if most_workers is None else check_integer("most_workers", most_workers, 1)
        self._most = min(self.most_workers or self.workers, self.workers)
        self._shares = fair_shares(self.weights, self.workers)
        self._function = hash_function(self.seed)
        #: The tuples of all batches so far.
        self.clock = 0
        self._replicas = ReplicaIndex.none(16 * self.workers + 4096)
        self.begin()

    def begin(self) -> None:
        """Begin a batch."""
        self._sent = np.zeros(self.workers)
        self.added = 0

    def count(self, keys: KeyArray, costs: ArrayLike | None = None) -> SourceCounts:
        """Count one source's part of a batch: each hot or remembered key, and the others by bucket."""
        encoded = encode_keys(keys)
        hashes = encoded.hashes
        loads = np.bincount(encoded.codes, self._loads(costs, len(encoded)), len(hashes)).astype(np.float64)
        least = max(self.threshold * float(loads.sum()) / self.workers, np.finfo(np.float64).tiny)
        alone = unique_keys(np.concatenate([hashes[loads >= least], self._replicas.among(hashes)]))
        alone = alone[alone >= BUCKETS * self.workers]
        at, found = find_positions(alone, hashes)
        # (Of nothing, ``np.bincount`` gives integers.)
        own = np.bincount(at[found], loads[found], len(alone)).astype(np.float64)
        bucket = self._buckets(hashes[~found]).astype(np.int64)
        together = np.bincount(bucket, loads[~found], BUCKETS * self.workers).astype(np.float64)
        used = np.flatnonzero(np.bincount(bucket, minlength=len(together)))
        return SourceCounts(
            len(encoded), np.concatenate([used.astype(np.uint64), alone]), np.append(together[used], own)
        )

    def wave(self, counts: Sequence[SourceCounts]) -> list[Quotas]:
        """Divide a part of a batch, as ``BatchGrouping.wave``.

        After each wave no worker exceeds its cap of the load divided so far, except by the cost of tuples at cuts (see
        the guarantees). Caps grow with the load, so there is room for the next wave.
        """
        batch = merge_counts(counts)
        buckets = self._buckets(batch.keys)
        present = self._replicas.of(batch.keys, buckets)
        # A worker may exceed its cap by excess, or by rounding if earlier waves have filled it.
        caps = np.maximum(0, self._caps(float(self._sent.sum() + batch.loads.sum())) - self._sent)
        together = int((batch.keys == buckets).sum())
        allowed = AllowedWorkers(buckets, bucket_homes(buckets), hash_function(self.seed, 1), self._most)
        assigned = assign_batch(batch.loads, together, present.starts, present.workers, caps, self.clock == 0, allowed)
        self._sent = self._sent + sum_worker_loads(batch, present, assigned, self.workers)
        self.added += count_new_replicas(present, assigned, batch.loads)
        begun, self.clock = self.clock, self.clock + sum(part.tuples for part in counts)
        self._replicas = self._replicas.after(batch.keys, buckets, batch.loads, present, assigned, begun)
        self._replicas = self._replicas.prune(self.clock - self.remember, self._buckets)
        return make_quotas(counts, batch, buckets, present, assigned)

    def follow(self, keys: KeyArray, quotas: Quotas, costs: ArrayLike | None = None) -> NDArray[np.int32]:
        """Route a source's part of a batch, as ``BatchGrouping.follow``."""
        encoded = encode_keys(keys)
        buckets = self._buckets(encoded.hashes)
        quota = quotas.of(encoded.hashes, buckets, BUCKETS * self.workers)
        worker = bucket_homes(buckets)
        have = np.flatnonzero(quota != NONE)
        worker[have] = quotas.workers[quotas.firsts[quota[have]]]
        cut = have[np.diff(quotas.firsts)[quota[have]] > 1]
        if not len(cut):
            return worker[encoded.codes]
        loads = self._loads(costs, len(encoded))
        each = NO_COSTS if loads is None else loads
        begin = locate_cuts(encoded.codes, each, encoded.hashes, cut, quota[cut], quotas)
        return route_by_quotas(encoded.codes, each, worker, cut, quota[cut], begin, quotas)

    def _buckets(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The bucket of each key, or of each bucket itself."""
        return find_buckets(keys, self._function, self.workers)

    def _loads(self, costs: ArrayLike | None, n: int) -> Costs:
        return self._column("costs", costs, n, np.float64) if self.uses_cost else None

    def _caps(self, total: float) -> NDArray[np.float64]:
        fair = self._shares * total
        if self.uses_cost:
            return (1 + self.slack) * fair
        # (A share is rounded, so don't round up an integer's rounding error.)
        return np.maximum(np.ceil(fair - 1e-6), np.floor((1 + self.slack) * fair + 1e-6))

    @property
    def split_count(self) -> int:
        """The number of keys and buckets with several remembered replicas."""
        key = self._replicas.key
        again = np.append(False, key[1:] == key[:-1])  # sorted: a second or later replica
        return len(unique_keys(key[again[: len(key)]]))

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys are remembered and split, and the most split keys' numbers of workers (100).

        With ``most_workers`` also how many keys have so many workers (``capped``), and the workers' ``excess`` over
        their caps in this batch, in tuples or ms.
        """
        _, lengths = np.unique(self._replicas.key, return_counts=True)
        lengths = np.sort(lengths)[::-1]
        split = self.split_count
        shown = {"remembered": len(lengths), "split": split, "workers": lengths[: min(split, 100)].tolist()}
        if self.most_workers is None:
            return shown
        excess = np.maximum(0, self._sent - self._caps(float(self._sent.sum()))).sum()
        return {**shown, "capped": int((lengths >= self._most).sum()), "excess": round(float(excess), 3)}

    def for_sources(self) -> bytes:
        """See ``BatchGrouping.for_sources``: which keys are remembered, but not where."""
        nothing = ReplicaIndex.none(0)
        state = {"key": self._replicas.key, "worker": nothing.worker, "used": nothing.used}
        return pack_values(self._identity(), super()._state() | state)

    def _state(self) -> dict[str, Value]:
        key, worker, used, _ = self._replicas
        batch = {"sent": self._sent, "added": self.added}
        return {**super()._state(), "key": key, "worker": worker, "used": used, **batch}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._sent = state.get("sent", np.zeros(self.workers))  # neither is for sources
        self.added = state.get("added", 0)
        self._replicas = self._replicas._replace(**{field: state[field] for field in ("key", "worker", "used")})

    def _identity(self) -> str:
        parameters = f"slack={self.slack} threshold={self.threshold} remember={self.remember}"
        more = f"cost={self.uses_cost} weights={self.weights} most_workers={self.most_workers}"
        return f"{super()._identity()} {parameters} {more}"
