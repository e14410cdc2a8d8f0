"""PARTIAL_KEY (PKG, Greedy-d): the least loaded of a key's d candidates, optionally by probing actual loads."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import UsageError
from unskew.grouping.arguments import check_choice, check_integer
from unskew.grouping.choices.decay import DecayingGrouping
from unskew.grouping.feedback import Controller, Monitor, Queues, Reports
from unskew.grouping.hashing import draw_candidates, hash_function
from unskew.grouping.interface import Costs, Times
from unskew.grouping.kernel_cache import kernel
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value

ESTIMATIONS = ("local", "global")


class PartialKey(DecayingGrouping):
    """Send each tuple to the least loaded of its key's d candidates, as far as this source knows their load.

    With *key splitting* a key may be on all of its candidates, so that nothing need be remembered of a key. With *local
    load estimation* a source counts only the tuples that it sent, so that sources needn't communicate.

    Guarantees
    ----------
    * A key is on at most d workers. Its hashes name them, and they are the same for every source.
    * With p1 ≤ 1/(5W) the imbalance is O(m/W) with high probability after m ≥ W² tuples (Theorem 5.1). If most keys are
      much rarer than p1, the imbalance is far smaller. The theorem assumes random hash functions. It doesn't hold for
      keys chosen by someone who knows these: all may have the same d workers.
    * No balance beyond p1 = d/W: then the imbalance fraction is at least p1/d − 1/W.

    Time O(d) a tuple. Memory: W counters and none for keys. While a batch is routed, d candidates for each of its
    distinct keys.

    Parameters
    ----------
    choices : int, default 2
        d ≥ 2, the candidates of a key. The authors use 2. With d candidates a stream is balanced up to p1 = d/W at
        best, and a key may be on d workers.
    estimation : {"local", "global"}, default "local"
        Whose tuples are a worker's load. "local": this source's, the paper's "L". "global": all sources', the paper's
        "G", an oracle for comparison: one router that all sources share, which topologies lack.
    probe_every : int, tuples, default 0
        The paper's "LP". With feedback from the workers, the local estimate is set to the workers' actual load after
        each ``probe_every`` tuples. 0: never, and no feedback is needed. The authors probe every minute, and find that
        probing doesn't help. It excludes "global" and ``half_life``.
    half_life : int, tuples of the source, default None
        Ours. Halve all counts after each ``half_life`` tuples, at least 1. None: count from the start, as published.
        Shorter: a change is forgotten sooner, and chance is taken for load sooner. A half-life should have many tuples
        of each worker.

    Notes
    -----
    The paper's d hash functions are independent and may name one worker twice. With W = 5 and d = 2, every fifth key
    would have no choice. Here a key's min(d, W) candidates all differ, because each hash function chooses among the
    workers that the ones before it left. Of equal loads the candidate of the earlier hash function is chosen.

    After a change of the stream: loads count from the start. So when a hot key goes, its workers get less until the
    others have caught up, which takes about as long as the key was hot, or a few half-lives with a ``half_life``.

    References
    ----------
    Nasir et al., *Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams*, sections 3 and 5.

    Examples
    --------
    A key alternates between its two workers:

    >>> workers = PartialKey(10).route(["tr"] * 4).tolist()
    >>> workers[0] != workers[1], workers[:2] == workers[2:]
    (True, True)

    """

    name = "PARTIAL_KEY"
    short = "pkg"
    state_fields = ("loads",)

    def __init__(
        self,
        workers: int,
        *,
        seed: int = 0,
        choices: int = 2,
        estimation: str = "local",
        probe_every: int = 0,
        half_life: int | None = None,
    ) -> None:
        super().__init__(workers, seed=seed, half_life=half_life)
        self.choices = check_integer("choices", choices, 2)
        self.shared = check_choice("estimation", estimation, ESTIMATIONS) == "global"
        self.probe_every = check_integer("probe_every", probe_every, 0)
        if self.shared and self.probe_every:
            raise UsageError(f"probe_every is {probe_every} with estimation 'global', which needs no probing; valid: 0")
        if self.probe_every and self.half_life:
            raise UsageError(
                f"half_life is {half_life} with probe_every, which sets loads since the start; valid: None"
            )

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        choices = draw_candidates(keys.hashes, hash_function(self.seed), min(self.choices, self.workers), self.workers)
        return self._route_by_half_lives(keys.codes, lambda codes: _route_to_candidates(codes, choices, self.loads))

    def monitor(self) -> Monitor | None:
        """A monitor that counts a worker's tuples, if loads are probed."""
        return LoadMonitor() if self.probe_every else None

    def controller(self) -> Controller | None:
        """A controller that probes the workers' loads, if ``probe_every`` isn't 0."""
        return ProbeController(self._identity(), self.workers, self.probe_every) if self.probe_every else None

    def _adopt(self, values: Mapping[str, Any], *, missed: bool) -> None:
        """Replace the estimate by the workers' actual loads."""
        if not self.probe_every:
            super()._adopt(values, missed=missed)
        self.loads = np.array(values["loads"], np.int64)

    def _identity(self) -> str:
        probing = f" probe_every={self.probe_every}" if self.probe_every else ""
        return f"{super()._identity()} choices={self.choices}{probing}"


@kernel
def _route_to_candidates(
    codes: NDArray[np.int32], choices: NDArray[np.int32], loads: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Route each tuple to its key's candidate with the least load, and count it there."""
    workers = np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        key = codes[i]
        best = choices[key, 0]
        for j in range(1, choices.shape[1]):
            candidate = choices[key, j]
            if loads[candidate] < loads[best]:
                best = candidate
        loads[best] += 1
        workers[i] = best
    return workers


class LoadMonitor(Monitor):
    """Count a worker's tuples."""

    state_fields = ("tuples",)

    def __init__(self) -> None:
        self.tuples = 0

    def observe(self, keys: Keys, costs: Costs) -> None:
        """Count the tuples."""
        self.tuples += len(keys)

    def report(self) -> Mapping[str, Value] | None:
        """Report the tuples since the last report."""
        tuples, self.tuples = self.tuples, 0
        return {"tuples": tuples} if tuples else None

    def _identity(self) -> str:
        return "PARTIAL_KEY monitor"


class ProbeController(Controller):
    """Adds up the workers' tuples. After each ``every`` tuples a plan gives the sources the workers' loads."""

    state_fields = ("loads", "passed")

    def __init__(self, identity: str, workers: int, every: int) -> None:
        super().__init__(identity)
        self.every = every
        self.loads = np.zeros(workers, np.int64)
        self.passed = 0

    def _plan(self, reports: Reports, queues: Queues, sources: Reports | None) -> Mapping[str, Value] | None:
        """Plan: each worker's load since the start (``loads``, int64[W]), if it is time to probe."""
        for worker, report in reports.items():
            tuples = report["tuples"]
            assert isinstance(tuples, int)
            self.loads[worker] += tuples
            self.passed += tuples
        if self.passed < self.every:
            return None
        self.passed = 0
        return {"loads": self.loads.copy()}
