"""Schemes with feedback: sources and workers report, a controller plans, the routers adopt.

Router (at each source), monitor (at each worker) and controller (one) exchange plain named values, so the same objects
run in the simulator and in a topology: there reports travel with the tasks' results and a plan is a file that is
written before the batch that it holds for. A router names its monitor and controller (``Grouping.monitor``,
``Grouping.controller``); all three have ``save`` and ``load``.

A plan is a value: numbered, for routers of one identity, and whole. A router that has missed some is as good as the
others once it has adopted the newest.

An interval is what lies between two plans: a batch of the topology, a slice of the simulator's stream. The reports of
an interval are about the same tuples on both sides: a router's is made when it has routed the interval's tuples, a
monitor's when its worker has executed its share of them.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.keys import Keys
from unskew.grouping.state import Stateful, Value, pack, unpack

#: What n tuples cost their worker (ms), where it is measured.
Costs: TypeAlias = "NDArray[np.float64] | None"


_PLAN = "plan"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a controller gives to all routers; plans are equal if ``save`` gives the same bytes.

    Attributes
    ----------
    number : int
        1 for a controller's first plan, then 2, …; a router that has adopted none is at 0.
    base : int
        The number of the plan that this one changes: values about changes (keys that move, and from where; corrections)
        are true for a router that has adopted that plan last.
    identity : str
        Of the routers that it is for: scheme, W, seed, parameters.
    values : name → value
        The scheme's own. They are whole, so that a router that missed plans catches up.

    """

    number: int
    base: int
    identity: str
    values: Mapping[str, Value]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.save() == other.save()

    def __hash__(self) -> int:
        return hash((self.number, self.base, self.identity))

    def save(self) -> bytes:
        """The plan as bytes: the same plan gives the same bytes."""
        return pack(
            _PLAN,
            {
                "number": self.number,
                "base": self.base,
                "identity": self.identity,
                "values": pack(self.identity, self.values),
            },
        )

    @classmethod
    def read(cls, data: bytes) -> Self:
        """The plan that ``save`` gave.

        Raises
        ------
        ValueError
            The bytes are no saved plan.

        """
        saved: dict[str, Any] = unpack(_PLAN, data)
        identity = saved["identity"]
        return cls(saved["number"], saved["base"], identity, unpack(identity, saved["values"]))


class Monitor(Stateful):
    """What one worker observes of its tuples."""

    #: Whether it remembers more than its next report has: then its state is kept from interval to interval.
    remembers: ClassVar[bool] = False

    @abstractmethod
    def observe(self, keys: Keys, costs: Costs) -> None:
        """Note n tuples that the worker has executed, with their costs (float64[n], ms) where they're measured."""

    @abstractmethod
    def report(self) -> Mapping[str, Value] | None:
        """The report to the controller about the tuples since the last report; None if there's nothing to report."""


class Controller(Stateful):
    """Reports in, plan out: a pure function of its own state and the reports.

    Parameters
    ----------
    identity : str
        Of the routers that it plans for.

    """

    def __init__(self, identity: str) -> None:
        self.identity = identity
        #: Of the newest plan made.
        self.number = 0

    def plan(
        self,
        reports: Mapping[int, Mapping[str, Value]],
        queues: Sequence[float] | None = None,
        sources: Mapping[int, Mapping[str, Value]] | None = None,
    ) -> Plan | None:
        """Decide from the reports of one interval.

        Parameters
        ----------
        reports : worker → report
            The monitors' reports. Workers that had nothing to report are left out.
        queues : float[W], optional
            Each worker's backlog in tuples, for schemes that watch queues: the tuples that wait at the worker when the
            interval ends. Where an interval is a micro-batch every queue is empty then, so there it is the worker's
            share of the batch's measured work: its busy time over all workers', times the tuples.
        sources : source → report, optional
            The routers' reports (``Grouping.report``), for schemes in which routers report.

        Returns
        -------
        A plan for every router's ``adopt``, which changes the one before; None: nothing changes. A plan that moves keys
        between workers has the values ``moved``, the number of keys, and ``migration``, the size of their state.

        """
        values = self._plan(reports, queues, sources)
        if values is None:
            return None
        self.number += 1
        return Plan(self.number, self.number - 1, self.identity, values)

    @abstractmethod
    def _plan(
        self,
        reports: Mapping[int, Mapping[str, Value]],
        queues: Sequence[float] | None,
        sources: Mapping[int, Mapping[str, Value]] | None,
    ) -> Mapping[str, Value] | None:
        """The scheme's decision: the values of a plan, see ``plan``."""

    def _state(self) -> dict[str, Value]:
        return {"number": self.number, **super()._state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.number = state["number"]
        super()._restore(state)

    def _identity(self) -> str:
        return f"{self.identity} controller"
