"""The configuration of workers and mergers, which Spark sends to tasks, and their progress."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from unskew.apps.checkpoint.location import Where
from unskew.apps.checkpoint.overflow import MOST
from unskew.apps.checkpoint.visibility import require_visible
from unskew.apps.metrics.balance_observation import Observation
from unskew.apps.metrics.task_reports import Reports
from unskew.apps.operators.interface import KeyedOperator, Now
from unskew.apps.router.router import Routing
from unskew.apps.worker.monitors import WorkerMonitors
from unskew.apps.worker.stateful.store import Address, Store
from unskew.durations import Duration, parse_milliseconds, parse_slide
from unskew.errors import UsageError
from unskew.grouping.keys import sum_by_key
from unskew.grouping.registry import SINGLE_OWNER, STICKY
from unskew.grouping.simulated_cost import FREE, Cost
from unskew.spark.micro_batches import count_state_partitions


class TupleCounter(KeyedOperator):
    """The topology's operator, which counts a key's tuples in a window, and publishes when it closes.

    A tuple counts as often as its column ``count`` says if tuples are ``weighted``, else once.
    """

    state = pa.schema([("tuples", pa.int64()), ("count", pa.int64())])
    results = state

    def __init__(self, *, weighted: bool = False) -> None:
        self.columns = ("count",) if weighted else ()

    def update(
        self, tuples: pa.RecordBatch, states: pa.RecordBatch, now: Now
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
        """Add the tuples and their counts to the states."""
        slots = tuples.column("slot").to_numpy()
        number = np.bincount(slots, minlength=states.num_rows)
        total = number
        if self.columns:
            total = sum_by_key(slots, tuples.column("count").to_numpy(zero_copy_only=False), states.num_rows)
        before = (column.fill_null(0).to_numpy() for column in states.columns)
        after = [pa.array(old + new, pa.int64()) for old, new in zip(before, (number, total), strict=True)]
        return None, pa.RecordBatch.from_arrays(after, schema=self.state)

    def on_close(self, states: pa.RecordBatch, now: Now) -> pa.RecordBatch:
        """Publish the counts."""
        slots = pa.array(np.arange(states.num_rows, dtype=np.int32))
        return pa.RecordBatch.from_arrays([slots, *states.columns], ["slot", *self.results.names])


_PROGRESS: Address = (0, 0, -2)


@dataclass(frozen=True)
class OperatorProgress:
    """The progress of a worker or merger at the end of a batch, stored with its states."""

    batch_ms: int = 0  #: The batch's time.
    #: In event time, the watermark at the batch's end: older tuples are late. In batch time, the end of the last closed
    #: window.
    closed_ms: int = 0
    merged_ms: int = 0  #: The watermark when states were last merged.
    #: The newest plan whose states the worker has received, and the newest for which it has released states.
    taken: int = 0
    released: int = 0
    wrote: int = -1  #: The batch in which it wrote the file of states released for that plan; −1 if it wrote none.

    @classmethod
    def read(cls, store: Store) -> "OperatorProgress":
        """Read the progress after the previous batch."""
        found = store.get(_PROGRESS)
        return cls(*np.frombuffer(found, np.int64).tolist()) if found else cls()

    def write(self, store: Store) -> None:
        """Write the progress for the next batch."""
        store.put(_PROGRESS, np.array(astuple(self), np.int64).tobytes())


#: How often fragments of states without a window are merged by default: in batch time, and in event time.
MERGE_EVERY, MERGE_EVERY_BY_EVENT = "10s", "1 batch"


@dataclass(frozen=True)
class MergePeriod:
    """How often a split key's fragments are merged: every few batches, or every few ms of batch time.

    >>> MergePeriod.of("5 batches"), MergePeriod.of("10 minutes"), MergePeriod.of(1.5)
    (MergePeriod(batches=5, ms=0), MergePeriod(batches=0, ms=600000), MergePeriod(batches=0, ms=1500))
    """

    batches: int = 0
    ms: int = 0

    @classmethod
    def of(cls, given: Duration) -> "MergePeriod":
        """Parse a duration of at least 1 ms, or a number of batches, such as ``5 batches``.

        Raises ``UsageError`` if it is neither.
        """
        found = re.fullmatch(r"\s*(\d+)\s*(b|batch|batches)\s*", given) if isinstance(given, str) else None
        if found and int(found[1]):
            return cls(batches=int(found[1]))
        try:
            return cls(ms=parse_milliseconds("merge_every", given, least=1))
        except UsageError as error:
            raise UsageError(f"{error}, or batches ('5 batches')") from None

    def ends(self, before_ms: int, now_ms: int, batch: int) -> bool:
        """Whether a period ends with the batch of this time and number. ``before_ms`` is the previous batch's time."""
        return (batch + 1) % self.batches == 0 if self.batches else before_ms // self.ms < now_ms // self.ms


