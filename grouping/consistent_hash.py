"""CONSISTENT_HASH: a ring of tokens, redistributed when one worker's queue stands out."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.errors import UsageError
from unskew.grouping.arguments import check_choice, check_integer, check_number
from unskew.grouping.feedback import Controller, Queues, Reports
from unskew.grouping.hashing import hash_function, mix_hash
from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys, hash_keys
from unskew.grouping.state import Value

_METHODS = {"halving": 8, "doubling": 1}  # tokens to start with


class ConsistentHash(Grouping):
    """Send a key to the owner of the first token clockwise from its hash; give an overloaded worker less of the ring.

    Worker i's tokens are the strings ``i-0``, ``i-1``, …. The position of a token or a key on the ring is a seeded
    SplitMix64 of its mmh3. When the longest queue is more than 1 + τ times the second longest, its worker is relieved.
    *Halving* removes half of that worker's tokens, so that only its keys move. *Doubling* gives every other worker
    twice its tokens, so that many keys move. If a tuple waits at a worker that no longer owns its key, it is passed on
    when its turn comes. A key's partial results stay at its former workers and are merged at the end.

    Guarantees
    ----------
    * At any one time a key is on one worker, the same for all sources that have the same plan.
    * A redistribution changes only the tokens that its method says, at most ``rounds`` times for each worker.
    * No bound on imbalance: one hot key is moved, never divided.

    Time O(1) a tuple and O(log T) a distinct key for T tokens; O(T log T) a redistribution. Memory: 12 bytes a token,
    shared by all routers of a process.

    Parameters
    ----------
    method : "doubling" or "halving", default "doubling"
        The authors find doubling the more successful.
    tokens : int, optional
        Tokens of each worker at the start, a power of 2. The default is 1 for doubling, the authors' value, and 8 for
        halving, for which the authors only ask for a power of 2. With more tokens the shares are more even; one token
        a worker is very uneven.
    threshold : float, default 0.2
        τ ≥ 0. With 0 no skew is tolerated. The text of the paper that we have lacks the authors' value.
    rounds : int, default 1
        How often each worker may be relieved, at least 0. The authors use 1 and also try more.
    max_tokens : int, default 2^20
        The most tokens that the ring may have, because doubling grows without bound.

    Notes
    -----
    Halving takes a worker's last tokens. Without feedback the scheme is a plain ring.

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
    migrates_keys = True
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
        self.method = check_choice("method", method, tuple(_METHODS))
        start = _METHODS[self.method] if tokens is None else check_integer("tokens", tokens, 1)
        if start & (start - 1):
            raise UsageError(f"tokens is {tokens!r}; valid: a power of 2")
        self.threshold = check_number("threshold", threshold, 0)
        self.rounds = check_integer("rounds", rounds, 0)
        self.max_tokens = check_integer("max_tokens", max_tokens, start * self.workers)
        self.start = start
        self.tokens = np.full(self.workers, start, np.int64)

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        return self.owners(keys)[keys.codes]

    def owners(self, keys: Keys) -> NDArray[np.int32]:
        return find_owners(build_ring(self.tokens, self.seed), keys.hashes, self.seed)

    def _adopt(self, values: Mapping[str, Any], *, missed: bool) -> None:
        """Adopt a ``RingController``'s plan, which has all tokens, so that missed plans don't matter."""
        self.tokens = np.asarray(values["tokens"], np.int64)

    def controller(self) -> "RingController":
        """The load balancer."""
        return RingController(self._identity(), self.tokens, self.method, self.threshold, self.rounds, self.max_tokens)

    def internals(self) -> Mapping[str, Any]:
        """``tokens`` on the whole ring, and the fewest that a worker has."""
        return {"tokens": int(self.tokens.sum()), "fewest": int(self.tokens.min())}

    def _identity(self) -> str:
        parameters = f"tokens={self.start} threshold={self.threshold} rounds={self.rounds} max_tokens={self.max_tokens}"
        return f"{super()._identity()} {self.method} {parameters}"


