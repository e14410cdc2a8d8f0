"""What each committed batch took, and when: read from the checkpoint while the run goes on."""

import posixpath
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

import orjson

from unskew.apps.checkpoint.versions import Versions


class BatchLog:
    """The batches that have been committed.

    Spark keeps a hundred of its logs' entries, so it has to be asked now and then.

    Parameters
    ----------
    checkpoint : Path
        The run's.
    topic : str
        The source.

    """

    def __init__(self, checkpoint: Path, topic: str) -> None:
        self._checkpoint, self._topic = checkpoint, topic
        self._next = 0
        self._ends: dict[int, list[int]] = defaultdict(list)  # partition → ends of the batches, ascending
        self._times: dict[int, list[int]] = defaultdict(list)  # …and their times

    def follow(self) -> None:
        """Read what is new.

        Raises
        ------
        FileNotFoundError
            An entry was removed before it was read.

        """
        while (self._checkpoint / "commits" / str(self._next)).exists():
            _, metadata, offsets, *_ = (self._checkpoint / "offsets" / str(self._next)).read_text().splitlines()
            clock = Versions(posixpath.join(str(self._checkpoint), "unskew", "clock")).newest(self._next)
            ahead = int(clock[1]) if clock else 0
            time_ms = orjson.loads(metadata)["batchTimestampMs"] + ahead
            for partition, end in orjson.loads(offsets)[self._topic].items():
                ends = self._ends[int(partition)]
                if end > (ends[-1] if ends else 0):
                    ends.append(end)
                    self._times[int(partition)].append(time_ms)
            self._next += 1

    @property
    def committed(self) -> int:
        """How many there are."""
        return self._next

    def time_of(self, partition: int, offset: int) -> int | None:
        """The time (ms) of the batch that took a message; None: none did."""
        ends = self._ends[partition]
        at = bisect_right(ends, offset)
        return self._times[partition][at] if at < len(ends) else None
