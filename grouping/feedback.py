"""Schemes with feedback: sources and workers report, a controller plans, the routers adopt.

Router (at each source), monitor (at each worker) and controller (one) exchange plain named values, so the same objects
run in the simulator and in a topology: there reports travel with the tasks' results and a plan is a file that is
written before the batch that it holds for. A router names its monitor and controller (``Grouping.monitor``,
``Grouping.controller``); all three have ``save`` and ``load``.

An interval is what lies between two plans: a batch of the topology, a slice of the simulator's stream. The reports of
an interval are about the same tuples on both sides: a router's is made when it has routed the interval's tuples, a
monitor's when its worker has executed its share of them.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.keys import Keys
from unskew.grouping.state import Stateful, Value

#: What n tuples cost their worker (ms), where it is measured.
Costs: TypeAlias = "NDArray[np.float64] | None"


class Monitor(Stateful):
    """What one worker observes of its tuples."""

    @abstractmethod
    def observe(self, keys: Keys, costs: Costs) -> None:
        """Note n tuples that the worker has executed, with their costs (float64[n], ms) where they're measured."""

    @abstractmethod
    def report(self) -> Mapping[str, Value] | None:
        """What the controller should know of the tuples since the last report; None if there's nothing to say."""


class Controller(Stateful):
    """Reports in, plan out: a pure function of its own state and what it is told."""

    @abstractmethod
    def plan(
        self,
        reports: Mapping[int, Mapping[str, Value]],
        queues: Sequence[float] | None = None,
        sources: Mapping[int, Mapping[str, Value]] | None = None,
    ) -> Mapping[str, Value] | None:
        """Decide from the reports of one interval.

        Parameters
        ----------
        reports : worker → report
            What the monitors say. Workers that had nothing to say are left out.
        queues : float[W], optional
            Tuples waiting at each worker, for schemes that watch queues.
        sources : source → report, optional
            What the routers say (``Grouping.report``), for schemes that ask them.

        Returns
        -------
        A plan for every router's ``adopt``; None: go on as you do. A plan that moves keys between workers says what
        that costs: ``moved``, the number of keys, and ``migration``, the size of their state.

        """
