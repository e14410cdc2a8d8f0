"""The choice of each record's partition: an even spread, or the choice of a grouping."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.errors import UsageError
from unskew.grouping.interface import Grouping
from unskew.producers.dataset import Block


class Partitioner(ABC):
    """The choice of the records' partitions. It depends only on the records so far, so it can be repeated.

    Attributes
    ----------
    partitions : int
        The number of partitions.
    keyed : bool
        Whether records are sent with their keys.
    rule : str
        A name of the choice. An upload can only be resumed with the same one.

    """

    partitions: int
    keyed: ClassVar[bool] = False
    rule: str

    @abstractmethod
    def choose(self, block: Block, position: int) -> NDArray[np.int32]:
        """The partition of each record of the block, int32[n]. The block begins at ``position`` in the dataset.

        Blocks come in order, without gaps.
        """

    def resume(self, there: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """Where an upload begins again if partition p has the first ``there[p]`` of its records, int64[P].

        Returns
        -------
        position : int
            The position of the first record, for a partitioner that has chosen nothing yet.
        skip : int64[P]
            How many of each partition's records from this position on are there already.

        """
        return 0, there


class Spread(Partitioner):
    """Record i goes to partition i mod P: the spread is even, and every partition sees the stream in its order."""

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
    """The partition that a grouping chooses for the record's key. Its W workers are the topic's partitions.

    Records then carry their keys. The consumers of a group, one for each partition, share the load as the scheme
    balances it, without Spark. If the scheme splits a hot key over several consumers, their partial results must be
    merged.

    If a message has several keys, the first one counts. Messages without a key are routed as the empty key. Schemes
    that use times get the records' times, and schemes that use costs get the messages' counts.

    Parameters
    ----------
    router : Grouping
        A new one with as many workers as the topic has partitions (``unskew.grouping.standalone`` makes it). It must
        need no feedback, because consumers send none.

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
