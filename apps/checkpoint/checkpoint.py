"""What a query's checkpoint says of its batches, and whose checkpoint it is."""

import posixpath
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pyarrow import fs

from unskew.apps.checkpoint.clock import Clock
from unskew.apps.checkpoint.versions import filesystem, write_whole
from unskew.errors import EnvironmentFault, UsageError

#: Of all that is written beside a checkpoint; raised when an older program could no longer read it.
FORMAT = 1


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
    location : str
        A path or URI.
    clock : Clock
        The batches' time.

    Raises
    ------
    EnvironmentFault
        The location can't be written.

    """

    def __init__(self, location: str) -> None:
        self.location = location
        try:
            self._fs, self._folder = filesystem(location)
            self._run = posixpath.join(self._folder, "unskew", "run.json")
            self._fs.create_dir(posixpath.join(self._folder, "unskew"), recursive=True)
            probe = posixpath.join(self._folder, "unskew", ".writable")
            with self._fs.open_output_stream(probe) as stream:
                stream.write(b"")
            self._fs.delete_file(probe)
            self.clock = Clock(location)
        except (OSError, ValueError) as error:
            raise EnvironmentFault(f"the checkpoint location {location} can't be written ({error})") from error

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
                f"the checkpoint {self.location} has format {found['format']}, this version reads {FORMAT} and before: "
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
        """Note what run this checkpoint belongs to; as ``check``, refuse it to any other."""
        noted = self.check(run, changing)
        if noted != self.claimed():
            write_whole(self._fs, self._run, orjson.dumps(noted, option=orjson.OPT_INDENT_2))

    def claimed(self) -> dict[str, Any]:
        """What was noted of the run that it belongs to; empty: nothing."""
        try:
            with self._fs.open_input_stream(self._run) as stream:
                return orjson.loads(stream.read())
        except FileNotFoundError:
            return {}
        except orjson.JSONDecodeError as error:
            raise EnvironmentFault(f"{self._run} says whose checkpoint it is, but can't be read ({error})") from error

    def batch(self, number: int) -> Batch:
        """What was planned for a batch that has started (the newest is enough; old ones are removed by Spark)."""
        this = self._log("offsets", number)
        before = self._log("offsets", number - 1) if number else None
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
        files = self._fs.get_file_info(fs.FileSelector(posixpath.join(self._folder, log), allow_not_found=True))
        return max((int(f.base_name) for f in files if f.base_name.isdigit()), default=None)

    def _log(self, log: str, number: int) -> list[str]:
        with self._fs.open_input_stream(posixpath.join(self._folder, log, str(number))) as stream:
            return stream.read().lstrip(b"\0").decode().splitlines()
