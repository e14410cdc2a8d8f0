"""Probing for PARTIAL_KEY: every so often the sources learn the workers' actual load."""

from collections.abc import Mapping, Sequence

import numpy as np

from unskew.grouping.feedback import Controller, Monitor
from unskew.grouping.interface import Costs
from unskew.grouping.keys import Keys
from unskew.grouping.state import Value


class LoadMonitor(Monitor):
    """Count a worker's tuples."""

    state_fields = ("tuples",)

    def __init__(self) -> None:
        self.tuples = 0

    def observe(self, keys: Keys, costs: Costs) -> None:
        """Count them; costs don't matter."""
        self.tuples += len(keys)

    def report(self) -> Mapping[str, Value] | None:
        """Report the tuples since the last report."""
        tuples, self.tuples = self.tuples, 0
        return {"tuples": tuples} if tuples else None

    def _identity(self) -> str:
        return "PARTIAL_KEY monitor"


class Probe(Controller):
    """Add up the workers' tuples, and tell the sources when ``every`` tuples have passed since they were last told."""

    state_fields = ("loads", "passed")

    def __init__(self, identity: str, workers: int, every: int) -> None:
        super().__init__(identity)
        self.every = every
        self.loads = np.zeros(workers, np.int64)
        self.passed = 0

    def _plan(
        self,
        reports: Mapping[int, Mapping[str, Value]],
        queues: Sequence[float] | None,
        sources: Mapping[int, Mapping[str, Value]] | None,
    ) -> Mapping[str, Value] | None:
        """Give every worker's load since the start (``loads``, int64[W]) if it's time to probe."""
        for worker, report in reports.items():
            tuples = report["tuples"]
            assert isinstance(tuples, int)
            self.loads[worker] += tuples
            self.passed += tuples
        if self.passed < self.every:
            return None
        self.passed = 0
        return {"loads": self.loads.copy()}
