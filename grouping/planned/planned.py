"""PLANNED: each batch is counted before it is routed, and one plan for all sources divides it between the workers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.grouping.arguments import BALANCES, fair_shares, integer, number, one_of
from unskew.grouping.hashing import function, homes
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import KeyArray, Keys, encode
from unskew.grouping.planned.assignment import assign
from unskew.grouping.planned.counts import Counts, merged
from unskew.grouping.planned.quotas import NO_COSTS, Quotas, along, loads_of, quotas_of
from unskew.grouping.planned.replicas import Replicas, position
from unskew.grouping.state import Value


class Planned(Grouping):
    """Count a batch, plan it, then route it: no worker gets more than its cap, and keys keep their replicas.

    A stream that comes in batches needn't be routed blindly. Each source counts its part of the batch. The counts of
    all sources are merged, and one plan is made. Each source then routes by its quotas of each key. A key without an
    exception is at its home in KEY.

    Where a home would have more than its cap, the greatest keys there go to other workers. In the first batch such a
    key is put whole where it fits, and otherwise cut. In later batches it is split: the part for which there is no room
    goes to the worker with the most room. From then on such a key has several replicas. The plan fills these as a
    maximum flow. Only when there is no flow for all load does a key get one more replica.

    Guarantees
    ----------
    Of each batch of N tuples, whatever its order and however it is divided between the sources:

    * A worker gets at most max(⌈N/W⌉, ⌊(1 + σ)·N/W⌋) tuples, where σ = ``slack``.
    * With costs, a worker gets at most (1 + σ) times its share of the batch's cost, and in addition one tuple's cost
      for each key that is cut there. Keys that are counted together are one key.
    * With weights, a worker's share is proportional to its speed.
    * In the first batch K keys have at most K + W − 1 replicas.
    * Later a replica is added only if the caps can't be kept with the keys' replicas.

    The bounds on load need all sources' counts together (``divide``). A source alone (``route``) keeps them for its own
    part. So do sources that don't share their counts, and each of these has replicas of its own.

    Time O(n) for counting and routing, and O(k log k) for k keys that are counted alone. Each new replica, and each
    path on which keys make room, takes O(p + W), where p is the number of replicas of split keys. Memory: 20 bytes a
    remembered replica, of which there are at most 16·W + 4096, and 16 bytes a key that is counted alone. A source has
    at most W / ``threshold`` of these keys, and the remembered ones.

    Parameters
    ----------
    slack : float, default 0.05
        σ, from 0 to 10: how much more than its share a worker may get. Smaller: more keys are split.
    threshold : float, default 0.01
        Keys below this part of a worker's share of a source's batch are counted together, by home. From 0 to 1; with 0
        each key is counted alone. Larger: less to send. If keys that are counted together are more than a worker's cap,
        any of them may be split for a batch.
    remember : int, tuples, default 10,000,000
        A replica that hasn't been used for so many tuples is forgotten. At least 1.
    balance : {"tuples", "cost"}, default "tuples"
        What a load is: tuples, or their ``costs`` in ms. With "cost", ``route`` needs ``costs``.
    weights : sequence of W floats, default None
        The workers' speeds, in any unit, each above 0. None: all workers are alike.

    Notes
    -----
    Each call of ``route`` is a batch, and the answers depend on how the stream is cut into batches. A batch's tuples
    are held until its last tuple has come. So the scheme suits engines of micro-batches, which hold them anyway.

    *The cap* is kept because the sum of the caps is at least N. While some load isn't assigned, some worker has room.
    Quotas are whole numbers, and sources own disjoint stretches of a key's line (``unskew.grouping.planned.quotas``).
    So together they send each worker exactly what the plan says. A tuple with a cost goes to the worker in whose part
    it begins, and may reach beyond that part's end. That happens once for each key that is cut there.

    *Replicas of the first batch*: each key that is put or cut ends with one replica. Any other one fills its worker
    to the cap. A worker is filled only once, and the last worker is filled by a key's last replica. This is
    after McNaughton's wrap-around rule (*Scheduling with Deadlines and Loss Functions*, Management Science, 1959).

    *New replicas*: suppose that no augmenting path starts at a key. Let X be the keys, and Γ the workers, that paths
    from it reach. The workers of Γ are full. All their load is of keys of X, or of keys X' that are only in Γ. So these
    keys have more load than the caps of all their workers Γ, and Hall's condition c(X ∪ X') ≤ C(Γ) fails. Therefore no
    division of the batch keeps the caps with the present replicas.

    References
    ----------
    This scheme is ours. Prompt also counts a batch before it is divided, at one receiver: Abdelhamid et al., *Prompt:
    Dynamic Data-Partitioning for Distributed Micro-batch Stream Processing Systems*, SIGMOD 2020. Ford and Fulkerson,
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
    batched = True
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
    ) -> None:
        super().__init__(workers, seed=seed)
        self.slack = number("slack", slack, 0, 10)
        self.threshold = number("threshold", threshold, 0, 1)
        self.remember = integer("remember", remember, 1)
        self.uses_cost = one_of("balance", balance, BALANCES) == "cost"
        self.weights = None if weights is None else [float(weight) for weight in weights]
        self._shares = fair_shares(self.weights, self.workers)
        self._function = function(self.seed)
        #: The tuples of all batches so far.
        self.clock = 0
        self._replicas = Replicas.none(16 * self.workers + 4096)
        self.begin()

    def begin(self) -> None:
        """Begin a batch: no source's part of it is divided yet."""
        self._sent = np.zeros(self.workers)

    def count(self, keys: KeyArray, costs: ArrayLike | None = None) -> Counts:
        """Count one source's part of a batch.

        Parameters
        ----------
        keys, costs
            As for ``route``.

        """
        encoded = encode(keys)
        k = len(encoded.hashes)
        loads = np.bincount(encoded.codes, self._loads(costs, len(encoded)), k).astype(np.float64)
        least = max(self.threshold * float(loads.sum()) / self.workers, np.finfo(np.float64).tiny)
        alone = np.unique(np.concatenate([encoded.hashes[loads >= least], self._replicas.among(encoded.hashes)]))
        at, found = position(alone, encoded.hashes)
        # (Of nothing, ``np.bincount`` gives integers.)
        own = np.bincount(at[found], loads[found], len(alone)).astype(np.float64)
        rest = homes(encoded.hashes[~found], self._function, self.workers)
        tails = np.bincount(rest, loads[~found], self.workers).astype(np.float64)
        return Counts(len(encoded), alone[own > 0], own[own > 0], tails)

    def divide(self, counts: Sequence[Counts]) -> list[Quotas]:
        """Divide a batch between the workers, and remember where its keys are.

        Parameters
        ----------
        counts : sequence of Counts
            The counts of all sources that have a part of the batch, made by a router with the same replicas.

        Returns
        -------
        list of Quotas
            The quotas of each source, in the same order.

        """
        self.begin()
        return self.wave(counts)

    def wave(self, counts: Sequence[Counts]) -> list[Quotas]:
        """Divide a part of a batch that began with ``begin``: that of some of its sources.

        After each wave no worker has more than its cap of all that is divided of the batch. Caps grow with the load, so
        there is room for the next wave.

        Parameters
        ----------
        counts : sequence of Counts
            The counts of these sources, made by a router with the replicas that this one has now.

        Returns
        -------
        list of Quotas
            The quotas of each of these sources, in the same order.

        """
        batch = merged(counts)
        at_home = homes(batch.keys, self._function, self.workers)
        present = self._replicas.of(batch.keys, at_home)
        caps = self._caps(float(self._sent.sum() + batch.loads.sum() + batch.tails.sum())) - self._sent
        afresh = self.clock == 0
        assigned = assign(batch.loads, present.starts, present.workers, batch.tails, caps, afresh)
        self._sent = self._sent + loads_of(batch, present, assigned)
        begun, self.clock = self.clock, self.clock + sum(part.tuples for part in counts)
        self._replicas = self._replicas.after(batch.keys, present, assigned, begun)
        self._replicas = self._replicas.kept(self.clock - self.remember, self._function, self.workers)
        return quotas_of(counts, batch, present, at_home, assigned)

    def follow(self, keys: KeyArray, quotas: Quotas, costs: ArrayLike | None = None) -> NDArray[np.int32]:
        """Route a source's part of a batch by its quotas.

        Parameters
        ----------
        keys, costs
            The same tuples that the source has counted, in any order.
        quotas : Quotas
            The quotas that ``divide`` gave for the source.

        Returns
        -------
        int32[n]
            The worker of each tuple.

        """
        encoded = encode(keys)
        at_home = homes(encoded.hashes, self._function, self.workers)
        at, found = position(quotas.keys, encoded.hashes)
        quota = np.where(found, at, quotas.tails[at_home])
        loads = self._loads(costs, len(encoded))
        return along(encoded.codes, NO_COSTS if loads is None else loads, at_home, quota, quotas)

    def together(
        self, parts: Sequence[KeyArray], costs: Sequence[ArrayLike | None] | None = None
    ) -> list[NDArray[np.int32]]:
        """Route a batch that several sources share, if all of it is available here: count, divide and follow.

        Parameters
        ----------
        parts : sequence of keys
            Each source's part, as for ``route``.
        costs : sequence, optional
            Each source's costs, as for ``route``.

        Returns
        -------
        list of int32[n]
            For each source, the worker of each of its tuples.

        """
        encoded = [encode(part) for part in parts]
        given = [None] * len(encoded) if costs is None else costs
        counts = [self.count(keys, of) for keys, of in zip(encoded, given, strict=True)]
        quotas = self.divide(counts)
        return [self.follow(keys, own, of) for keys, own, of in zip(encoded, quotas, given, strict=True)]

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        return self.together([keys], [costs])[0] if len(keys) else np.empty(0, np.int32)

    def _loads(self, costs: ArrayLike | None, n: int) -> Costs:
        return self._column("costs", costs, n, np.float64) if self.uses_cost else None

    def _caps(self, total: float) -> NDArray[np.float64]:
        fair = self._shares * total
        if self.uses_cost:
            return (1 + self.slack) * fair
        # (A share is a rounded number: what is above a whole one by that alone isn't the next whole one.)
        return np.maximum(np.ceil(fair - 1e-6), np.floor((1 + self.slack) * fair + 1e-6))

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys are remembered, how many are split, and the most split keys' numbers of workers (100)."""
        _, lengths = np.unique(self._replicas.key, return_counts=True)
        lengths = np.sort(lengths)[::-1]
        split = int((lengths > 1).sum())
        return {"remembered": len(lengths), "split": split, "workers": lengths[: min(split, 100)].tolist()}

    def _state(self) -> dict[str, Value]:
        key, worker, used, _ = self._replicas
        return {**super()._state(), "key": key, "worker": worker, "used": used, "sent": self._sent}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._sent = state.get("sent", np.zeros(self.workers))  # earlier versions had no waves
        self._replicas = self._replicas._replace(**{field: state[field] for field in ("key", "worker", "used")})

    def _identity(self) -> str:
        parameters = f"slack={self.slack} threshold={self.threshold} remember={self.remember}"
        return f"{super()._identity()} {parameters} cost={self.uses_cost} weights={self.weights}"
