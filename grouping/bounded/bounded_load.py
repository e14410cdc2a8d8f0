"""BOUNDED_LOAD: a key stays on one worker while it keeps up, and is split no further than needed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import BALANCES, check_choice, check_integer, check_number, check_weights, fair_shares
from unskew.grouping.bounded.kernel import (
    AHEAD,
    PACE,
    PARTS,
    UNIT,
    BoundedLoadParameters,
    compute_limits,
    make_idle_loads,
    part_size,
    route_within_bounds,
)
from unskew.grouping.bounded.replicas import KEYS, list_chains, make_replicas, restore_chains
from unskew.grouping.hashing import choose_homes, hash_function
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value

_LASTING = 300  # tuples of a worker after which an unused replica is forgotten, if more than a window
_OF_LOADS = ("load", "rival", "votes")
_OF_REPLICAS = ("key", "first", "since", "seen")


class BoundedLoad(Grouping):
    """Send each tuple to its key's worker while that keeps up; when it doesn't, split the key, worker by worker.

    Every worker is a bucket that leaks (1 + ``slack``)/W of a tuple for each tuple of the stream, a little more than
    its share. A worker is *ahead* by the number of the stream's tuples in which its bucket would run empty.

    At first a key is whole: it is on one worker. When this worker is ahead by more than 6 % of a window, the key with
    most of its tuples is split; above 8 %, the next key that comes is split. Another worker then joins the key: the one
    with the least recent load among the 16 workers of the key's hash functions. If these are loaded, too, other workers
    are considered in turn. With several sources it is the first one with room, so that sources agree.

    A split key's tuple goes to one of the key's workers with room, the earlier ones first. The limit for split keys is
    lower than for whole keys, so that split keys fill what whole keys leave. One more worker joins only when none has
    room. A replica that isn't used for a window is forgotten. So nothing counts from the start, and no key's frequency
    has to be known.

    Guarantees
    ----------
    Only load is proved: of a source by itself, in tuples (for costs, see the notes), without ``most_workers``.

    * Of *any* n tuples in a row of a source, of any stream, a worker gets at most (1 + σ)·n/W + max(f, 1/σ) + 1. Here
      σ = ``slack`` and f = max(0.08 · (1 + σ) · ``window``/W, 8). By default and up to W = 100, that is at most 1.17
      times the mean over any 100,000 tuples, and 1.07 in the long run. The notes have the proof.
    * With weights, a worker of share s, which is r times the smallest share, gets at most
      (1 + σ)·s·n + max(s·W·f, r/σ) + r. So a fast worker's last two terms are r times as large as the slowest one's.
    * Of any n tuples in a row of S sources together, a worker gets at most (1 + σ)·n/W + S·(max(g, 1/σ) + 1), where
      g = max(0.08 · (1 + σ) · w/W, 8), and w is ``window``/√S, rounded. The last term grows with √S at least: by
      default, with S = 16 and W = 10, it is at most 0.35 times the mean over 100,000 tuples.
    * This also holds right after the stream has changed, because a bucket keeps nothing that is older than its filling.
    * With costs, a limit of 8 % of a window is 8 % of what a window costs at the mean cost of the last half window. So
      half a window after costs have changed, nothing of the old ones is left in the limits. The notes have the bound.
    * A key isn't split while its first worker is ahead by at most 6 % of a window, or 6.5 of this worker's tuples if
      that is more. The first worker may change without that, in two cases. If it isn't the key's home, and the key
      doesn't come for a whole period after which unused replicas are given up, the key is forgotten and starts anew. If
      a single router remembers at most W/4 keys at the end of such a period, it again chooses first workers of all keys
      that it doesn't remember, even of those that have always been at home.
    * At most 4·W + 1024 replicas besides the keys' first ones are remembered. A replica is given up if its key hasn't
      used it for a whole window, or 300·W tuples if that is more.

    Not proved: how many replicas there are compared to the fewest possible; that each window is at most 1.1 times the
    mean (it was so on the streams in evidence/balance/figures.md, with the exceptions named there); and that
    independent sources split the same keys.

    Time O(1) a tuple, amortised. A tuple takes at most 64 looks at its key's own workers. If none of these has room, it
    takes at most 31 looks at others, and W more in the worst case. Memory: 56 bytes a worker and at most 8·W + 1024
    remembered keys, whatever the number of keys.

    Parameters
    ----------
    slack : float, default 0.07
        σ, above 0 and at most 10: how much more than its share a worker may get in the long run. Larger: fewer
        replicas, less balance.
    window : int, tuples of the stream, default 100,000
        The number of tuples over which the load should be balanced. Larger: the present workers absorb bursts, so there
        are fewer replicas, and shorter stretches are less balanced.
    sources : int, default 1
        S, the number of routers that share the stream. A single router chooses the first worker of each of its first
        4·W keys: the key's home, if that has no more than its share of these keys. Otherwise it is the one with the
        fewest keys among 16 workers that the key's hash functions name. This is more even than hash functions alone.
        Several routers would disagree, so with them each key starts at its home in KEY. A source's window is 1/√S of
        the whole, because the sources' noise is independent.
    balance : {"tuples", "cost"}, default "tuples"
        What a load is: tuples, or their ``costs`` in ms. With "cost", ``route`` needs ``costs``.
    weights : sequence of W floats, default None
        The workers' speeds, in any unit, each above 0. A worker's fair share of the load is proportional to its speed.
        None: all workers are alike.
    most_workers : int, at least 1, default None
        A key, such as a noisy tenant, has at most so many workers: its home in KEY, and others that its hash draws, the
        same ones for ever and at every source. What exceeds these workers' limits goes there, too, and waits, so the
        bound on loads doesn't hold. Other keys leave such workers if another of theirs has room. Smaller: more workers
        are left to other keys, and each key has less choice. A tuple takes at most 64 looks at its key's own workers,
        and then one at each that the key may have. None: W.

    Notes
    -----
    Proof. A worker of share s leaks ρ = (1 + σ)·s of the cost that passes, so Σρ = 1 + σ. Its level a is what it has
    got and hasn't leaked, divided by ρ. A tuple of cost c lowers all levels by c, but none below 0. If tuples
    count, c is 1. The tuple raises the chosen worker's level by at most τ = max c/ρ. Before that, this level was at
    most F, the limit, or it was the least of all levels. The claim is that all levels stay ≤ M = max(F, τ/σ) + τ.

    By induction Φ = Σρ·a ≤ M after each tuple. If the workers with a ≥ c have Σρ ≥ 1, then at least c leaks, and Φ
    doesn't grow. If they have Σρ = r < 1, then the other workers run empty, and Φ ≤ (M − c)·r + c ≤ M. So the least
    level is at most M/(1 + σ). The chosen worker's level is at most max(F, M/(1 + σ)) + τ ≤ M. In a stretch of cost C a
    worker's load is at most ρ·(C + M). If all workers are alike and c = 1, this is the guarantee above.

    *When costs change*, so does F. The mean cost of a tuple is that of 16 parts of the stream: of half a window
    together, or of 8 tuples a worker if that is more. Within a part F can only rise, and M with it. At its end the
    oldest part no longer counts. If F then falls by f, each level a falls by f·min(a/F, 1), although the worker has got
    its load. If F is below τ/σ, M stays. Otherwise levels up to F become at most F − f, and those above, at most F + τ,
    fall by f. Φ becomes Φ − f·Φ/F + f·Σρ·(a/F − 1) over the levels above F, and that sum is at most τ/F, because Φ and
    a are at most F + τ. Hence Φ and all levels are within the new M. If all falls in a stretch add up to V, and M is
    the greatest one there, a worker's load is at most ρ·(C + M + V). A fall is at most 8 % of a window at the mean cost
    by which the oldest part counted. So from the first half window on, and up to W = ``window``/100, V is at most a
    sixth of the cost of the parts that ceased to count. With a mean over a whole window, the second window after a
    change would begin with old limits. With one over less than half a window, V could be more.

    The limits are 1, 6 and 8 % of a window, or 1, 6.5 and 8 tuples of a worker if that is more. They were chosen on
    Zipf and country streams, on which results change little with them. For a split key of d workers the limit in per
    cent is 1 + 5·d^-1/4. evidence/balance/figures.md compares balance and replication with all other schemes, and
    theory.md there says what is impossible.

    References
    ----------
    This scheme is ours. A cap on all loads, spilling to the next worker, is from Mirrokni, Thorup and Zadimoghaddam,
    *Consistent Hashing with Bounded Loads*, SODA 2018. The leaky bucket, here in the form of virtual finishing times,
    is from Turner, *New Directions in Communications*, 1986, and a bound on the load of *any* stretch from Cruz,
    *A Calculus for Network Delay, Part I*, IEEE Trans. Inf. Theory 37(1), 1991. The vote is from Boyer and Moore,
    *MJRTY*, 1991.

    Kin: Pai et al., *Locality-Aware Request Distribution in Cluster-based Network Servers*, ASPLOS 1998: its LARD/R
    adds servers to a target while those that it has are loaded, and takes them away after a time. Nasir et al., *Load
    Balancing for Skewed Streams on Heterogeneous Clusters*, arXiv 1705.09073 (Consistent Grouping). Chen, Coleman and
    Shrivastava, *Revisiting Consistent Hashing with Bounded Loads*, arXiv 1908.08762: a key that finds no room jumps to
    a random place. Prompt divides a batch after counting it: Abdelhamid et al., SIGMOD 2020.

    Examples
    --------
    One key has every other tuple, and 1000 keys have the rest. No worker of 20 gets a tenth more than the mean, and
    only the hot key is on more than one worker.

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
        most_workers: int | None = None,
    ) -> None:
        super().__init__(workers, seed=seed)
        self.slack = check_number("slack", slack, 0, 10, above=True)
        self.window = check_integer("window", window, 1)
        self.sources = check_integer("sources", sources, 1)
        self.uses_cost = check_choice("balance", balance, BALANCES) == "cost"
        self.weights = None if weights is None else check_weights(weights, self.workers)
        self.most_workers = None if most_workers is None else check_integer("most_workers", most_workers, 1)
        window = max(1, round(self.window / self.sources**0.5))
        self._rules = BoundedLoadParameters(
            number=hash_function(self.seed),
            pace=self.workers / (1 + self.slack),
            window=window,
            part=part_size(window, self.workers),
            most=min(self.most_workers or self.workers, self.workers),
            period=max(1, round(max(self.window, _LASTING * self.workers) / self.sources**0.5)),
            chosen=4 * self.workers if self.sources == 1 else 0,
        )
        self._loads = make_idle_loads(fair_shares(self.weights, self.workers), self.slack)
        self._replicas = make_replicas(8 * self.workers + 1024, 4 * self.workers + 1024)
        self.clock = np.zeros(1)
        self.tally = np.array([0, 0, 1])
        self._costs = np.zeros(PARTS + 3)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        home = choose_homes(keys.hashes, self._rules.number, self.workers)
        tuples = keys.codes, keys.hashes, home, _ALIKE if costs is None else costs
        state = self._loads, self._replicas, self.clock, self.tally, self._costs
        return route_within_bounds(*tuples, self._rules, *state)

    def internals(self) -> Mapping[str, Any]:
        """Show how many keys are remembered and split, and the most split keys' numbers of workers (100).

        With ``most_workers`` also how many keys have so many workers (``capped``), and the ``excess``: the workers'
        backlog beyond the full limit, in tuples or ms, if they are as fast as they must be.
        """
        size = int(self._replicas.size[KEYS])
        lengths = np.sort(self._replicas.length[:size])[::-1]
        split = int((lengths > 1).sum())
        shown = {"remembered": size, "split": split, "workers": lengths[: min(split, 100)].tolist()}
        if self.most_workers is None:
            return shown
        full = compute_limits(self._rules, float(self._costs[UNIT]) if self.uses_cost else 1.0)[2]
        load = self._loads.load
        beyond = np.maximum(0, load[:, AHEAD] - self.clock[0] - full) / load[:, PACE]
        return {**shown, "capped": int((lengths >= self._rules.most).sum()), "excess": round(float(beyond.sum()), 3)}

    def _state(self) -> dict[str, Value]:
        size = self._replicas.size[KEYS]
        return {
            **super()._state(),
            **{field: getattr(self._loads, field) for field in _OF_LOADS},
            **{field: getattr(self._replicas, field)[:size] for field in _OF_REPLICAS},
            "chains": list_chains(self._replicas),
            **({"costs": self._costs} if self.uses_cost else {}),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._loads = self._loads._replace(**{field: state[field] for field in _OF_LOADS})
        size = len(state["key"])
        self._loads.keys[:] = np.bincount(state["first"], minlength=self.workers)
        self._replicas = make_replicas(len(self._replicas.key), len(self._replicas.worker))
        for field in _OF_REPLICAS:
            getattr(self._replicas, field)[:size] = state[field]
        self._replicas.size[KEYS] = size
        restore_chains(self._replicas, state["chains"])
        self._costs = state.get("costs", self._costs)

    def _identity(self) -> str:
        parameters = f"slack={self.slack} window={self.window} sources={self.sources}"
        more = f"cost={self.uses_cost} weights={self.weights} most_workers={self.most_workers}"
        return f"{super()._identity()} {parameters} {more}"


# Missing costs for the kernel: contiguous and read-only, like others.
_ALIKE = np.empty(0)
_ALIKE.flags.writeable = False
