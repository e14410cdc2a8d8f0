"""The interface of groupings: keys in, workers out, state as a value.

A scheme is a class in one file and a line in ``registry.py``. It implements ``_route`` and lists its state in
``state_fields``. This module checks arguments, encodes keys, and saves and restores the state.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.grouping.arguments import check_costs, check_integer
from unskew.grouping.feedback import Controller, Costs, Monitor, Plan
from unskew.grouping.keys import KeyArray, Keys, encode_keys, make_null_keys, require_keys
from unskew.grouping.state import Stateful, Value

Times: TypeAlias = "NDArray[np.int64] | None"


class Grouping(Stateful):
    """The router of one source, which decides which of W workers gets each tuple.

    Guarantees, for every scheme
    ----------------------------
    * Every answer is in ``[0, workers)``.
    * The answers depend only on the parameters, the seed and the tuples so far, not on a clock or unseeded randomness.
      Only in ``batched`` schemes do they depend on how the stream is cut into arrays.
    * If ``load`` restores the state of ``save`` from the middle of a stream in a new router, even in another process,
      it routes the rest as the first one would.

    Parameters
    ----------
    workers : int
        W ≥ 1.
    seed : int
        Chooses the hash functions, and schemes' random choices. All sources of a stream must have the same seed, or a
        key would have other candidates at each. SHUFFLE has no hash functions, and should start at another worker at
        each source (``at_source``).

    Raises
    ------
    UsageError
        A parameter is out of range or of a wrong type. The message names the parameter, the value and the valid values.
        A UsageError is a ValueError.

    Notes
    -----
    One router is one source's *local* load estimation: S sources have S routers that don't communicate.

    """

    #: The groupingType for users, and its short form in topic names.
    name: ClassVar[str]
    short: ClassVar[str]
    uses_keys: ClassVar[bool] = True  #: Whether the scheme looks at the keys. If not, they aren't encoded.
    is_sticky: ClassVar[bool] = False  #: Whether all tuples of a key go to one worker, for ever and from every source.
    #: Whether ``route`` needs ``times``, and whether it needs ``costs``.
    uses_time: ClassVar[bool] = False
    uses_cost: bool = False  # with some schemes an option decides
    #: Whether the scheme considers each call of ``route`` as a batch, so that answers depend on the cuts.
    batched: ClassVar[bool] = False
    #: Whether all sources share *one* router, because they must agree at every tuple. In a simulation they do. In a
    #: topology each source has its own router, and guarantees for all sources hold only for each alone.
    shared: bool = False
    #: Whether a key is at one worker at a time, the same for every source (``owners``), until a plan moves it.
    migrates_keys: ClassVar[bool] = False
    #: Whether a worker passes on a waiting tuple if its key has another owner when its turn comes.
    forwards: ClassVar[bool] = False

    def __init__(self, workers: int, *, seed: int = 0) -> None:
        self.workers = check_integer("workers", workers, 1, held=2**31 - 1)
        self.seed = check_integer("seed", seed, held=None)
        #: The number of the newest adopted plan, or 0.
        self.plan = 0

    def route(
        self, keys: KeyArray, times: ArrayLike | None = None, costs: ArrayLike | None = None
    ) -> NDArray[np.int32]:
        """Route a batch of n tuples in order, and update the state.

        Parameters
        ----------
        keys : array of n keys
            Arrow, NumPy, a sequence, or ``Keys`` already encoded.
        times : int64, scalar or [n], ms
            When each tuple arrived, or the time of the whole batch. Schemes that don't use time ignore it.
        costs : float64, scalar or [n], ms
            Each tuple's cost, from 0 to 1e100, for schemes that use it.

        Returns
        -------
        int32[n]
            The worker of each tuple.

        Raises
        ------
        ValueError
            ``times`` or ``costs`` are needed and missing, or not as long as ``keys``, or a cost is negative, above
            1e100 or not a number. Nothing is routed.

        """
        require_keys(keys)
        n = len(keys)
        encoded = encode_keys(keys) if self.uses_keys else make_null_keys(n)
        return self._route(
            encoded,
            self._column("times", times, n, np.int64) if self.uses_time else None,
            self._column("costs", costs, n, np.float64) if self.uses_cost else None,
        )

    def _column(self, what: str, values: ArrayLike | None, n: int, dtype: type) -> NDArray[Any]:
        if values is None:
            raise ValueError(f"{self.name} needs {what}: give a number for the whole batch or an array of {n}")
        try:
            array = np.asarray(values, dtype=dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"{what} can't be taken as {dtype.__name__} ({error}); valid: a number or {n}") from None
        if array.ndim and array.shape != (n,):
            raise ValueError(f"{what} has shape {array.shape} for {n} keys; valid: a number or shape ({n},)")
        if what == "costs":
            check_costs(array)
        # Always contiguous and read-only, so that each kernel is compiled for one type of argument.
        column = np.ascontiguousarray(np.broadcast_to(array, (n,))).view()
        column.flags.writeable = False
        return column

    @abstractmethod
    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        """The scheme's routing; ``times`` and ``costs`` are there (read-only, [n]) if it uses them."""

    def at_source(self, source: int) -> Self:
        """Set a new router's source, an integer from 0 on, and return the router.

        Some schemes differ between sources.

        But a key's candidates are the same at every source.
        """
        return self

    def fit(self, keys: KeyArray) -> None:
        """Give an offline scheme the tuples to come, before the first one is routed. Other schemes ignore it."""
        return

    def owners(self, keys: Keys) -> NDArray[np.int32] | None:
        """The present worker of each distinct key: int32[k]. None if the scheme splits keys or can't say."""
        return None

    def moving_keys(self, other: "Grouping", most: int | None = None) -> NDArray[np.uint64] | None:
        """The hashes of keys whose owner differs between this router's plan and another's: uint64, ascending.

        The list is exact over all possible keys. If there is none, or more than ``most`` keys would have to be checked,
        the answer is None: then compare each key's ``owners``.
        """
        return None

    def adopt(self, plan: Plan) -> bool:
        """Adopt a controller's plan (see ``unskew.grouping.feedback``), between two calls of ``route``.

        A plan without values changes only the router's plan number.

        Returns
        -------
        bool
            False, without a change, if the plan isn't newer than the router's.

        Raises
        ------
        ValueError
            The plan is for other routers (scheme, W, seed, parameters), or the scheme has no plans.

        """
        if plan.identity != self._identity():
            raise ValueError(f"plan {plan.number} is for ({plan.identity}), this is ({self._identity()})")
        if plan.number <= self.plan:
            return False
        if plan.values:
            self._adopt(plan.values, missed=plan.base != self.plan)
        self.plan = plan.number
        return True

    @property
    def identity(self) -> str:
        """Scheme, W, seed and parameters. The router refuses states and plans of another identity."""
        return self._identity()

    def _adopt(self, values: Mapping[str, Any], *, missed: bool) -> None:
        """Adopt a plan's values; ``missed``: the router hasn't adopted the plan that this one changes."""
        raise ValueError(f"{self.name} takes no plans")

    def internals(self) -> Mapping[str, Any]:
        """The scheme's figures for display: JSON values, with lists of bounded length."""
        return {}

    def report(self) -> Mapping[str, Value] | None:
        """The source's report to the controller about the tuples since the last report, if any."""
        return None

    def monitor(self) -> "Monitor | None":
        """A new monitor for one worker, or None if the scheme doesn't observe workers."""
        return None

    def controller(self) -> "Controller | None":
        """The router's controller, or None if the scheme has no feedback."""
        return None

    def _state(self) -> dict[str, Value]:
        return super()._state() | ({"plan": self.plan} if self.plan else {})

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.plan = state.get("plan", 0)
        super()._restore(state)

    def _identity(self) -> str:
        """See ``identity``. Schemes add the parameters that shape their state and plans."""
        return f"{self.name} workers={self.workers} seed={self.seed}"
