"""The schemas that a stream's batches can't use, and why. Within a batch the first answer holds."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.folders import list_numbers as numbers_in
from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.versions import Versions

# Most missing schemas that are asked for, in a batch and a Kafka partition. A producer may name any number of them.
_LACKING = 100


@dataclass(frozen=True)
class SchemaRefusals:
    """The schemas that a stream's batches have to do without, and why: beside the checkpoint, by Kafka partition.

    A schema that the registry doesn't have now may be there a moment later. A message that is rejected for it must not
    be counted too, neither by the task's next attempt nor by a replay of the batch. Other tasks read the rejected
    messages, and must reject the same ones as the router's task. So that task writes down what it refuses before it
    rejects a message. All tasks that read these messages in this batch follow it.

    ``batch`` returns the number of the batch that the calling task belongs to. None outside of a stream.
    """

    where: Where
    batch: Callable[[], int | None]

    def read(self, partition: int) -> "BatchRefusals":
        """What the calling task's batch refuses in a Kafka partition."""
        batch = self.batch()
        found = self._versions(partition).at(batch) if batch is not None else None
        return BatchRefusals.of(found) if found is not None else BatchRefusals()

    def write(self, partition: int, refused: "BatchRefusals") -> None:
        """Replace what the calling task's batch refuses in a Kafka partition."""
        batch = self.batch()
        if batch is not None:
            self._versions(partition).write(batch, refused.data())

    def filter_allowed(self, numbers: set[int]) -> set[int]:
        """Those of the numbers that no batch which may be replayed refuses: no partition's newest one with refusals."""
        planned, partitions = Checkpoint(self.where).newest_batch(), numbers_in(self._location().folder())
        found = [self._versions(partition).last(planned) for partition in partitions]
        batches = [BatchRefusals.of(each[1]) for each in found if each]
        return {number for number in numbers if not any(batch.why(number) for batch in batches)}

    def _versions(self, partition: int) -> Versions:
        return Versions(self._location().below(str(partition)))

    def _location(self) -> Location:
        return Location.of(self.where).below("unskew", "schemas")


@dataclass
class BatchRefusals:
    """What a batch refuses in a Kafka partition.

    With ``_LACKING`` reasons it is full: the registry isn't asked about further schemas. What the task knows at that
    moment stays allowed, and all else is refused. So the record doesn't grow with the numbers that producers name.

    """

    reasons: dict[int, str] = field(default_factory=dict)  #: A schema's number → why it is refused.
    #: If it is full, the numbers of the schemas that the task knew at that moment. None: it isn't.
    allowed: set[int] | None = None

    @classmethod
    def of(cls, data: bytes) -> Self:
        """What ``data`` returned."""
        read = json.loads(data)
        allowed = read.pop("allowed", None)
        return cls({int(number): why for number, why in read.items()}, None if allowed is None else set(allowed))

    def data(self) -> bytes:
        """The JSON of a checkpoint: an object of number → why, and of ``allowed`` if it is full."""
        allowed = {} if self.allowed is None else {"allowed": sorted(self.allowed)}
        return json.dumps({**self.reasons, **allowed}).encode()

    def add(self, number: int, why: str, known: Callable[[], set[int]]) -> None:
        """Refuse one more. ``known`` returns the numbers of the schemas that the task knows."""
        self.reasons[number] = why
        if self.allowed is None and len(self.reasons) >= _LACKING:
            self.allowed = known()

    def why(self, number: int) -> str | None:
        """Why a schema is refused. None: it isn't, or the registry has to be asked."""
        if number in self.reasons or self.allowed is None or number in self.allowed:
            return self.reasons.get(number)
        return f"schema {number} wasn't asked for: the registry lacks {_LACKING} others of this batch"
