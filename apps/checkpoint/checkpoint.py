"""A query's checkpoint: the batches that Spark has logged in it, the run that it belongs to, and the run's workers.

Runs with other numbers of workers may follow each other on one checkpoint. So it has a ``WorkerHistory``.
"""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import orjson

from unskew.apps.checkpoint.folders import find_partials, find_unlisted, list_numbers
from unskew.apps.checkpoint.location import Location, Where
from unskew.apps.checkpoint.versions import BatchClock
from unskew.errors import EnvironmentFault, UsageError

#: The format of all that is written beside a checkpoint. A checkpoint of another format is refused.
FORMAT = 3
#: The record of the run, below the checkpoint's location.
RECORD = ("unskew", "run.json")
#: The record's entry of results: their topic (``of``), and the ``number`` of their generation there.
GENERATION = "generation"
#: The record's entry of what its batches publish exactly once: the ``id`` of the topic with the batches' numbers, and
#: the number of ``parts`` of each role.
COMMITS = "commits"


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch as it was planned, before it runs. A replay has the same plan."""

    number: int  #: The batch's number, from 0.
    time_ms: int  #: The batch's time: Spark's timestamp of the batch, plus the checkpoint's ``BatchClock``.
    watermark_ms: int  #: This batch closes the windows that end at or before this time.
    #: Rows of windows that end at or before this time are too late for this batch. It is the previous batch's
    #: watermark.
    late_before_ms: int
    #: Kafka offsets from which (inclusive) and to which (exclusive) the batch reads: topic → partition → offset. A
    #: partition that the topic got since the previous batch begins at 0.
    start: Mapping[str, Mapping[str, int]]
    end: Mapping[str, Mapping[str, int]]
    planned_ms: int = 0  #: Spark's timestamp of the batch. Two plans of the same number have different ones.


class Checkpoint:
    """A query's checkpoint location: Spark's own logs, which are only read, and our files beside them.

    Raises ``UsageError`` if the address is of no kind that a checkpoint can have.
    """

    def __init__(self, where: Where) -> None:
        self.location = Location.of(where)
        self._own = self.location.folder(*RECORD[:-1])
        self._entries: dict[int, list[str]] = {}

    @cached_property
    def clock(self) -> BatchClock:
        """The batch time's lead over the clock."""
        return BatchClock(self.location, self.newest_batch())

    def check(self, run: Mapping[str, object], changing: Collection[str] = ()) -> dict[str, Any]:
        """Refuse a checkpoint that belongs to another run, and return the record of this run as ``claim`` writes it.

        ``run`` has the fields that distinguish the run from others. A field that only one of the two runs has is no
        reason to refuse. The returned record has the fields of both, and of the fields that may differ (``changing``)
        this run's values.

        Raises ``UsageError`` if the checkpoint belongs to a run of another grouping, worker count, source, …, or has
        another format; ``EnvironmentFault`` if the record can't be read.
        """
        given = orjson.loads(orjson.dumps({"format": FORMAT, **run}))
        found = self.read_record()
        if found and found.get("format") != FORMAT:
            raise UsageError(
                f"the checkpoint {self.location} has format {found.get('format')}; valid: {FORMAT}: "
                "use the version that made it, or another --checkpoint"
            )
        for name in sorted(given.keys() & found.keys() - {"format", *changing}):
            if given[name] != found[name]:
                raise UsageError(
                    f"the checkpoint {self.location} belongs to a run with {name} {found[name]!r}, this one has "
                    f"{given[name]!r}: give the same, or another --checkpoint"
                )
        return found | given

    def claim(self, run: Mapping[str, object], changing: Collection[str] = ()) -> None:
        """Record the run that this checkpoint belongs to. As ``check`` does, refuse the checkpoint of another run.

        Raises ``EnvironmentFault`` if the record can't be written.
        """

        def record() -> bytes:
            return orjson.dumps(self.check(run, changing), option=orjson.OPT_INDENT_2)

        if not self.read_record() and self._own.create(RECORD[-1], record()):
            return
        # Another run may have been faster. An unchanged record is written too, so that the user learns now whether the
        # location is writable.
        self._own.write(RECORD[-1], record())

    def tidy(self) -> None:
        """Remove the incomplete files that killed drivers have left. Only the driver that holds the checkpoint may."""
        for left in find_partials(self._own.names()):
            self._own.remove(left)

    def require_writable(self) -> None:
        """Check that the checkpoint can be written, with an empty file.

        Raises ``EnvironmentFault`` if it can't be written.
        """
        name = f"writable-{uuid.uuid4().hex}"
        self._own.write(name, b"")
        self._own.remove(name)

    def read_record(self) -> dict[str, Any]:
        """The record of the run that the checkpoint belongs to. Empty: there is none yet."""
        try:
            return orjson.loads(self._own.read(RECORD[-1]))
        except FileNotFoundError:
            return {}
        except orjson.JSONDecodeError as error:
            record = self.location.below(*RECORD)
            raise EnvironmentFault(f"{record} names the run of the checkpoint, but can't be read ({error})") from error

    def batch(self, number: int) -> Batch:
        """A batch that has started, as it was planned. Spark keeps the logs of the newest batches only."""
        before = self._entries.get(number - 1) or (self._log("offsets", number - 1) if number else None)
        this = self._log("offsets", number)
        self._entries = {number: this}  # an entry of the log never changes
        # Line 1 is a version, line 2 the batch's metadata, then one line a source, Kafka's first.
        metadata = orjson.loads(this[1])
        start = orjson.loads(before[2] if before else self._log("sources/0", 0)[1])
        end = orjson.loads(this[2])
        return Batch(
            number,
            metadata["batchTimestampMs"] + self.clock.ahead_ms,
            metadata["batchWatermarkMs"],
            orjson.loads(before[1])["batchWatermarkMs"] if before else 0,
            {topic: dict.fromkeys(ends, 0) | start.get(topic, {}) for topic, ends in end.items()},
            end,
            metadata["batchTimestampMs"],
        )

    def planned_ms(self, number: int) -> int:
        """When a batch that has started was planned (ms), as ``Batch`` has it, whatever the query's sources.

        Raises ``FileNotFoundError`` if no such batch was planned, or Spark has removed its entry.
        """
        return int(orjson.loads(self._log("offsets", number)[1])["batchTimestampMs"])

    def newest_batch(self) -> int:
        """The number of the newest batch that was planned, or 0."""
        return self._newest("offsets") or 0

    def next_batch(self) -> int:
        """The number of the batch that runs next: one that was planned and isn't committed, or a new one."""
        new = self.first_unplanned()
        return new if self._newest("commits") == new - 1 else max(0, new - 1)

    def first_unplanned(self) -> int:
        """The number of the first batch that is not planned yet."""
        newest = self._newest("offsets")
        return 0 if newest is None else newest + 1

    def next_offsets(self) -> Mapping[str, Mapping[str, int]]:
        """The Kafka offsets at which the query continues, topic → partition → offset. Empty before it has begun."""
        newest = self._newest("offsets")
        if newest is not None:
            batch = self.batch(newest)
            return batch.end if self._newest("commits") == newest else batch.start
        return orjson.loads(self._log("sources/0", 0)[1]) if self._newest("sources/0") == 0 else {}

    def partitions(self) -> int | None:
        """The number of partitions of the query's state, fixed by the first planned batch. None: none was planned."""
        newest = self._newest("offsets")
        if newest is None:
            return None
        return int(orjson.loads(self._log("offsets", newest)[1])["conf"]["spark.sql.shuffle.partitions"])

    def _newest(self, log: str) -> int | None:
        """The number of the log's newest entry."""
        listed = list_numbers(self.location.folder(log))
        return max(listed + find_unlisted(max(listed, default=-1), lambda number: self._has(log, number)), default=None)

    def _has(self, log: str, number: int) -> bool:
        try:
            self.location.folder(log).read(str(number))
        except FileNotFoundError:
            return False
        return True

    def _log(self, log: str, number: int) -> list[str]:
        return self.location.folder(log).read(str(number)).lstrip(b"\0").decode().splitlines()


@dataclass(frozen=True)
class WorkerHistory:
    """The workers of all runs on a checkpoint."""

    first: int  #: W of the run that made the checkpoint. It determines the number of mergers in all runs.
    #: The highest W so far. A worker that the newest run no longer has may still have states, until their window
    #: closes. So Spark calls every worker that any run on this checkpoint had.
    most: int

    @classmethod
    def of(cls, claimed: Mapping[str, Any], workers: int) -> Self:
        """The history of a checkpoint with this record (``Checkpoint.read_record``), including a run of W workers."""
        before = claimed.get("numWorkers", workers)
        return cls(claimed.get("firstWorkers", before), max(workers, claimed.get("mostWorkers", before)))

    @classmethod
    def at(cls, checkpoint: Where, workers: int) -> Self:
        """The history of the checkpoint at this location, including a run of W workers."""
        return cls.of(Checkpoint(checkpoint).read_record(), workers)

    def entries(self) -> dict[str, int]:
        """The entries of the checkpoint's record that ``of`` reads."""
        return {"firstWorkers": self.first, "mostWorkers": self.most}
