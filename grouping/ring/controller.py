"""The load balancer of CONSISTENT_HASH: watches the queues, changes the tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.feedback import Controller
from unskew.grouping.ring.tokens import double, halve
from unskew.grouping.state import Value


class RingController(Controller):
    """Redistributes when one queue stands out: Qmax > Qs · (1 + τ), Qs the second longest (predicate 1).

    The worker with the longest queue is relieved, at most ``rounds`` times each. O(W) a plan; memory: two numbers a
    worker.

    Parameters
    ----------
    identity : str
        Of the routers that it plans for.
    tokens : int64[W]
        What each worker starts with.
    method : "halving" or "doubling"
    threshold, rounds, most : float, int, int
        τ, rounds a worker, and the most tokens that the ring may have: a redistribution beyond that isn't made.

    """

    state_fields = ("tokens", "triggered")

    def __init__(
        self, identity: str, tokens: NDArray[np.int64], method: str, threshold: float, rounds: int, most: int
    ) -> None:
        super().__init__(identity)
        self.tokens = tokens.copy()
        self.triggered = np.zeros(len(tokens), np.int64)
        self.method, self.threshold, self.rounds, self.most = method, threshold, rounds, most

    def _plan(
        self,
        reports: Mapping[int, Mapping[str, Any]],
        queues: Sequence[float] | None,
        sources: Mapping[int, Mapping[str, Any]] | None,
    ) -> Mapping[str, Value] | None:
        """Plan: the tokens of each worker, int64[W]. Without ``queues`` there is nothing to decide from."""
        if queues is None or len(self.tokens) < 2:
            return None
        lengths = np.asarray(queues, np.float64)
        node = int(lengths.argmax())
        second = np.partition(lengths, -2)[-2]
        if lengths[node] <= second * (1 + self.threshold) or self.triggered[node] >= self.rounds:
            return None
        tokens = (halve if self.method == "halving" else double)(self.tokens, node)
        if tokens.sum() > self.most or (tokens == self.tokens).all():
            return None
        self.tokens = tokens
        self.triggered[node] += 1
        return {"tokens": tokens}
