"""The parts in which a checkpoint's batches are published exactly once: which they are, and how tasks write them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from unskew.apps.routing.batches import partition
from unskew.deploy.kafka.connection import Connection
from unskew.deploy.kafka.transactions import Number, Once, Part

_REJECTING = 4  # parts, at most: rejected messages are few


@dataclass(frozen=True)
class Commits:
    """The parts in which a checkpoint's batches are published exactly once, and the topic with their numbers.

    Whoever publishes for the checkpoint uses the same parts: a driver that goes on with it fences the one before.
    Another checkpoint has parts of its own, so its drivers and this one's don't touch each other.

    A batch that is run again must have the same records in the same part. The driver is a part of its own. Tasks are
    parts by their partition, after a ``repartition`` by the record's key to a given number of partitions. Spark divides
    rows by a hash of the key then, and adaptive execution merges no partitions whose number was given. (Without the
    number there would be ``spark.sql.shuffle.partitions``. A checkpoint fixes the partitions of the state only.)

    Parameters
    ----------
    connection : Connection
        The cluster.
    topic : str
        The topic with the numbers.
    parts : int
        How many tasks publish the aggregator's records of a batch, and as many those of results.
    keyed : bool
        Whether the run has results of a keyed work.

    """

    connection: Connection
    topic: str
    parts: int
    keyed: bool = False

    def of(self, role: str) -> int:
        """The number of parts of a role."""
        return {"distribution": 1, "rejected": min(self.parts, _REJECTING)}.get(role, self.parts)

    @property
    def partitions(self) -> int:
        """The number of partitions of the topic with the numbers: one for each part."""
        return sum(self.of(role) for role in self._roles)

    def part(self, role: str, number: int = 0) -> Part:
        """A part of a role, as this process has it."""
        if not 0 <= number < self.of(role):
            raise ValueError(f"part {number} of {role}; there are {self.of(role)}")
        before = self._roles[: self._roles.index(role)]
        return Part.of(self.connection, f"{self.topic}-{role}-{number}", self.topic, sum(map(self.of, before)) + number)

    @property
    def _roles(self) -> tuple[str, ...]:
        """The roles in the order of their partitions."""
        return ("distribution", "rejected", "aggregator", *(["results"] if self.keyed else []))


@dataclass(frozen=True)
class Writing:
    """What the tasks do that write records of a batch exactly once."""

    commits: Commits
    role: str
    topic: str
    number: Number

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Records go in, and nothing comes out. A task without records does nothing."""
        once: Once | None = None
        try:
            for batch in batches:
                if not batch.num_rows:
                    continue
                once = once or Once(self.commits.part(self.role, partition()), self.topic, self.number)
                pairs = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
                once.put([{"key": key, "value": value} for key, value in pairs])
            if once is not None:
                once.finish()
        except BaseException:
            if once is not None:
                once.abort()
            raise
        return
        yield  # an iterator, of nothing
