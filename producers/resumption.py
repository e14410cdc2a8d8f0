"""Resumes an interrupted upload: its journal, and the records already in the topic.

The journal has little, because the topic itself shows how far the upload came. Each partition gets its records in
order, and delivery leaves no gap. The journal has the offset at which each partition ended when the upload began. So
the records from there on are the upload's first records for that partition.
"""

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from unskew.directories import data_directory
from unskew.errors import EnvironmentFault, UsageError
from unskew.kafka.connection import Connection
from unskew.kafka.reader import TopicReader
from unskew.kafka.topics import end_offsets, first_offsets
from unskew.producers.datasets.interface import Dataset
from unskew.producers.partitioning import Placement

_EVERY = 5.0  # seconds between two positions that a journal notes
_POSITIONS = 20  # that a journal keeps, the newest: missing records begin no further back than those under way
_PATIENCE = 10.0  # s
# Seconds: the last requests of a producer that was killed may still be on their way into the log.
_SETTLED = 1.0


class UploadJournal:
    """The file of an upload: the end of each partition when it began, and some positions in the dataset.

    By default the journals are in the project's data directory. Raises ``UsageError`` if the dataset can't be read a
    second time.
    """

    def __init__(self, topic: str, dataset: Dataset, directory: Path | None = None) -> None:
        identity = dataset.identity()
        if identity is None:
            raise UsageError("--resume needs files or generated records: standard input can't be read again")
        self._topic = topic
        self._identity = {"topic": topic, **identity}
        digest = hashlib.sha256(orjson.dumps(self._identity, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
        self._path = (directory or data_directory() / "loads") / f"{topic}-{digest}.json"
        self._dataset = dataset
        self._state: dict[str, Any] = {}
        self._noted = 0.0

    @property
    def start_offsets(self) -> list[int]:
        """The end offset of each partition when the upload began."""
        return self._state["begin"]

    @property
    def rule(self) -> str:
        """The ``rule`` of the placement that chose the records' partitions."""
        return self._state["rule"]

    @property
    def is_finished(self) -> bool:
        """Whether all records were delivered."""
        return bool(self._state.get("finished"))

    def load(self) -> bool:
        """Read the journal of an earlier upload of this dataset to this topic; False if there was none.

        Raises ``UsageError`` if the file can't be understood.
        """
        try:
            self._state = orjson.loads(self._path.read_bytes())
        except FileNotFoundError:
            return False
        except (OSError, orjson.JSONDecodeError) as error:
            raise UsageError(f"{self._path} can't be read ({error}); publish without --resume") from None
        return True

    def begin(self, offsets: Sequence[int], rule: str) -> None:
        """Begin the journal of a new upload: the end offset of each partition, and the placement's ``rule``."""
        self._state = {"load": self._identity, "begin": list(offsets), "rule": rule, "places": []}
        self._write()

    def note(self) -> None:
        """Note the dataset's position if the last note is some seconds old."""
        position = self._dataset.position()
        if position is None or time.monotonic() - self._noted < _EVERY:
            return
        self._noted = time.monotonic()
        self._state["places"].append(position)
        del self._state["places"][:-_POSITIONS]
        self._write()

    def recall(self, position: int) -> None:
        """Give the dataset the newest noted position at or before record ``position``."""
        known: list[Mapping[str, Any]] = [noted for noted in self._state["places"] if noted["position"] <= position]
        if known:
            self._dataset.recall(known[-1])

    def finish(self, records: int) -> None:
        """Note that all records of the dataset were delivered, and how many these are."""
        self._state |= {"finished": True, "records": records}
        self._write()

    def require_there(self, ends: Mapping[int, int]) -> None:
        """Look whether the topic can have all records of a finished upload. ``ends`` is partition → its end offset.

        Raises ``UsageError`` if it can't: the topic was made anew since.
        """
        there = [ends.get(partition, -1) - offset for partition, offset in enumerate(self.start_offsets)]
        if min(there) < 0 or sum(there) < self._state["records"]:
            raise UsageError(f"topic {self._topic} was made anew since this upload ended; publish without --resume")

    def _write(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            with new.open("wb") as file:
                file.write(orjson.dumps(self._state))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise EnvironmentFault(f"{self._path} can't be written: {error.strerror}") from None


class Resumption:
    """The records that a resumed upload leaves out, because the topic has them: of partition p, the next ``skip[p]``.

    The last of these must equal the partition's last message (``last``), if that is known.
    """

    def __init__(self, topic: str, skip: NDArray[np.int64], last: Mapping[int, bytes]) -> None:
        self._topic = topic
        self._skip = skip.copy()
        self._last = last

    @property
    def over(self) -> bool:
        """Whether all records that the topic has are left out."""
        return not self._skip.any()

    def missing(self, records: NDArray[np.object_], partitions: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which of the next records the topic doesn't have, bool[n]. ``partitions`` are the records' partitions.

        Raises ``UsageError`` if the topic's last message isn't the record that should be there.
        """
        missing = np.ones(len(records), np.bool_)
        for partition in np.flatnonzero(self._skip).tolist():
            there = np.flatnonzero(partitions == partition)[: self._skip[partition]]
            self._skip[partition] -= len(there)
            missing[there] = False
            if len(there) and not self._skip[partition] and partition in self._last:
                record: Any = records[there[-1]]
                self._check(partition, record["value"])
        return missing

    def _check(self, partition: int, value: bytes) -> None:
        if value != self._last[partition]:
            raise UsageError(
                f"topic {self._topic} has other records in partition {partition} than this upload's: "
                "somebody else has written to it since; publish without --resume, or into another topic"
            )


def begin_upload(
    connection: Connection, topic: str, placement: Placement, journal: UploadJournal, *, resume: bool
) -> tuple[int, Resumption | None]:
    """The position in the dataset at which an upload begins, and the records to leave out from there on.

    Raises
    ------
    UsageError
        The upload can't be resumed. Somebody is writing to the topic, the topic was made anew, or its partitions were
        chosen by another rule.

    """
    if not (resume and journal.load()):
        journal.begin(list(end_offsets(connection, topic, committed=False).values()), placement.rule)
        return 0, None
    if journal.rule != placement.rule:
        raise UsageError(
            f"this upload chose its partitions by {journal.rule}, not by {placement.rule}; resume it with the same"
        )
    ends = await_end_offsets(connection, topic)
    begun = dict(enumerate(journal.start_offsets))
    if begun.keys() != ends.keys() or any(ends[partition] < offset for partition, offset in begun.items()):
        raise UsageError(f"topic {topic} was made anew since this upload began; publish without --resume")
    there = np.array([ends[partition] - offset for partition, offset in begun.items()])
    start, skip = placement.resume(there)
    journal.recall(start)
    return start, Resumption(topic, skip, last_messages(connection, topic, ends))


def await_end_offsets(connection: Connection, topic: str) -> dict[int, int]:
    """The end offset of each partition, once the offsets have stopped growing.

    Raises ``UsageError`` if they don't stop: somebody is writing to the topic.
    """
    before = end_offsets(connection, topic, committed=False)
    for _ in range(int(_PATIENCE / _SETTLED)):
        time.sleep(_SETTLED)
        after = end_offsets(connection, topic, committed=False)
        if after == before:
            return after
        before = after
    raise UsageError(f"topic {topic} is being written to; an upload can't be resumed meanwhile")


def last_messages(connection: Connection, topic: str, ends: Mapping[int, int]) -> dict[int, bytes]:
    """The last message of each partition, if Kafka still has it."""
    first = first_offsets(connection, topic)
    last = {partition: end - 1 for partition, end in ends.items() if end > first[partition]}
    with TopicReader(connection, topic, last) as reader:
        return {message.partition() or 0: message.value() or b"" for message in reader.to_end()}