class RingController(Controller):
    """The load balancer: redistributes when Qmax > Qs · (1 + τ), where Qs is the second longest queue (predicate 1).

    It relieves the worker with the longest queue, each worker at most ``rounds`` times. A redistribution that needs
    more than ``most`` tokens on the ring isn't made. Time O(W) a plan. Memory: two numbers a worker.
    """

    state_fields = ("tokens", "triggered")

    def __init__(
        self, identity: str, tokens: NDArray[np.int64], method: str, threshold: float, rounds: int, most: int
    ) -> None:
        super().__init__(identity)
        self.tokens = tokens.copy()
        self.triggered = np.zeros(len(tokens), np.int64)
        self.method, self.threshold, self.rounds, self.most = method, threshold, rounds, most

    def _plan(self, reports: Reports, queues: Queues, sources: Reports | None) -> Mapping[str, Value] | None:
        """Plan: the tokens of each worker, int64[W], or none without ``queues``."""
        if queues is None or len(self.tokens) < 2:
            return None
        lengths = np.asarray(queues, np.float64)
        node = int(lengths.argmax())
        second = np.partition(lengths, -2)[-2]
        if lengths[node] <= second * (1 + self.threshold) or self.triggered[node] >= self.rounds:
            return None
        tokens = (halve_tokens if self.method == "halving" else double_tokens)(self.tokens, node)
        if tokens.sum() > self.most or (tokens == self.tokens).all():
            return None
        self.tokens = tokens
        self.triggered[node] += 1
        return {"tokens": tokens}


class Ring(NamedTuple):
    """T tokens in the order of the ring. Read-only."""

    positions: NDArray[np.uint64]  # [T], ascending
    owners: NDArray[np.int32]  # [T]


def build_ring(tokens: NDArray[np.int64], seed: int) -> Ring:
    """The ring on which worker i has the tokens ``i-0`` to ``i-(tokens[i] - 1)``, at least one.

    Time O(T log T). The last eight rings are cached. ``seed`` chooses the hash function on top of mmh3, for tokens and
    keys alike.
    """
    return _build_ring(np.ascontiguousarray(tokens, np.int64).tobytes(), seed)


@lru_cache(maxsize=8)
def _build_ring(tokens: bytes, seed: int) -> Ring:
    counts = np.frombuffer(tokens, np.int64)
    node = np.repeat(np.arange(len(counts)), counts)
    token = np.arange(len(node)) - np.repeat(np.cumsum(counts) - counts, counts)
    parts = [pa.array(node).cast(pa.string()), pa.array(token).cast(pa.string()), "-"]
    positions = _hash_positions(hash_keys(pc.call_function("binary_join_element_wise", parts)), hash_function(seed))
    order = np.argsort(positions, kind="stable")
    ring = Ring(positions[order], node[order].astype(np.int32))
    for array in ring:
        array.flags.writeable = False
    return ring


def find_owners(ring: Ring, hashes: NDArray[np.uint64], seed: int) -> NDArray[np.int32]:
    """The owner of each key: that of the first token clockwise from the key's hash. int32[k], O(k log T)."""
    at = np.searchsorted(ring.positions, _hash_positions(hashes, hash_function(seed)))
    return ring.owners[np.where(at == len(ring.positions), 0, at)]


@kernel
def _hash_positions(hashes: NDArray[np.uint64], number: np.uint64) -> NDArray[np.uint64]:
    """The positions of keys or tokens with these mmh3: uint64[k]."""
    positions = np.empty(len(hashes), np.uint64)
    for i in range(len(hashes)):
        positions[i] = mix_hash(hashes[i], number)
    return positions


def halve_tokens(tokens: NDArray[np.int64], node: int) -> NDArray[np.int64]:
    """Remove half of the node's tokens, its last ones, or none if it has only one."""
    fewer = tokens.copy()
    fewer[node] -= fewer[node] // 2
    return fewer


def double_tokens(tokens: NDArray[np.int64], node: int) -> NDArray[np.int64]:
    """Double every other node's tokens."""
    more = 2 * tokens
    more[node] = tokens[node]
    return more
