"""The pace of an upload: as fast as it can, at a rate, or at the records' own times."""

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from unskew.errors import UsageError
from unskew.producers.datasets.interface import Block


class Pace:
    """The base class, and the fastest pace: as fast as the broker takes the records."""

    def pieces(self, block: Block, sent: int) -> Iterator[tuple[int, float]]:
        """Where to cut the next records of an upload, of which ``sent`` come before them, and when each piece is due.

        Yields the end of each piece, and the earliest time to send it, in seconds after the beginning of the upload.
        """
        yield len(block), 0.0


class Rate(Pace):
    """At most so many records a second, above 0."""

    beat: ClassVar[float] = 0.05  #: Seconds between pieces: short, so that the stream flows evenly.

    def __init__(self, rate: float) -> None:
        if not 0 < rate < math.inf:
            raise ValueError(f"rate is {rate:g}; valid: above 0 (records a second)")
        self.rate = rate

    def pieces(self, block: Block, sent: int) -> Iterator[tuple[int, float]]:
        step = max(1, int(self.rate * self.beat))
        for start in range(0, len(block), step):
            yield min(start + step, len(block)), (sent + start) / self.rate


class Replay(Pace):
    """Send records at their own times, faster or slower by a factor above 0. With 60, an hour takes a minute.

    Records that are out of order are sent in the dataset's order: none is sent before a record that precedes it there.
    """

    def __init__(self, speedup: float = 1.0) -> None:
        if not 0 < speedup < math.inf:
            raise ValueError(f"speedup is {speedup:g}; valid: above 0")
        self.speedup = speedup
        self._begin: int | None = None
        self._reached = 0.0

    def pieces(self, block: Block, sent: int) -> Iterator[tuple[int, float]]:
        if block.times is None:
            raise UsageError("these records have no times to be sent at: --speedup can't be used with them, --rate can")
        if not len(block):
            return
        if self._begin is None:
            self._begin = int(block.times[0])
        due = np.maximum.accumulate((block.times - self._begin) / 1000 / self.speedup)
        due = np.maximum(due, self._reached)
        self._reached = float(due[-1])
        beats = (due / Rate.beat).astype(np.int64)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(beats)) + 1])
        for start, stop in zip(starts, [*starts[1:], len(block)], strict=True):
            yield int(stop), float(due[start])
