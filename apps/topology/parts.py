"""The parts of a topology, made from its settings: splitter, routing, feedback loop, and states of a keyed work.

Settings are checked by making these parts, before anything starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unskew.apps.feedback.loop import Loop
from unskew.apps.keyed.program import Period, Program, lifetime, merging, splits
from unskew.apps.routing.batches import batch_number
from unskew.apps.routing.plans import Plans
from unskew.apps.routing.reports import Reports, StateSummary
from unskew.apps.routing.router import Routing
from unskew.apps.splitter.avro import Refusals
from unskew.apps.splitter.formats import Schemas, splitter
from unskew.apps.splitter.splitter import Splitter
from unskew.errors import UsageError
from unskew.grouping import shared
from unskew.grouping.registry import OWNING
from unskew.works.interface import KeyedWork

if TYPE_CHECKING:
    from unskew.apps.topology.settings import Settings

#: The columns of a message that a keyed work may read.
MESSAGE = ("value", "topic", "partition", "offset", "timestamp")


def splitter_of(settings: "Settings", samples: Sequence[bytes] = ()) -> Splitter:
    """The splitter of a run. ``samples`` are messages of its topic.

    Raises
    ------
    UsageError
        There is no such source type, or it has no such field or format.

    """
    schemas = Schemas(settings.schema, settings.schema_registry, Refusals(settings.location, batch_number))
    return splitter(settings.source_type, settings.key_field, settings.format, samples, schemas)


def routing_of(settings: "Settings", reports: Reports | None = None) -> Routing:
    """The routing of a run."""
    options = shared(settings.grouping, settings.sources, settings.options)
    rescaled = Plans(settings.location).newest() is not None
    return Routing(
        settings.grouping, settings.workers, settings.location, options, settings.seed, reports,
        streaming=True, cost=settings.cost, rescaled=rescaled,
    )  # fmt: skip


def loop_of(settings: "Settings") -> Loop | None:
    """The feedback loop of a run. None: its grouping has no controller, and the run never had another W."""
    routing, states = routing_of(settings), settings.states
    if not routing.planned:
        return None
    moving = states is not None and not states.split and routing.router().moves
    return Loop(settings.location, routing.router, settings.workers, moving, keyed=states is not None)


@dataclass(frozen=True)
class StateSettings:
    """The settings of a keyed work's states.

    Attributes
    ----------
    work : KeyedWork
        The work.
    window_ms, ttl_ms : int or None
        How long states live: until their window closes, or for a time after their key's last tuple.
    split : bool
        Whether the grouping splits keys, so that fragments must be merged.
    merge_period : Period or None
        How often fragments are merged, besides when their window closes.

    """

    work: KeyedWork
    window_ms: int | None
    ttl_ms: int | None
    split: bool
    merge_period: Period | None

    @classmethod
    def of(cls, settings: "Settings") -> "StateSettings | None":
        """The settings of a run's states. None: its work has no states.

        Raises
        ------
        UsageError
            A keyed work can't have one of the settings, or only a keyed work can have it.

        """
        work = settings.work
        if not isinstance(work, KeyedWork):
            for name in ("ttl", "merge_every"):
                value = getattr(settings, name)
                if value is not None:
                    raise UsageError(f"{name} is {value!r}, but no work has states: give it with --work")
            return None
        if settings.work_errors != "fail":
            raise UsageError("work_errors is 'reject'; valid for a work with states: fail (its tuples are not alone)")
        missing = [name for name in settings.carried if name not in MESSAGE]
        if missing:
            raise UsageError(
                f"{type(work).__name__} reads the column {missing[0]!r}; a message has: {', '.join(MESSAGE)}"
            )
        split = splits(work, settings.grouping, settings.workers, OWNING)
        window_ms, ttl_ms = lifetime(work, settings.window if work.ttl_ms is None else None, settings.ttl)
        event = settings.time == "event"
        period = merging(settings.merge_every, settings.grouping, split=split, event=event, window_ms=window_ms)
        return cls(work, window_ms, ttl_ms, split, period)

    @property
    def tail_ms(self) -> int:
        """By event time, how long after the last tuple states may publish results, apart from a window's end (ms)."""
        return self.ttl_ms if self.ttl_ms is not None and (self.work.tells_at_end or self.work.settles_later) else 0

    def merged(self, states: StateSummary, end_ms: int) -> bool:
        """Whether all fragments have been merged since that time."""
        if self.merge_period is None:
            return True
        return not states.at_workers and (self.ttl_ms is None or states.merged_ms >= end_ms)

    def program(self, settings: "Settings", mergers: int = 1, reports: Reports | None = None) -> Program:
        """The program of the run's workers and mergers."""
        return Program(
            self.work,
            pa.string(),
            settings.workers,
            self.split,
            mergers,
            settings.time == "event",
            self.window_ms,
            self.ttl_ms,
            self.merge_period,
            settings.window_ms,
            splitter_of(settings).counted,
            settings.cost,
            reports,
        )

    def identity(self, settings: "Settings") -> dict[str, Any]:
        """The fields that a checkpoint with such states records in addition to the run's identity."""
        return self.program(settings).identity
