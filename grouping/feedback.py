"""Schemes with feedback: sources and workers report, a controller plans, the routers adopt.

There is a router at each source, a monitor at each worker, and one controller. They exchange plain named values, so the
same objects run in the simulator and in a topology. In a topology, reports travel with the tasks' results, and a plan
is a file that is written before the batch for which it holds. A router names its monitor and its controller
(``Grouping.monitor``, ``Grouping.controller``). All three have ``save`` and ``load``.

A plan is a value. It has a number, is for routers of one identity, and is whole: a router that has missed plans is as
good as the others once it has adopted the newest plan.

An interval is what lies between two plans: a batch of the topology, or a slice of the simulator's stream. All reports
of an interval are about the same tuples. A router makes its report when it has routed the interval's tuples. A monitor
makes its report when its worker has executed its share of them.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unskew.grouping.keys import Keys
from unskew.grouping.state import Stateful, Value, pack_values, unpack_values

#: What n tuples cost their worker (ms), where it is measured.
Costs: TypeAlias = "NDArray[np.float64] | None"
#: The reports of workers or of sources, by number.
Reports: TypeAlias = Mapping[int, Mapping[str, Any]]
#: Each worker's backlog in tuples, float[W], where it is known.
Queues: TypeAlias = "Sequence[float] | None"


_PLAN = "plan"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a controller gives to all routers.

    Two plans are equal if ``save`` gives the same bytes.

    Attributes
    ----------
    number : int
        1 for a controller's first plan, then 2, and so on. A router that has adopted no plan is at 0.
    base : int
        The number of the plan that this one changes. Some values are about changes, such as the keys that move, their
        former workers, and corrections. These values are true only for a router that has adopted the plan ``base``
        last.
    identity : str
        The identity of the routers that the plan is for: scheme, W, seed and parameters.
    values : name → value
        The scheme's own values. They are whole, so that a router that has missed plans catches up.

    """

    number: int
    base: int
    identity: str
    values: Mapping[str, Value]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Plan) and self.save() == other.save())

    def __hash__(self) -> int:
        return hash((self.number, self.base, self.identity))

    def save(self) -> bytes:
        """The plan as bytes. Equal plans give equal bytes."""
        return pack_values(
            _PLAN,
            {
                "number": self.number,
                "base": self.base,
                "identity": self.identity,
                "values": pack_values(self.identity, self.values),
            },
        )

    @classmethod
    def read(cls, data: bytes) -> Self:
        """The plan that ``save`` gave.

        Raises
        ------
        ValueError
            The bytes aren't a saved plan.

        """
        saved: dict[str, Any] = unpack_values(_PLAN, data)
        identity = saved["identity"]
        return cls(saved["number"], saved["base"], identity, unpack_values(identity, saved["values"]))


class Monitor(Stateful):
    """What one worker observes of its tuples."""

    #: Whether the monitor's state is kept from interval to interval, because it holds more than the next report.
    remembers: ClassVar[bool] = False

    @abstractmethod
    def observe(self, keys: Keys, costs: Costs) -> None:
        """Note n tuples that the worker has executed, and their costs (float64[n], ms) if these are measured."""

    @abstractmethod
    def report(self) -> Mapping[str, Value] | None:
        """The report to the controller about the tuples since the last report. None: there is nothing to report."""


class Controller(Stateful):
    """Makes plans from reports. A plan depends only on the controller's own state and the reports.

    Parameters
    ----------
    identity : str
        The identity of the routers that it plans for.

    """

    def __init__(self, identity: str) -> None:
        self.identity = identity
        #: The number of the newest plan made.
        self.number = 0

    def plan(self, reports: Reports, queues: Queues = None, sources: Reports | None = None) -> Plan | None:
        """Decide from the reports of one interval.

        Parameters
        ----------
        reports : worker → report
            The monitors' reports, without the workers that had nothing to report.
        queues : float[W], optional
            Each worker's backlog in tuples, for schemes that watch queues. In the simulator these are the tuples that
            wait at the worker when the interval ends. A micro-batch leaves none:
            ``unskew.grouping.feedback_loop.estimate_backlog``.
        sources : source → report, optional
            The routers' reports (``Grouping.report``), for schemes in which routers report.

        Returns
        -------
        Plan or None
            A plan that every router adopts and that changes the plan before it. None: nothing changes. If a plan moves
            keys between workers, its values ``moved`` and ``migration`` are the number of keys and the size of their
            state.

        """
        values = self._plan(reports, queues, sources)
        if values is None:
            return None
        self.number += 1
        return Plan(self.number, self.number - 1, self.identity, values)

    @abstractmethod
    def _plan(self, reports: Reports, queues: Queues, sources: Reports | None) -> Mapping[str, Value] | None:
        """The scheme's decision: the values of a plan, see ``plan``."""

    def _state(self) -> dict[str, Value]:
        return {"number": self.number, **super()._state()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.number = state["number"]
        super()._restore(state)

    def _identity(self) -> str:
        return f"{self.identity} controller"
