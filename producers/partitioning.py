"""The choice of each record's partition: an even spread, or the choice of a grouping."""

from abc import ABC, abstractmethod
from threading import Lock
from time import time as clock
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.errors import UsageError
from unskew.grouping import Grouping, create_standalone, encode_keys
from unskew.grouping.keys import KeyArray
from unskew.producers.datasets.interface import Block


class Placement(ABC):
    """The choice of an upload's partitions. It depends only on the records so far, so it can be repeated."""

    partitions: int  #: The number of partitions.
    keyed: ClassVar[bool] = False  #: Whether records are sent with their keys.
    rule: str  #: A name of the choice. An upload can only be resumed with the same one.

    @abstractmethod
    def choose(self, block: Block, position: int) -> NDArray[np.int32]:
        """The partition of each record of the block, int32[n]. The block begins at ``position`` in the dataset.

        Blocks come in order, without gaps.
        """

    def resume(self, there: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """Where an upload begins again if partition p has the first ``there[p]`` of its records, int64[P].

        That is the position of the first record, for a placement that has chosen nothing yet, and how many of each
        partition's records from there on are there already.
        """
        return 0, there


class RoundRobinPlacement(Placement):
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


class Partitioner(Placement):
    """The partition that a grouping chooses for a record's key. Its W workers are the topic's partitions.

    Use it in a Kafka producer, such as confluent-kafka's, so that the consumers of a group, one for each partition,
    share the load evenly without Spark. If the scheme splits a hot key over several consumers, merge their partial
    results; the key's records are in order only within each partition.

    Make a partitioner in each producer, with the same seed, so that a key has the same candidates at all of them. Give
    BOUNDED_LOAD the number of producers as ``sources``. After a producer's restart, a key may go to another of its
    candidates, except with KEY. Threads may share a partitioner.

    Parameters
    ----------
    grouping : str
        One that needs no feedback (``unskew.grouping.registry.STANDALONE``), because consumers send none. It may need
        each record's cost.
    partitions : int
        P ≥ 1: the number of the topic's partitions. If the topic gets more, make a new partitioner.
    seed : int
        The scheme's seed.
    options
        The scheme's own parameters (``unskew.grouping.get_parameters`` lists them).

    Raises
    ------
    UsageError
        The grouping is unknown or needs feedback, or a parameter or the number of partitions is invalid.

    Notes
    -----
    ``route`` of many keys takes a small part of the time that ``partition`` takes for each. PLANNED plans the keys of a
    call together, so use only ``route`` with it.

    Examples
    --------
    KEY sends all records of a key to one partition, PARTIAL_KEY to two:

    >>> key, partial = Partitioner("KEY", partitions=4), Partitioner("PARTIAL_KEY", partitions=4)
    >>> [key("tr") for _ in range(6)], [partial("tr") for _ in range(6)]
    ([3, 3, 3, 3, 3, 3], [3, 1, 3, 1, 3, 1])

    With a producer:

    >>> p = Partitioner("PARTIAL_KEY", partitions=12)
    >>> producer.produce("events", value, key=user, partition=p(user))  # doctest: +SKIP

    """

    keyed = True

    def __init__(self, grouping: str, partitions: int, *, seed: int = 0, **options: Any) -> None:
        #: Its state is a value (``save``, ``load``).
        self.router: Grouping = create_standalone(grouping, partitions, seed=seed, costs=True, **options)
        self.partitions = self.router.workers
        self.rule = f"--grouping {self.router.name} --seed {seed}"
        self._lock = Lock()

    def partition(self, key: str | bytes | int | None, *, time: int | None = None, cost: float = 1.0) -> int:
        """The partition of the next record, in [0, P). A call is short for this method.

        Parameters
        ----------
        key : str, bytes, int or None
            The record's key. Equal text is one key as ``str`` and as ``bytes``. None is a key of its own.
        time : int, ms
            The record's time, for schemes that use it. Default: the clock's.
        cost : float
            What the record costs its consumer, for schemes that use it, in any unit.

        Raises
        ------
        UsageError
            The key has another type.

        """
        return int(self.route([key], time, cost)[0])

    __call__ = partition

    def route(self, keys: KeyArray, times: ArrayLike | None = None, costs: ArrayLike = 1.0) -> NDArray[np.int32]:
        """The partitions of the next n records in their order, int32[n].

        Parameters
        ----------
        keys : array of n keys
            Arrow, NumPy, or a sequence: strings, bytes, integers. Null is a key of its own.
        times : int64, scalar or [n], ms
            The records' times, for schemes that use them. Default: the clock's.
        costs : float64, scalar or [n]
            What each record costs its consumer, for schemes that use it, in any unit.

        Raises
        ------
        UsageError
            The keys have another type.
        ValueError
            ``times`` or ``costs`` has another length.

        """
        try:
            encoded = encode_keys(keys)
        except (TypeError, OverflowError, pa.ArrowInvalid) as error:
            wrong = str(error).partition("; valid")[0]
            raise UsageError(f"no keys of a record: {wrong}; valid: str, bytes, integers of 64 bits, None") from error
        with self._lock:
            return self.router.route(encoded, round(clock() * 1000) if times is None else times, costs)

    def choose(self, block: Block, position: int) -> NDArray[np.int32]:
        """By the first key of each record. Schemes that use times get the records' times, schemes that use costs the
        records' counts.
        """
        if self.router.uses_time and block.times is None:
            raise UsageError(f"{self.router.name} goes by time, and these records have none")
        costs = np.ones(len(block))
        if block.counts is not None:
            owners = np.arange(len(block)) if block.owners is None else block.owners
            costs = np.bincount(owners, block.counts, len(block))
        return self.route(block.first_keys(), block.times, costs)
