"""What a planner needs of a scheme that plans each batch before it is routed."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unskew.grouping.interface import Costs, Grouping, Times
from unskew.grouping.keys import KeyArray, Keys, encode_keys
from unskew.grouping.planned.counts import SourceCounts
from unskew.grouping.planned.quotas import Quotas


class BatchGrouping(Grouping):
    """A scheme that counts a batch, plans it, and then routes it.

    Each source counts its part of the batch. One router, the planner's, divides what all of them have counted. Each
    source then follows its quotas. Sources may come one after the other, in waves.

    Guarantees, for every such scheme
    ---------------------------------
    * ``count`` and ``follow`` change nothing. So a source may count with a router that has loaded what ``for_sources``
      of the planner's gave, and follow its quotas with any router of the same identity.
    * ``follow`` gives each tuple a worker, and a source may give its tuples in another order than that in which it has
      counted them. Each worker gets as many of each key's tuples in both orders, if tuples are counted.
    * Between any two calls the planner's router may be saved, and restored in another process.
    * ``added`` and what is divided of a batch are part of the state.

    """

    batched: ClassVar[bool] = True

    #: How many replicas the batch has added, in all its waves so far. A key that moves whole gets one.
    added: int

    @property
    @abstractmethod
    def split_count(self) -> int:
        """How many keys, or groups of keys that are counted together, have several remembered replicas."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a batch: no source's part of it is divided yet."""

    def for_sources(self) -> bytes:
        """What a new router must ``load`` to count as this one does. It may be less than ``save`` gives."""
        return self.save()

    @abstractmethod
    def count(self, keys: KeyArray, costs: ArrayLike | None = None) -> SourceCounts:
        """Count one source's part of a batch.

        Parameters
        ----------
        keys, costs
            As for ``route``.

        """

    @abstractmethod
    def wave(self, counts: Sequence[SourceCounts]) -> list[Quotas]:
        """Divide a part of a batch that began with ``begin``: that of some of its sources.

        Parameters
        ----------
        counts : sequence of SourceCounts
            The counts of these sources, made by a router with the replicas that this one has now.

        Returns
        -------
        list of Quotas
            The quotas of each of these sources, in the same order.

        """

    @abstractmethod
    def follow(self, keys: KeyArray, quotas: Quotas, costs: ArrayLike | None = None) -> NDArray[np.int32]:
        """Route a source's part of a batch by its quotas.

        Parameters
        ----------
        keys, costs
            The same tuples that the source has counted, in any order.
        quotas : Quotas
            The quotas that ``divide`` or ``wave`` gave for the source.

        Returns
        -------
        int32[n]
            The worker of each tuple.

        """

    def divide(self, counts: Sequence[SourceCounts]) -> list[Quotas]:
        """Divide a batch between the workers, and remember where its keys are.

        Parameters
        ----------
        counts : sequence of SourceCounts
            The counts of all sources that have a part of the batch, made by a router with the same replicas.

        Returns
        -------
        list of Quotas
            The quotas of each source, in the same order.

        """
        self.begin()
        return self.wave(counts)

    def route_together(
        self, parts: Sequence[KeyArray], costs: Sequence[ArrayLike | None] | None = None
    ) -> list[NDArray[np.int32]]:
        """Route a batch that several sources share, if all of it is available here: count, divide and follow.

        Parameters
        ----------
        parts : sequence of keys
            Each source's part, as for ``route``.
        costs : sequence, optional
            Each source's costs, as for ``route``.

        Returns
        -------
        list of int32[n]
            For each source, the worker of each of its tuples.

        """
        encoded = [encode_keys(part) for part in parts]
        given = [None] * len(encoded) if costs is None else costs
        counts = [self.count(keys, of) for keys, of in zip(encoded, given, strict=True)]
        quotas = self.divide(counts)
        return [self.follow(keys, own, of) for keys, own, of in zip(encoded, quotas, given, strict=True)]

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        return self.route_together([keys], [costs])[0] if len(keys) else np.empty(0, np.int32)
