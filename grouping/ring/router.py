"""CONSISTENT_HASH: a ring of tokens that is redistributed when one worker's queue stands out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.arguments import integer, number
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import Keys
from unskew.grouping.ring.controller import RingController
from unskew.grouping.ring.tokens import owners_of, ring_of

_METHODS = {"halving": 8, "doubling": 1}  # tokens to start with


class ConsistentHash(Grouping):
    """Send a key to the owner of the first token clockwise from its hash; give an overloaded worker less of the ring.

    Worker i's tokens are the strings ``i-0``, ``i-1``, …; tokens and keys lie on the ring at the seeded SplitMix64 of
    their mmh3. When the longest queue is more than 1 + τ times the second longest, its worker is relieved: *halving*
    takes half of its tokens away, so that its keys alone move; *doubling* gives every other worker twice its tokens, so
    that many keys move. Tuples waiting at a worker that no longer owns their key are passed on when their turn comes; a
    key's partial results, left at several workers, are merged at the end.

    Guarantees
    ----------
    * At any one time a key is on one worker, the same for all sources that have the same plan.
    * A redistribution changes at most what its method says; no more than ``rounds`` for each worker.
    * No bound on imbalance: one hot key is moved, never divided.

    Time O(1) a tuple and O(log T) a distinct key, T the tokens; O(T log T) a redistribution. Memory: 12 bytes a token,
    shared by all routers of a process.

    Parameters
    ----------
    method : "doubling" or "halving", default "doubling"
        The authors find doubling the more successful.
    tokens : int, optional
        Tokens of each worker at the start, a power of 2. Default 1 for doubling (the authors' value) and 8 for
        halving (the authors say a power of 2). More: more even shares; 1 is very uneven.
    threshold : float, default 0.2
        τ ≥ 0; 0 tolerates no skew. (The authors' value is missing from the text that we have.)
    rounds : int, default 1
        How often each worker may be relieved, at least 0. The authors use 1, and try more.
    max_tokens : int, default 2^20
        T at most, since doubling grows without bound.

    Notes
    -----
    Of halved tokens the last ones go. Without feedback it is a plain ring.

    References
    ----------
    *DPA Load Balancer: Load balancing for Data Parallel Actor-based systems*, sections 3 and 4.

    Examples
    --------
    >>> router = ConsistentHash(4)
    >>> before = router.route(["tr"])[0]
    >>> queues = [1.0] * 4
    >>> queues[before] = 9.0
    >>> router.adopt(router.controller().plan({}, queues))
    True
    >>> router.internals()["tokens"], sorted(router.tokens.tolist())
    (7, [1, 2, 2, 2])

    """

    name = "CONSISTENT_HASH"
    short = "ch"
    moves = True
    forwards = True
    state_fields = ("tokens",)

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        method: str = "doubling",
        tokens: int | None = None,
        threshold: float = 0.2,
        rounds: int = 1,
        max_tokens: int = 1 << 20,
    ) -> None:
        super().__init__(workers, seed=seed)
        if method not in _METHODS:
            raise ValueError(f"method is {method!r}; valid: {', '.join(map(repr, _METHODS))}")
        self.method = method
        start = _METHODS[method] if tokens is None else integer("tokens", tokens, 1)
        if start & (start - 1):
            raise ValueError(f"tokens is {tokens!r}; valid: a power of 2")
        self.threshold = number("threshold", threshold, 0)
        self.rounds = integer("rounds", rounds, 0)
        self.max_tokens = integer("max_tokens", max_tokens, start * self.workers)
        self.start = start
        self.tokens = np.full(self.workers, start, np.int64)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        return self.owners(keys)[keys.codes]

    def owners(self, keys: Keys) -> NDArray[np.int32]:
        return owners_of(ring_of(self.tokens, self.seed), keys.hashes, self.seed)

    def _adopt(self, values: Mapping[str, Any], *, missed: bool) -> None:
        """Take up a ``RingController``'s tokens: they are all of them, so it doesn't matter what was missed."""
        self.tokens = np.asarray(values["tokens"], np.int64)

    def controller(self) -> RingController:
        """The load balancer."""
        return RingController(self._identity(), self.tokens, self.method, self.threshold, self.rounds, self.max_tokens)

    def internals(self) -> Mapping[str, Any]:
        """``tokens`` on the whole ring, and the fewest that a worker has."""
        return {"tokens": int(self.tokens.sum()), "fewest": int(self.tokens.min())}

    def _identity(self) -> str:
        parameters = f"tokens={self.start} threshold={self.threshold} rounds={self.rounds} max_tokens={self.max_tokens}"
        return f"{super()._identity()} {self.method} {parameters}"
