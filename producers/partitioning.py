"""The choice of each record's partition: an even spread, or a grouping's."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.errors import UsageError
from unskew.grouping.interface import Grouping
from unskew.producers.dataset import Block


class Partitioner(ABC):
    """The choice of the records' partitions by the records so far and nothing else: a resumed upload chooses the same.

    Attributes
    ----------
    partitions : int
        How many there are.
    keyed : bool
        Whether records are sent with their keys.
    rule : str
        A name of the choice: an upload must be resumed with the same one.

    """

    partitions: int
    keyed: ClassVar[bool] = False
    rule: str

    @abstractmethod
    def choose(self, block: Block, position: int) -> NDArray[np.int32]:
        """The partition of each record of the block that begins at this position, int32[n], each below ``partitions``.

        Blocks come in order, without gaps.
        """

    def resume(self, there: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """Where an upload must begin again if partition p has the first ``there[p]`` of its records, int64[P].

        Returns
        -------
        position : int
            Begin here, with a partitioner that has chosen nothing yet.
        skip : int64[P]
            Of the records from this position on, the first so many of each partition are there.

        """
        return 0, there


class Spread(Partitioner):
    """Record i to partition i mod P: as even as can be, and every partition sees the stream at its own pace."""

    rule = "an even spread"

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def choose(self, block: Block, position: int) -> NDArray[np.int32]:
        return ((position + np.arange(len(block))) % self.partitions).astype(np.int32)

    def resume(self, there: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        # All records before this round are there. From it on, the last record that is there is read of each partition,
        # so that it can be compared.
        rounds = max(int(there.min()) - 1, 0)
        return rounds * self.partitions, there - rounds


class ByGrouping(Partitioner):
    """The partition that a grouping chooses for the record's key: its W workers are the topic's partitions.

    Records then carry their keys, and the consumers of a group, a partition each, share the load as the scheme balances
    it, without Spark. A hot key is split over several consumers, and somebody has to merge their partial results.

    Of several keys in a message the first one counts; messages without a key go where the empty key goes. Schemes that
    use times get the records' own, schemes that use costs get the messages' counts.

    Parameters
    ----------
    router : Grouping
        New, with as many workers as the topic has partitions, and not in need of feedback: consumers tell a producer
        nothing (``unskew.grouping.standalone`` makes it).

    """

    keyed = True

    def __init__(self, router: Grouping) -> None:
        self._router = router
        self.partitions = router.workers
        self.rule = f"--grouping {router.name} --seed {router.seed}"

    def choose(self, block: Block, position: int) -> NDArray[np.int32]:
        if self._router.uses_time and block.times is None:
            raise UsageError(f"{self._router.name} goes by time, and these records have none")
        costs = np.ones(len(block))
        if block.counts is not None:
            owners = np.arange(len(block)) if block.owners is None else block.owners
            costs = np.bincount(owners, block.counts, len(block))
        return self._router.route(block.first_keys(), block.times, costs)
