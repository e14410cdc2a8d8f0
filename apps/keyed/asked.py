"""What a run asks of a work with states: checked with the other settings, before anything starts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.apps.keyed.held import Held
from unskew.apps.keyed.program import MERGE_EVERY, Period, lifetime, splits
from unskew.errors import UsageError
from unskew.grouping.registry import OWNING
from unskew.works.interface import KeyedWork

if TYPE_CHECKING:
    from unskew.apps.topology.settings import Settings

#: The columns of a message that a work may ask for.
MESSAGE = ("value", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class Asked:
    """A work with states as the settings have it.

    Attributes
    ----------
    work : KeyedWork
        The work.
    window_ms, ttl_ms : int or None
        How long states live: one of them.
    splits : bool
        Whether states of a key must meet.
    merge_period : Period or None
        How often they do, besides when they end.

    """

    work: KeyedWork
    window_ms: int | None
    ttl_ms: int | None
    splits: bool
    merge_period: Period | None

    @property
    def tail_ms(self) -> int:
        """How long after the last tuple there may be something to tell that no window's end tells."""
        from unskew.apps.keyed.table import sweep_ms

        return self.ttl_ms + sweep_ms(self.ttl_ms) if self.ttl_ms is not None and self.work.tells_at_end else 0

    def met(self, held: Held, end_ms: int) -> bool:
        """Whether states of a key that were on several workers have met since that time."""
        if self.merge_period is None:
            return True
        return not held.at_workers and (self.ttl_ms is None or held.met_ms >= end_ms)

    def identity(self, settings: "Settings") -> dict[str, Any]:
        """What a checkpoint with such states is bound to besides the run's own."""
        from unskew.apps.keyed.dataflow import program_of
        from unskew.apps.keyed.keyed_map import identity

        return identity(program_of(settings, self, 1))


def asked(settings: "Settings") -> Asked | None:
    """What the settings ask of a work with states; None if the work has none.

    Raises
    ------
    UsageError
        Naming what such a work can't have, or what only such a work has.

    """
    work = settings.work
    if not isinstance(work, KeyedWork):
        for name in ("ttl", "merge_every"):
            if getattr(settings, name) is not None:
                raise UsageError(f"{name} is {getattr(settings, name)!r}, but no work has states: give it with --work")
        return None
    if settings.work_errors != "fail":
        raise UsageError("work_errors is 'reject'; valid for a work with states: fail (its tuples are not alone)")
    missing = [name for name in settings.carried if name not in MESSAGE]
    if missing:
        raise UsageError(f"{type(work).__name__} reads the column {missing[0]!r}; a message has: {', '.join(MESSAGE)}")
    apart = splits(work, settings.grouping, settings.workers, OWNING)
    every = settings.merge_every
    if every is not None and not apart:
        raise UsageError(f"merge_every is {every!r}, but {settings.grouping.upper()} splits no keys: leave it out")
    window_ms, ttl_ms = lifetime(work, settings.window if work.ttl_ms is None else None, settings.ttl)
    if every is None and window_ms is None:
        every = MERGE_EVERY
    return Asked(work, window_ms, ttl_ms, apart, Period.of(every) if apart and every is not None else None)
