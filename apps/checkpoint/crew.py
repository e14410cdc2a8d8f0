"""How many workers a checkpoint has had: runs with more and with fewer may follow each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from unskew.apps.checkpoint.checkpoint import Checkpoint
from unskew.apps.checkpoint.place import Where


@dataclass(frozen=True)
class Crew:
    """The workers of all runs on a checkpoint.

    Attributes
    ----------
    first : int
        W of the run that made it: the homes of keys that are split are chosen by it, and stay.
    most : int
        The highest W so far. What a worker has that is no more leaves when its window closes, so all are called.

    """

    first: int
    most: int

    @classmethod
    def of(cls, claimed: Mapping[str, Any], workers: int) -> Self:
        """With a run of W workers on a checkpoint of which so much was noted (``Checkpoint.claimed``)."""
        before = claimed.get("numWorkers", workers)
        return cls(claimed.get("firstWorkers", before), max(workers, claimed.get("mostWorkers", before)))

    @classmethod
    def at(cls, checkpoint: Where, workers: int) -> Self:
        """With a run of W workers on the checkpoint at this location."""
        return cls.of(Checkpoint(checkpoint).claimed(), workers)

    def noted(self) -> dict[str, int]:
        """As ``of`` finds it noted."""
        return {"firstWorkers": self.first, "mostWorkers": self.most}
