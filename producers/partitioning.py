"""Which partition a record goes to."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from producers.dataset import Block


class Partitioner(ABC):
    """The records' partitions, decided by the records so far and nothing else: a repeated load decides the same.

    Attributes
    ----------
    partitions : int
        How many there are.

    """

    partitions: int

    @abstractmethod
    def choose(self, block: Block, position: int) -> NDArray[np.int32]:
        """The partition of each record of the block that begins at this position, int32[n], each below ``partitions``.

        Blocks come in order, without gaps.
        """

    def resume(self, there: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """From where a load must be read again if each partition has so many of its first records, int64[P].

        Returns
        -------
        position : int
            Begin here, with a partitioner that has chosen nothing yet.
        skip : int64[P]
            Of the records from there on, so many of each partition's are there.

        """
        return 0, there


class Spread(Partitioner):
    """Record i to partition i mod P: as even as can be, and every partition sees the stream at its own pace."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def choose(self, block: Block, position: int) -> NDArray[np.int32]:
        return ((position + np.arange(len(block))) % self.partitions).astype(np.int32)

    def resume(self, there: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        # Before this round, all is there. From it on, of each partition at least the last one that is there is read:
        # it can be compared.
        rounds = max(int(there.min()) - 1, 0)
        return rounds * self.partitions, there - rounds
