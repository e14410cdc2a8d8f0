"""The interface of schemes that plan each batch before it is routed."""

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

    Each source counts its part of the batch. One router, the planner's, divides all counts. Each source then follows
    its quotas. Sources may come in several waves.

    Guarantees, for every such scheme
    ---------------------------------
    * ``count`` and ``follow`` change nothing. So a source may count with a router loaded from the planner's
      ``for_sources``, and follow its quotas with any router of the same identity.
    * In ``follow``, a source's tuples may have another order than in ``count``. If tuples are counted, each worker gets
      as many of each key's tuples in any order.
    * Between any two calls the planner's router may be saved, and restored in another process.
    * ``added`` and the divided parts of a batch belong to the state.

    """

    batched: ClassVar[bool] = True

    added: int  #: The replicas that the batch's waves have added so far, one for each key that moves whole.

    @property
    @abstractmethod
    def split_count(self) -> int:
        """The number of keys or buckets with several remembered replicas."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a batch."""

    def for_sources(self) -> bytes:
        """What a new router must ``load`` to count like this one, which may be less than ``save`` returns."""
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
        """Divide the parts of some sources of a batch, after ``begin``.

        Parameters
        ----------
        counts : sequence of SourceCounts
            These sources' counts, by a router with this one's present replicas.

        Returns
        -------
        list of Quotas
            These sources' quotas, in the same order.

        """

    @abstractmethod
    def follow(self, keys: KeyArray, quotas: Quotas, costs: ArrayLike | None = None) -> NDArray[np.int32]:
        """Route a source's part of a batch according to its quotas.

        Parameters
        ----------
        keys, costs
            The tuples that the source has counted, in any order.
        quotas : Quotas
            The source's quotas from ``divide`` or ``wave``.

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
            The counts of all sources of the batch, by a router with the same replicas.

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
        """Route a batch of several sources at once: count, divide and follow.

        Parameters
        ----------
        parts : sequence of keys
            Each source's part, as for ``route``.
        costs : sequence, optional
            Each source's costs, as for ``route``.

        Returns
        -------
        list of int32[n]
            The worker of each source's tuples.

        """
        encoded = [encode_keys(part) for part in parts]
        given = [None] * len(encoded) if costs is None else costs
        counts = [self.count(keys, of) for keys, of in zip(encoded, given, strict=True)]
        quotas = self.divide(counts)
        return [self.follow(keys, own, of) for keys, own, of in zip(encoded, quotas, given, strict=True)]

    def _route(self, keys: Keys, times: Times, costs: Costs) -> NDArray[np.int32]:
        return self.route_together([keys], [costs])[0] if len(keys) else np.empty(0, np.int32)
