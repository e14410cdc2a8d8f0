"""Versioned values beside a query's checkpoint, so that a replayed batch reads the values that its first run read.

Version ``b`` of a value is the value at the start of batch ``b``. Batch ``b - 1`` writes it, as a whole or not at all,
and a second attempt writes the same bytes. So attempts may run at the same time, and no task of batch ``b`` reads what
batch ``b`` wrote.

A list of a folder's files may lack the newest of them for a while, because network file systems and some S3 stores
cache lists. So what was written lately is looked for by its name.

This module has two versioned values of a run. ``BatchClock`` is how far batch time is ahead of the driver's clock.
``Totals`` are the sums over everything that the run has published.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from unskew.apps.checkpoint.folders import filter_numbers, find_partials, list_numbers, should_tidy
from unskew.apps.checkpoint.location import Location, Where
from unskew.grouping import measures

_DIGITS = 12
# A replay needs the newest version ≤ b; one more is kept for people who look at a checkpoint.
_KEEP = 3
# Where each request costs money, old versions are looked for after one of so many writes.
_SELDOM = 8
# How many of the newest versions a list may lack.
_UNLISTED = 64


class Versions:
    """The versions of one value, in one folder of a checkpoint, which the first ``write`` makes."""

    def __init__(self, where: Where) -> None:
        location = Location.of(where)
        self._address = location.address
        self._folder = location.folder()

    def newest(self, at_most: int) -> tuple[int, bytes] | None:
        """The newest version ≤ ``at_most`` and its bytes. None: there is none."""
        # Mostly the version of this very number exists, and to read it is cheaper than to list all.
        if (data := self.at(at_most)) is not None:
            return at_most, data
        listed = [v for v in list_numbers(self._folder) if v <= at_most]
        newest = listed[-1] if listed else -1
        for version in reversed([*listed, *range(max(newest + 1, at_most - _UNLISTED), at_most)]):
            if (data := self.at(version)) is not None:  # a list may also name a version that is gone
                return version, data
        return None

    def last(self, planned: int) -> tuple[int, bytes] | None:
        """The newest version of all. ``planned`` is the newest planned batch, which writes the next version."""
        found = [self.newest(planned + 1), self.newest(max(list_numbers(self._folder), default=0))]
        return max((each for each in found if each is not None), default=None)

    def at(self, version: int) -> bytes | None:
        """The bytes of exactly this version. None: there is none."""
        try:
            return self._folder.read(_format_version(version))
        except FileNotFoundError:
            return None

    def write(self, version: int, data: bytes) -> None:
        """Write a version atomically, then remove the versions that no replay can need.

        Incomplete files that a killed process has left of an older version are removed too.
        """
        self._folder.write(_format_version(version), data)
        self._forget(version)

    def create(self, version: int, data: bytes) -> bool:
        """Write as ``write`` does, but leave a version that exists as it is. Returns whether it was written."""
        created = self._folder.create(_format_version(version), data)
        if created:
            self._forget(version)
        return created

    def _forget(self, version: int) -> None:
        if not should_tidy(self._folder, f"{self._address} {version}", _SELDOM):
            return
        names = self._folder.names()
        old = [_format_version(v) for v in filter_numbers(names) if v < version][: -(_KEEP - 1)]
        left = [name for name, of in find_partials(names).items() if of.isdecimal() and int(of) < version]
        for name in [*old, *left]:
            self._folder.remove(name)  # another attempt of the task may have removed it already


def _format_version(version: int) -> str:
    return f"{version:0{_DIGITS}d}"


class BatchClock:
    """How far batch time is ahead of Spark's timestamps. It is versioned, so a replay has the time of the first run.

    A window closes once a batch has had a later time. Suppose that the driver's clock is set back, or that another
    driver's clock is behind. The next batch's time would then be in closed windows. So batch time is set ahead of the
    clock, until the clock is right again. If the clock is ahead of the brokers', batch time is behind it as long.

    ``ahead_ms`` is how far it is ahead from the next batch on. It is negative if batch time is behind the clock.
    """

    def __init__(self, checkpoint: Where, planned: int = 0) -> None:
        self._versions = Versions(Location.of(checkpoint).below("unskew", "clock"))
        found = self._versions.last(planned)
        self.ahead_ms = int(found[1]) if found else 0

    def set_ahead(self, batch: int, ms: int) -> None:
        """Set how far batch time is ahead, from this batch on. The batch must not have had any effect yet."""
        self.ahead_ms = ms
        self._versions.write(batch, b"%d" % ms)


@dataclass(frozen=True)
class Totals:
    """Sums over a run's closed windows, and its progress."""

    started_ms: int = -1  #: Time of the first batch with tuples (ms since the epoch). −1: there was none.
    #: The numbers of tuples routed (of open windows too), of messages rejected, of tuples that came after their window
    #: was closed, and of messages that Kafka removed before the run read them.
    routed: int = 0
    rejected: int = 0
    late: int = 0
    last_window_end_ms: int = -1  #: End of the latest window that has tuples, which may be open. −1: there is none.
    #: The tuples in closed windows, and two sums over these windows: of (key, worker) pairs, and of distinct keys.
    tuples: int = 0
    assignments: int = 0
    keys: int = 0
    #: Each worker's tuples in closed windows, [W]. W is the highest number of workers so far.
    loads: list[int] = field(default_factory=list)
    skipped: int = 0
    #: source → the keys in its grouping's old space when the source last had tuples. Only some schemes have an old
    #: space.
    occupants: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    #: Start of a window (ms) → its distribution so far, as JSON values, in a run that publishes changes.
    open: dict[str, dict[str, Any]] = field(default_factory=dict)
    closed_ms: int = -1  #: By event time, in such a run: windows that end at or before this time are closed.

    def with_window(self, loads: list[int], assignments: int, keys: int) -> "Totals":
        """The totals with one more closed window: each worker's tuples, (key, worker) pairs and distinct keys."""
        return replace(
            self,
            tuples=self.tuples + sum(loads),
            assignments=self.assignments + assignments,
            keys=self.keys + keys,
            loads=measures.sum_loads([self.loads, loads]).tolist(),
        )


class TotalsLog:
    """The totals at the start of each batch. A replay reads the same totals, as it reads the same router states."""

    def __init__(self, checkpoint: Where) -> None:
        self._versions = Versions(Location.of(checkpoint).below("unskew", "totals"))

    def at(self, batch: int) -> Totals:
        """The totals at the start of a batch."""
        return _parse_totals(self._versions.newest(batch))

    def newest(self, planned: int = 0) -> Totals:
        """The newest totals. ``planned`` is the newest planned batch."""
        return _parse_totals(self._versions.last(planned))

    def write(self, batch: int, totals: Totals) -> None:
        """Set the totals at the start of a batch."""
        self._versions.write(batch, json.dumps(asdict(totals), separators=(",", ":"), ensure_ascii=False).encode())


def _parse_totals(found: tuple[int, bytes] | None) -> Totals:
    return Totals(**json.loads(found[1])) if found else Totals()
