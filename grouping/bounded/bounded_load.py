"""BOUNDED_LOAD: a key stays at home as long as its worker keeps up, and spills over just as far as it must."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import integer, number
from unskew.grouping.bounded.crew import Rules, crew
from unskew.grouping.bounded.places import KEYS, chain, chained, places
from unskew.grouping.bounded.spilling import route_within_bounds
from unskew.grouping.hashing import function, homes
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value

BALANCES = ("tuples", "cost")

_LASTING = 300  # tuples of a worker before what it isn't used for is forgotten, if that's more than a window
_OF_CREW = ("load", "rival", "votes")
_OF_PLACES = ("key", "first", "since", "seen")


class BoundedLoad(Grouping):
    """Send each tuple where its key is, while that worker keeps up; split a key, worker by worker, when it doesn't.

    Every worker is a bucket that leaks (1 + ``slack``)/W of a tuple for each tuple of the stream: a little more than
    its share. A key is whole at first, on one worker. When that has got 6 % of a window more than has leaked, the key
    that has most of its tuples is split, and at 8 % the next that comes: another worker joins, of 16 that the key's
    hash functions name the one with the least recent load; with several sources the first with room, so that they
    agree. A split key's tuple goes to one of its workers that has room, the earlier ones first, within a lower limit
    than a whole key's, so that split keys fill what whole keys leave; one more worker joins only when none has room.
    What isn't used for a window is forgotten. So nothing counts from the start, and no key's frequency has to be known.

    Guarantees
    ----------
    * Of *any* n tuples in a row of a source, of any stream, a worker gets at most (1 + σ)·n/W + max(f, 1/σ) + 1 of
      them, with σ = ``slack`` and f = max(0.08 · (1 + σ) · ``window``/W, 8). By default and up to W = 100, that's at
      most 1.17 times the mean over any 100,000 tuples, and 1.07 in the long run. (Proof in the notes.)
    * That holds right after the stream has changed, too: what is older than a bucket's filling isn't known any more.
    * A key whose home never is ahead by more than the 6 % is on one worker.
    * At most 4·W + 1024 places besides the keys' first ones are remembered, and one that a key hasn't used during a
      whole window (or 300·W tuples, if that's more) is given up.

    Time O(1) a tuple, amortised (at most 64 looks, and W more for a new place in the worst case). Memory: 56 bytes a
    worker and 8·W + 1024 remembered keys at most, whatever the number of keys.

    Parameters
    ----------
    slack : float, default 0.07
        σ > 0, what a worker may do more than its share for good. Larger: fewer replicas, less balance.
    window : int, tuples of the stream, default 100,000
        Over how many tuples the load should be balanced. Larger: bursts are borne where they are, so fewer replicas;
        shorter stretches are less balanced.
    sources : int, default 1
        S, how many routers share the stream. One alone places its first 4·W keys where the fewest are, which hash
        functions don't; several would disagree, so each key starts at its home in KEY. A source's window is 1/√S of the
        whole, for its noise is independent of the others'.
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
        if balance not in BALANCES:
            raise ValueError(f"balance is {balance!r}; valid: {', '.join(BALANCES)}")
        self.uses_cost = balance == "cost"
        self.weights = None if weights is None else [float(weight) for weight in weights]
        self._rules = Rules(
            number=function(self.seed),
            pace=self.workers / (1 + self.slack),
            window=max(1, round(self.window / self.sources**0.5)),
            period=max(1, round(max(self.window, _LASTING * self.workers) / self.sources**0.5)),
            placed=4 * self.workers if self.sources == 1 else 0,
        )
        self._crew = crew(self._shares(), self.slack)
        self._places = places(8 * self.workers + 1024, 4 * self.workers + 1024)
        self.clock = np.zeros(1)
        self.tally = np.array([0, 0, 1])

    def _shares(self) -> NDArray[np.float64]:
        if self.weights is None:
            return np.full(self.workers, 1 / self.workers)
        speeds = np.array(self.weights)
        if len(speeds) != self.workers or not (speeds > 0).all() or not np.isfinite(speeds.sum()):
            raise ValueError(f"weights is {self.weights}; valid: a number above 0 for each of {self.workers} workers")
        return speeds / speeds.sum()

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = homes(keys.hashes, self._rules.number, self.workers)
        return route_within_bounds(
            keys.codes, keys.hashes, home, _ALIKE if costs is None else costs,
            self._rules, self._crew, self._places, self.clock, self.tally,
        )  # fmt: skip

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys are remembered, how many are split, and on how many workers the most split ones (100)."""
        size = int(self._places.size[KEYS])
        lengths = np.sort(self._places.length[:size])[::-1]
        split = int((lengths > 1).sum())
        return {"remembered": size, "split": split, "workers": lengths[: min(split, 100)].tolist()}

    def _state(self) -> dict[str, Value]:
        size = self._places.size[KEYS]
        return {
            **super()._state(),
            **{field: getattr(self._crew, field) for field in _OF_CREW},
            **{field: getattr(self._places, field)[:size] for field in _OF_PLACES},
            "chains": chained(self._places),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._crew = self._crew._replace(**{field: state[field] for field in _OF_CREW})
        size = len(state["key"])
        self._crew.keys[:] = np.bincount(state["first"], minlength=self.workers)
        self._places = places(len(self._places.key), len(self._places.worker))
        for field in _OF_PLACES:
            getattr(self._places, field)[:size] = state[field]
        self._places.size[KEYS] = size
        chain(self._places, state["chains"])

    def _identity(self) -> str:
        parameters = f"slack={self.slack} window={self.window} sources={self.sources}"
        return f"{super()._identity()} {parameters} cost={self.uses_cost} weights={self.weights}"


# Costs that aren't there, as the kernel takes them: contiguous and read-only, like those that are.
_ALIKE = np.empty(0)
_ALIKE.flags.writeable = False
