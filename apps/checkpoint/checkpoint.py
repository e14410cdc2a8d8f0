"""What a query's checkpoint says of its batches, and whose checkpoint it is."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from unskew.apps.checkpoint.clock import Clock
from unskew.apps.checkpoint.folders import numbers
from unskew.apps.checkpoint.place import Place, Where
from unskew.errors import EnvironmentFault, UsageError

#: Of all that is written beside a checkpoint; raised when an older program could no longer read it.
FORMAT = 1
_RUN = "run.json"


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch as planned, before it runs: the same when it is replayed.

    Attributes
    ----------
    number : int
        The batch's number, 0 and up.
    time_ms : int
        The batch's time: Spark's timestamp of it, and what the checkpoint's ``Clock`` is ahead.
    watermark_ms : int
        Windows that end at or before this are given out by this batch.
    late_before_ms : int
        Rows of windows that end at or before this come too late for this batch (the watermark of the one before).
    start, end : dict
        Kafka offsets, topic → partition → offset: from (inclusive) and to (exclusive). A partition that the topic has
        only since this batch begins at 0.

    """

    number: int
    time_ms: int
    watermark_ms: int
    late_before_ms: int
    start: Mapping[str, Mapping[str, int]]
    end: Mapping[str, Mapping[str, int]]


class Checkpoint:
    """A checkpoint location: Spark's own logs (read only) and our files beside them.

    Attributes
    ----------
    place : Place
        Where it is.

    Parameters
    ----------
    where : str or Place
        The query's checkpoint location.

    Raises
    ------
    UsageError
        There are no checkpoints at such an address.

    """

    def __init__(self, where: Where) -> None:
        self.place = Place.of(where)
        self._own = self.place.folder("unskew")
        self._entries: dict[int, list[str]] = {}

    @cached_property
    def clock(self) -> Clock:
        """The batches' time."""
        return Clock(self.place)

    def check(self, run: Mapping[str, object], changing: Collection[str] = ()) -> dict[str, Any]:
        """Refuse a checkpoint that belongs to another run; what is to be noted of this one.

        What only one of them knows, as one of an older or newer version of this program does, is no difference; it is
        noted for the next time.

        Parameters
        ----------
        run : mapping
            What tells it from others.
        changing : collection of str
            What may differ all the same: the checkpoint goes on with what is given now.

        Raises
        ------
        UsageError
            The checkpoint was made by a run of another grouping, worker count, source, …, or in a later format.
        EnvironmentFault
            What was noted can't be read.

        """
        given = orjson.loads(orjson.dumps({"format": FORMAT, **run}))
        found = self.claimed()
        if found.get("format", FORMAT) > FORMAT:
            raise UsageError(
                f"the checkpoint {self.place} has format {found['format']}, this version reads {FORMAT} and before: "
                "use the version that made it, or another --checkpoint"
            )
        for name in sorted(given.keys() & found.keys() - {"format", *changing}):
            if given[name] != found[name]:
                raise UsageError(
                    f"the checkpoint {self.place} belongs to a run with {name} {found[name]!r}, this one has "
                    f"{given[name]!r}: give the same, or another --checkpoint"
                )
        return found | given

    def claim(self, run: Mapping[str, object], changing: Collection[str] = ()) -> None:
        """Note what run this checkpoint belongs to; as ``check``, refuse it to any other.

        Raises
        ------
        EnvironmentFault
            It can't be written there.

        """
        noted = orjson.dumps(self.check(run, changing), option=orjson.OPT_INDENT_2)
        self._own.write(_RUN, noted)  # though it may say so already: now is the time to know if it can't be

    def claimed(self) -> dict[str, Any]:
        """What was noted of the run that it belongs to; empty: nothing."""
        try:
            found = orjson.loads(self._own.read(_RUN))
        except FileNotFoundError:
            return {}
        except orjson.JSONDecodeError as error:
            said = self.place.below("unskew", _RUN)
            raise EnvironmentFault(f"{said} says whose checkpoint it is, but can't be read ({error})") from error
        if not isinstance(found.get("format", FORMAT), int):
            # By mistake a run of COLUMN once noted its messages' format under that name.
            found["messageFormat"] = found.pop("format")
        return found

    def batch(self, number: int) -> Batch:
        """What was planned for a batch that has started (the newest is enough; old ones are removed by Spark)."""
        before = self._entries.get(number - 1) or (self._log("offsets", number - 1) if number else None)
        this = self._log("offsets", number)
        self._entries = {number: this}  # what was planned stays planned
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
        )

    def planned(self) -> int:
        """The number of the newest batch that was planned; 0 before there is one."""
        return self._newest("offsets") or 0

    def next_offsets(self) -> Mapping[str, Mapping[str, int]]:
        """Kafka offsets from which the query will read on, topic → partition → offset; empty before it has begun."""
        newest = self._newest("offsets")
        if newest is not None:
            batch = self.batch(newest)
            return batch.end if self._newest("commits") == newest else batch.start
        return orjson.loads(self._log("sources/0", 0)[1]) if self._newest("sources/0") == 0 else {}

    def partitions(self) -> int | None:
        """Partitions of the query's state, which are fixed once a batch was planned; None: none was."""
        newest = self._newest("offsets")
        if newest is None:
            return None
        return int(orjson.loads(self._log("offsets", newest)[1])["conf"]["spark.sql.shuffle.partitions"])

    def _newest(self, log: str) -> int | None:
        """The number of the log's newest entry."""
        return max(numbers(self.place.folder(log)), default=None)

    def _log(self, log: str, number: int) -> list[str]:
        return self.place.folder(log).read(str(number)).lstrip(b"\0").decode().splitlines()