@dataclass(frozen=True)
class WorkerBatch:
    """A worker's or merger's view of a batch."""

    number: int  #: The batch's number.
    #: The batch's time and the watermark, ms since the epoch. In batch time they are equal.
    batch_ms: int
    watermark_ms: int
    #: Whether the batch has no rows at all. Spark runs such a batch if the watermark has moved, and nothing has come.
    empty: bool = False


class DataflowConfig(Protocol):
    """What the dataflow needs of a ``KeyedOperatorConfig`` or a ``JoinConfig``.

    ``KeyedOperatorConfig`` describes the members.
    """

    @property
    def workers(self) -> int: ...
    @property
    def mergers(self) -> int: ...
    @property
    def event(self) -> bool: ...
    @property
    def split(self) -> bool: ...
    @property
    def mergers_keep(self) -> bool: ...
    @property
    def checkpoint(self) -> Where | None: ...
    @property
    def most(self) -> int: ...
    @property
    def observe(self) -> Observation | None: ...
    def require_state_partitions(self) -> None: ...


@dataclass(frozen=True)
class KeyedOperatorConfig:
    """The configuration of all workers and mergers."""

    work: KeyedOperator  #: The user's operator.
    key: pa.DataType  #: The keys' type.
    workers: int  #: W.
    #: Whether the grouping may split keys. A split key's fragments go to a merger, which publishes the results.
    split: bool
    mergers: int = 1  #: The number of mergers. A key's hash chooses its merger.
    event: bool = False  #: Whether tuples have a ``time``. If not, they have the batch's.
    window_ms: int | None = None  #: How long states live (ms): for a window,
    ttl_ms: int | None = None  #: or this long after their key's last tuple.
    merge_every: MergePeriod | None = None  #: How often fragments are merged. Default: when their window closes.
    #: The length of the windows in which tuples are also counted per key. None: they aren't counted.
    counted_ms: int | None = None
    weighted: bool = False  #: Whether tuples have a ``count``.
    cost: Cost = FREE  #: The simulated cost of tuples, as for ``unskew.apps.worker.worker.Worker``.
    reports: Reports | None = None  #: Where workers and mergers send their reports.
    routing: Routing | None = None  #: The run's routing, if plans may move keys. None: there are no plans.
    #: The workers' monitors, which observe the tuples for the grouping's controller.
    monitors: WorkerMonitors | None = None
    checkpoint: Where | None = None  #: The query's checkpoint location, which each task must see.
    #: The number of the state's partitions for which workers' tokens were chosen, and which the query must have.
    partitions: int | None = None
    #: The most bytes that Spark's operator returns through Spark per call. The rest goes to files next to the
    #: checkpoint.
    most: int = MOST
    observe: Observation | None = None  #: The observation in which Spark collects the workers' reports.
    #: How often a window begins (ms), if windows overlap; also of those in which tuples are counted. None: after its
    #: length.
    slide_ms: int | None = None

    @property
    def columns(self) -> list[str]:
        """The tuples' columns besides the key that packets contain."""
        wanted = [*self.work.columns, *(["count"] if self.weighted and self.counted_ms else [])]
        wanted += ["time"] if self.event else []
        return [name for name in dict.fromkeys(wanted) if name != "key" and (name != "time" or self.event)]

    @property
    def identity(self) -> dict[str, Any]:
        """The fields by which a checkpoint recognises its run."""
        slide = f" every {self.slide_ms} ms" if self.slide_ms else ""
        return {
            "work": type(self.work).__name__,
            "state": describe_schema(self.work.state),
            "parameters": dict(self.work.parameters),
            "keyType": str(self.key),
            "numWorkers": self.workers,
            "states": f"window {self.window_ms} ms{slide}" if self.window_ms else f"ttl {self.ttl_ms} ms",
            "statesMeet": self.mergers_keep,
            "statesSplit": self.split,
        }

    @property
    def counts(self) -> TupleCounter:
        return TupleCounter(weighted=self.weighted)

    @property
    def mergers_keep(self) -> bool:
        """Whether mergers keep states between batches. If not, a fragment leaves in the batch in which it came."""
        return self.split and (self.merge_every is not None or self.window_ms is None)

    @property
    def prompt(self) -> bool:
        """Whether a state must leave in the batch in which the watermark passes its end.

        It must in event time, if closing returns results, so that results depend on the data, not on the clock. In
        batch time a state may leave later, so that batches needn't search for it.
        """
        return self.event and (self.work.emits_on_close or self.work.settles_later)

    def require_state_partitions(self) -> None:
        """Raise ``UsageError`` unless the calling task's query has the state partitions that this config expects."""
        require_state_partitions(self.checkpoint, self.partitions)

    def now(self, batch: WorkerBatch) -> Now:
        """The time for the operator. If states live for windows, its watermark is the start of the first open one.

        A tuple of that window isn't late, and may be that old.
        """
        if self.window_ms is None:
            return Now(batch.batch_ms, batch.watermark_ms)
        slide = self.slide_ms or self.window_ms
        return Now(batch.batch_ms, batch.watermark_ms // slide * slide + slide - self.window_ms)


def require_state_partitions(checkpoint: Where | None, partitions: int | None) -> None:
    """Check that the calling task's query has that checkpoint, and that number of state partitions.

    Raises ``UsageError`` if the task doesn't see the checkpoint, or the state has another number of partitions.
    """
    if checkpoint is not None:
        require_visible(checkpoint)
    found = count_state_partitions()
    if partitions is not None and found is not None and found != partitions:
        raise UsageError(
            f"spark.sql.shuffle.partitions was {partitions} when the operator's states got their places, and is "
            f"{found} in the query; valid: one number, from the call that made the query until it has started"
        )


def parse_lifetime(
    work: KeyedOperator, window: Duration | None, ttl: Duration | None, name: str = "window"
) -> tuple[int | None, int | None]:
    """The window or the TTL of an operator's states, in ms. ``name`` is the user's name of the window.

    With a TTL, the window is ignored. A TTL must be at least the operator's.

    Raises ``UsageError`` if the TTL is shorter than the operator's, or there is neither.
    """
    least = work.ttl_ms
    of = type(work).__name__
    if ttl is not None:
        ttl_ms = parse_milliseconds("ttl", ttl, least=1)
        if least is not None and ttl_ms < least:
            raise UsageError(f"ttl is {ttl!r}; valid for {of}: at least {least / 1000:g} s")
        return None, ttl_ms
    if window is not None:
        return parse_milliseconds(name, window, least=1), None
    if least is not None:
        return None, least
    raise UsageError(f"{of}'s states would live for ever: give ttl or {name}, a duration")


def parse_window_slide(
    work: KeyedOperator, slide: Duration | None, window_ms: int | None, name: str = "slide"
) -> int | None:
    """How often a window of states begins (ms). None: after its length, or states live for a TTL.

    ``name`` is the user's name of the slide.

    Raises ``UsageError`` if there is a slide though states live for a TTL, or it doesn't divide the window.
    """
    if slide is None:
        return None
    if window_ms is None:
        raise UsageError(
            f"{name} is {slide!r}, but the states of {type(work).__name__} live for a TTL; valid: no {name}, or states "
            "that live for a window"
        )
    slide_ms = parse_slide(slide, window_ms, name)
    return slide_ms if slide_ms < window_ms else None


def splits_keys(work: KeyedOperator, grouping: str, workers: int, valid: Sequence[str] = STICKY) -> bool:
    """Whether the grouping splits keys, so that states must be merged. ``valid`` are the groupings that split none.

    Raises ``UsageError`` if the grouping splits keys, but the operator has no merge.
    """
    split = grouping not in SINGLE_OWNER and workers > 1 and not work.local_state
    if split and not work.mergeable:
        raise UsageError(
            f"{grouping} puts a key on several workers, and {type(work).__name__} has no merge; valid: "
            f"{', '.join(valid)}"
        )
    return split


def choose_merge_period(
    merge_every: Duration | None, grouping: str, *, split: bool, event: bool, window_ms: int | None
) -> MergePeriod | None:
    """How often split keys' fragments are merged. None: when their window closes, or no key is split.

    In event time, fragments without a window are merged in every batch by default. So a key's results depend on all its
    tuples until then, and on no clock.

    Raises ``UsageError`` if ``merge_every`` isn't a period, or the grouping doesn't split keys.
    """
    if not split:
        if merge_every is not None:
            raise UsageError(f"merge_every is {merge_every!r}, but {grouping} splits no keys: leave it out")
        return None
    if merge_every is None and window_ms is None:
        merge_every = MERGE_EVERY_BY_EVENT if event else MERGE_EVERY
    return None if merge_every is None else MergePeriod.of(merge_every)


#: The fields of a checkpoint's record with its states' schema, and with their earlier schemas.
_STATE, _BEFORE = "state", "statesBefore"


def find_changed_fields(work: KeyedOperator, record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a checkpoint's record that change when an operator upgrades states of another schema, if any.

    The first batch upgrades the states. Until it is committed, an older version of the operator can still continue the
    checkpoint. So the table of states refuses earlier schemas, not this function.
    """
    found, now = record.get(_STATE), describe_schema(work.state)
    before = record.get(_BEFORE, [])
    if (
        found is None
        or found == now
        or (now not in before and found not in map(describe_schema, work.previous_schemas))
    ):
        return {}
    return {_STATE: now, _BEFORE: [*(each for each in before if each not in (found, now)), found]}


def describe_schema(schema: pa.Schema) -> dict[str, Any]:
    """A schema in a checkpoint's record."""
    return {field.name: str(field.type) for field in schema}
