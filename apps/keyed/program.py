"""What a keyed run does, the same for all its workers; travels to the tasks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from unskew.apps.feedback.monitors import Monitors
from unskew.apps.keyed.counts import Counts
from unskew.apps.topology.cost import FREE, Cost
from unskew.apps.topology.reports import Reports
from unskew.apps.topology.router import Routing
from unskew.errors import UsageError
from unskew.grouping.registry import KEEPING, OWNING
from unskew.works.interface import KeyedWork, Now

#: How often states meet that no window closes, unless it is said.
MERGE_EVERY = "10s"


@dataclass(frozen=True)
class Period:
    """How often the states of a key meet: every so many batches, or ms of batch time.

    >>> Period.of("5 batches"), Period.of("30"), Period.of("1.5s")
    (Period(batches=5, ms=0), Period(batches=0, ms=30000), Period(batches=0, ms=1500))
    """

    batches: int = 0
    ms: int = 0

    @classmethod
    def of(cls, text: str) -> "Period":
        """A period as users write it.

        Raises
        ------
        UsageError
            It isn't one.

        """
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|b|batch|batches|)\s*", text)
        if found and found[2].startswith("b") and found[1].isdigit() and int(found[1]):
            return cls(batches=int(found[1]))
        if found and found[2] in ("s", "") and float(found[1]):
            return cls(ms=max(1, round(1000 * float(found[1]))))
        raise UsageError(f"merge_every is {text!r}; valid: seconds (30, 1.5s) or batches (5 batches)")

    def over(self, before_ms: int, now_ms: int, batch: int) -> bool:
        """Whether it ends with a batch of that time and number; ``before_ms``: the time of the batch before."""
        return (batch + 1) % self.batches == 0 if self.batches else before_ms // self.ms < now_ms // self.ms


@dataclass(frozen=True)
class Beat:
    """A batch as a worker sees it.

    Attributes
    ----------
    number : int
        The batch's.
    batch_ms, watermark_ms : int
        Its time and the watermark (by batch time the same), ms since the epoch.

    """

    number: int
    batch_ms: int
    watermark_ms: int


@dataclass(frozen=True)
class Program:
    """What all workers do.

    Parameters
    ----------
    work : KeyedWork
        The user's.
    key : DataType
        The keys' type.
    workers : int
        W.
    split : bool
        Whether the grouping may split a key: then its states meet at a home, and results come from there.
    homes : int
        Number of homes, among which the keys are spread by hash.
    event : bool
        Whether tuples carry their own ``time``; if not, theirs is the batch's.
    window_ms, ttl_ms : int, optional
        How long states live, the one or the other.
    merge_every : Period, optional
        How often they meet; without it, when their window closes.
    counted_ms : int, optional
        The windows by which keys are counted besides; None: they aren't.
    weighted : bool
        Whether tuples carry a ``count``.
    cost : Cost
        Simulated, as ``unskew.apps.topology.worker.Worker``.
    reports : Reports, optional
        Told what each worker did.
    routing : Routing, optional
        How tuples get to workers, where that may change while states are there; None: it doesn't.
    monitors : Monitors, optional
        What is observed of the tuples for the grouping's controller.

    """

    work: KeyedWork
    key: pa.DataType
    workers: int
    split: bool
    homes: int = 1
    event: bool = False
    window_ms: int | None = None
    ttl_ms: int | None = None
    merge_every: Period | None = None
    counted_ms: int | None = None
    weighted: bool = False
    cost: Cost = FREE
    reports: Reports | None = None
    routing: Routing | None = None
    monitors: Monitors | None = None

    @property
    def columns(self) -> list[str]:
        """The tuples' columns that travel, besides the key."""
        wanted = [*self.work.columns, *(["count"] if self.weighted and self.counted_ms else [])]
        wanted += ["time"] if self.event else []
        return [name for name in dict.fromkeys(wanted) if name != "key" and (name != "time" or self.event)]

    @property
    def counts(self) -> Counts:
        """The work that counts."""
        return Counts(weighted=self.weighted)

    @property
    def lasting(self) -> bool:
        """Whether homes remember from batch to batch: not if all that they get leaves at once."""
        return self.split and (self.merge_every is not None or self.window_ms is None)

    def now(self, beat: Beat) -> Now:
        """The time as the work is told it: a window is closed, or open for tuples of any time in it."""
        if self.window_ms is None:
            return Now(beat.batch_ms, beat.watermark_ms)
        return Now(beat.batch_ms, beat.watermark_ms // self.window_ms * self.window_ms)


def lifetime(work: KeyedWork, window: float | None, ttl: float | None) -> tuple[int | None, int | None]:
    """The window (ms) or the TTL (ms) of a work's states; both are given in seconds.

    A TTL comes before a window; the one that a work asks for is its least.

    Raises
    ------
    UsageError
        The TTL is shorter than the work needs, or there is neither.

    """
    least = work.ttl_ms
    name = type(work).__name__
    if ttl is not None:
        if ttl <= 0:
            raise UsageError(f"ttl is {ttl:g}; valid: a number above 0 (s)")
        if least is not None and 1000 * ttl < least:
            raise UsageError(f"ttl is {ttl:g}; valid for {name}: at least {least / 1000:g} (s)")
        return None, round(1000 * ttl)
    if least is not None and window is None:
        return None, least
    if window is None or window <= 0:
        raise UsageError(f"{name}'s states would live for ever: give ttl or window (s), a number above 0")
    return round(1000 * window), None


def splits(work: KeyedWork, grouping: str, workers: int, valid: Sequence[str] = KEEPING) -> bool:
    """Whether the states of a key must meet; ``valid``: the groupings that can be had with which they needn't.

    Raises
    ------
    UsageError
        They must, and can't.

    """
    split = grouping.upper() not in OWNING and workers > 1
    if split and not work.mergeable:
        raise UsageError(
            f"{grouping.upper()} puts a key on several workers, and {type(work).__name__} has no merge; valid: "
            f"{', '.join(valid)}"
        )
    return split


def described(schema: pa.Schema) -> dict[str, Any]:
    """A schema as a checkpoint notes it."""
    return {field.name: str(field.type) for field in schema}
