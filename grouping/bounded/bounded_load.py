"""BOUNDED_LOAD: a key stays at home as long as its worker keeps up, and spills over just as far as it must."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import BALANCES, fair_shares, integer, number, one_of
from unskew.grouping.bounded.replicas import KEYS, chain, chained, replicas
from unskew.grouping.bounded.spilling import Rules, loads, route_within_bounds
from unskew.grouping.hashing import function, homes
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value

_LASTING = 300  # tuples of a worker after which an unused replica is forgotten, if that's more than a window
_OF_LOADS = ("load", "rival", "votes")
_OF_REPLICAS = ("key", "first", "since", "seen")


class BoundedLoad(Grouping):
    """Send each tuple where its key is, while that worker keeps up; split the key, worker by worker, when it doesn't.

    Every worker is a bucket that leaks (1 + ``slack``)/W of a tuple for each tuple of the stream: a little more than
    its share. A key is whole at first, on one worker. When a worker has got 6 % of a window more than has leaked, the
    key that has most of its tuples is split, and at 8 % the next key that comes: another worker joins, of 16 that the
    key's hash functions name the one with the least recent load; with several sources the first with room, so that
    sources agree. A split key's tuple goes to one of its workers that has room, the earlier ones first, within a lower
    limit than a whole key's, so that split keys fill what whole keys leave; one more worker joins only when none has
    room. A replica that isn't used for a window is forgotten. So nothing counts from the start, and no key's frequency
    has to be known.

    Guarantees
    ----------
    * Of *any* n tuples in a row of a source, of any stream, a worker gets at most (1 + σ)·n/W + max(f, 1/σ) + 1 of
      them, with σ = ``slack`` and f = max(0.08 · (1 + σ) · ``window``/W, 8). By default and up to W = 100, that's at
      most 1.17 times the mean over any 100,000 tuples, and 1.07 in the long run. (Proof in the notes.)
    * That holds right after the stream has changed, too: what is older than a bucket's filling isn't known any more.
    * A key whose home never is ahead by more than the 6 % is on one worker.
    * At most 4·W + 1024 replicas besides the keys' first ones are remembered, and one that a key hasn't used during a
      whole window (or 300·W tuples, if that's more) is given up.

    Time O(1) a tuple, amortised (at most 64 looks, and W more for a new replica in the worst case). Memory: 56 bytes a
    worker and 8·W + 1024 remembered keys at most, whatever the number of keys.

    Parameters
    ----------
    slack : float, default 0.07
        σ > 0, what a worker may do more than its share for good. Larger: fewer replicas, less balance.
    window : int, tuples of the stream, default 100,000
        Over how many tuples the load should be balanced. Larger: bursts are borne where they are, so fewer replicas;
        shorter stretches are less balanced.
    sources : int, default 1
        S, how many routers share the stream. A router alone starts each of its first 4·W keys on the worker with the
        fewest keys, which is more even than hash functions are; several routers would disagree, so there each key
        starts at its home in KEY. A source's window is 1/√S of the whole, for its noise is independent of the others'.
    balance : {"tuples", "cost"}, default "tuples"
        What a load is: tuples, or their ``costs`` (ms), which ``route`` must be given then.
    weights : sequence of W floats, default None
        The workers' speeds, in any unit above 0; a worker's fair share of the load is its speed's. None: all alike.

    Notes
    -----
    Proof. Let a worker of share s leak ρ = (1 + σ)·s of the cost that passes (Σρ = 1 + σ), and let its level a be what
    it has got and hasn't leaked, over ρ. A tuple of cost c (1, if tuples count) lowers all levels by c, none below 0,
    and raises the chosen worker's by at most τ = max c/ρ; that had a ≤ F, the limit, or the least of all levels. Then
    all levels stay ≤ M = max(F, τ/σ) + τ. For Φ = Σρ·a ≤ M after each tuple, by induction: if the workers with a ≥ c
    have Σρ ≥ 1, then at least c leaks, and Φ doesn't grow; if they have Σρ = r < 1, then nothing is left in the others,
    and Φ ≤ (M − c)·r + c ≤ M. So the least level is at most M/(1 + σ), and the chosen worker's is at most
    max(F, M/(1 + σ)) + τ ≤ M. In a stretch of cost C a worker's load is at most ρ·(C + M): for workers alike and c = 1
    what stands above.

    The limits (1, 6 and 8 % of a window; or 1, 6.5 and 8 tuples of a worker, if that's more) were chosen on Zipf and
    country streams, on which results change little with them. A split key of d workers has the limit 1 + 5·d^-1/4 %.
    Balance and replication beside all other schemes, and what can't be had: docs/bounded-load/.

    References
    ----------
    Ours. After Mirrokni, Thorup and Zadimoghaddam, *Consistent Hashing with Bounded Loads*, SODA 2018 (a cap on all
    loads, spilling to the next); Turner's leaky bucket (*New Directions in Communications*, 1986), in the form of
    virtual finishing times; Boyer and Moore, *MJRTY*, 1991 (the vote).

    Examples
    --------
    A key with every other tuple, and 1000 with the rest: no worker of 20 gets a tenth more than the mean, and only the
    hot key is on more than one.

    >>> router = BoundedLoad(20)
    >>> workers = router.route([f"k{i % 2000}" if i % 2 else "tr" for i in range(200_000)])
    >>> bool(np.bincount(workers[100_000:]).max() <= 1.1 * 100_000 / 20)
    True
    >>> router.internals()["workers"]
    [18]

    """

    name = "BOUNDED_LOAD"
    short = "bl"
    state_fields = ("clock", "tally")

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        slack: float = 0.07,
        window: int = 100_000,
        sources: int = 1,
        balance: str = "tuples",
        weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__(workers, seed=seed)
        self.slack = number("slack", slack, 0, 10, above=True)
        self.window = integer("window", window, 1)
        self.sources = integer("sources", sources, 1)
        self.uses_cost = one_of("balance", balance, BALANCES) == "cost"
        self.weights = None if weights is None else [float(weight) for weight in weights]
        self._rules = Rules(
            number=function(self.seed),
            pace=self.workers / (1 + self.slack),
            window=max(1, round(self.window / self.sources**0.5)),
            period=max(1, round(max(self.window, _LASTING * self.workers) / self.sources**0.5)),
            placed=4 * self.workers if self.sources == 1 else 0,
        )
        self._loads = loads(fair_shares(self.weights, self.workers), self.slack)
        self._replicas = replicas(8 * self.workers + 1024, 4 * self.workers + 1024)
        self.clock = np.zeros(1)
        self.tally = np.array([0, 0, 1])

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = homes(keys.hashes, self._rules.number, self.workers)
        return route_within_bounds(
            keys.codes, keys.hashes, home, _ALIKE if costs is None else costs,
            self._rules, self._loads, self._replicas, self.clock, self.tally,
        )  # fmt: skip

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys are remembered, how many are split, and on how many workers the most split ones are."""
        size = int(self._replicas.size[KEYS])
        lengths = np.sort(self._replicas.length[:size])[::-1]
        split = int((lengths > 1).sum())
        return {"remembered": size, "split": split, "workers": lengths[: min(split, 100)].tolist()}

    def _state(self) -> dict[str, Value]:
        size = self._replicas.size[KEYS]
        return {
            **super()._state(),
            **{field: getattr(self._loads, field) for field in _OF_LOADS},
            **{field: getattr(self._replicas, field)[:size] for field in _OF_REPLICAS},
            "chains": chained(self._replicas),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._loads = self._loads._replace(**{field: state[field] for field in _OF_LOADS})
        size = len(state["key"])
        self._loads.keys[:] = np.bincount(state["first"], minlength=self.workers)
        self._replicas = replicas(len(self._replicas.key), len(self._replicas.worker))
        for field in _OF_REPLICAS:
            getattr(self._replicas, field)[:size] = state[field]
        self._replicas.size[KEYS] = size
        chain(self._replicas, state["chains"])

    def _identity(self) -> str:
        parameters = f"slack={self.slack} window={self.window} sources={self.sources}"
        return f"{super()._identity()} {parameters} cost={self.uses_cost} weights={self.weights}"


# Costs that aren't there, as the kernel takes them: contiguous and read-only, like those that are.
_ALIKE = np.empty(0)
_ALIKE.flags.writeable = False
