"""What a keyed operator's workers and mergers do, which Spark sends to tasks, and the progress of Spark's."""

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
    """The topology's own operator: a key's tuples and counts in a window, published when the window closes.

    Parameters
    ----------
    weighted : bool
        Whether the tuples have a column ``count``. If not, each tuple counts 1.

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
    """The progress of an operator of Spark's at the end of a batch, stored beside its states.

    Attributes
    ----------
    batch_ms : int
        The batch's time.
    closed_ms : int
        By event time, the watermark at the batch's end: older tuples are late. By batch time, the end of the latest
        window that is closed.
    merged_ms : int
        The watermark when states were last merged.
    taken, released : int
        The newest plan whose states the worker has taken in, and the newest plan for which it has released its states.
    wrote : int
        The batch in which it wrote the file of the states that it released for that plan. −1: it wrote none.

    """

    batch_ms: int = 0
    closed_ms: int = 0
    merged_ms: int = 0
    taken: int = 0
    released: int = 0
    wrote: int = -1

    @classmethod
    def read(cls, store: Store) -> "OperatorProgress":
        """Read the progress after the previous batch."""
        found = store.get(_PROGRESS)
        return cls(*np.frombuffer(found, np.int64).tolist()) if found else cls()

    def write(self, store: Store) -> None:
        """Write the progress for the next batch."""
        store.put(_PROGRESS, np.array(astuple(self), np.int64).tobytes())


#: How often the fragments of states without a window are merged by default: by batch time, and by event time.
MERGE_EVERY, MERGE_EVERY_BY_EVENT = "10s", "1 batch"


@dataclass(frozen=True)
class MergePeriod:
    """How often the fragments of a split key are merged: every few batches, or every few ms of batch time.

    >>> MergePeriod.of("5 batches"), MergePeriod.of("10 minutes"), MergePeriod.of(1.5)
    (MergePeriod(batches=5, ms=0), MergePeriod(batches=0, ms=600000), MergePeriod(batches=0, ms=1500))
    """

    batches: int = 0
    ms: int = 0

    @classmethod
    def of(cls, given: Duration) -> "MergePeriod":
        """A period from a duration of at least 1 ms, or from a number of batches, such as ``5 batches``.

        Raises
        ------
        UsageError
            It is neither.

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
    """A batch as a worker or a merger sees it.

    Attributes
    ----------
    number : int
        The batch's number.
    batch_ms, watermark_ms : int
        The batch's time and the watermark, ms since the epoch. By batch time they are equal.
    empty : bool
        Whether the batch has no rows at all. Spark runs such a batch if the watermark has moved since the previous one
        and nothing else has come.

    """

    number: int
    batch_ms: int
    watermark_ms: int
    empty: bool = False


class DataflowConfig(Protocol):
    """What the dataflow around workers reads of their config: of a ``KeyedOperatorConfig``, or of a ``JoinConfig``.

    Its members are as ``KeyedOperatorConfig`` describes them.
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
    """What all workers and mergers do.

    Parameters
    ----------
    work : KeyedOperator
        The user's operator.
    key : DataType
        The keys' type.
    workers : int
        W.
    split : bool
        Whether the grouping may split a key. Then the key's fragments go to a merger, which publishes the results.
    mergers : int
        The number of mergers. The hash of a key chooses its merger.
    event : bool
        Whether tuples carry their own ``time``. If not, a tuple has the batch's time.
    window_ms, ttl_ms : int, optional
        How long states live: for a window, or for a time after their key's last tuple.
    merge_every : MergePeriod, optional
        How often fragments are merged. Without it: when their window closes.
    counted_ms : int, optional
        The length of the windows in which tuples are counted by key, besides the operator. None: they aren't counted.
    weighted : bool
        Whether tuples carry a ``count``.
    cost : Cost
        The simulated cost of tuples, as in ``unskew.apps.worker.worker.Worker``.
    reports : Reports, optional
        Where workers and mergers send their reports.
    routing : Routing, optional
        The run's routing, if plans may move keys. None: there are no plans.
    monitors : WorkerMonitors, optional
        The workers' monitors, which observe the tuples for the grouping's controller.
    checkpoint : str or Location, optional
        The query's checkpoint location, which each task must see.
    partitions : int, optional
        The number of the state's partitions for which the workers' tokens were chosen. The query must have as many.
    most : int
        How many bytes Spark's operator gives through Spark in one call. The rest lies beside the checkpoint.
    observe : Observation, optional
        The observation in which Spark gathers a report of each worker. None: there is none.
    slide_ms : int, optional
        How often a window begins (ms), where windows overlap; those in which tuples are counted are the same. None:
        after its length.

    """

    work: KeyedOperator
    key: pa.DataType
    workers: int
    split: bool
    mergers: int = 1
    event: bool = False
    window_ms: int | None = None
    ttl_ms: int | None = None
    merge_every: MergePeriod | None = None
    counted_ms: int | None = None
    weighted: bool = False
    cost: Cost = FREE
    reports: Reports | None = None
    routing: Routing | None = None
    monitors: WorkerMonitors | None = None
    checkpoint: Where | None = None
    partitions: int | None = None
    most: int = MOST
    observe: Observation | None = None
    slide_ms: int | None = None

    @property
    def columns(self) -> list[str]:
        """The tuples' columns that travel besides the key."""
        wanted = [*self.work.columns, *(["count"] if self.weighted and self.counted_ms else [])]
        wanted += ["time"] if self.event else []
        return [name for name in dict.fromkeys(wanted) if name != "key" and (name != "time" or self.event)]

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that a checkpoint with keyed states records of its run."""
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
        """The operator that counts the tuples."""
        return TupleCounter(weighted=self.weighted)

    @property
    def mergers_keep(self) -> bool:
        """Whether mergers keep states from batch to batch. If not, a fragment leaves in the batch in which it came."""
        return self.split and (self.merge_every is not None or self.window_ms is None)

    @property
    def prompt(self) -> bool:
        """Whether a state leaves in the very batch in which the watermark passes its end.

        That is so by event time, if leaving gives results: then results depend on the data, not on the clock. By batch
        time a state may leave later, so that batches need not search for it.
        """
        return self.event and (self.work.emits_on_close or self.work.settles_later)

    def require_state_partitions(self) -> None:
        """Raise ``UsageError`` if the calling task's query keeps its states elsewhere than this config expects."""
        require_state_partitions(self.checkpoint, self.partitions)

    def now(self, batch: WorkerBatch) -> Now:
        """The time for the operator. If states live for windows, the watermark is the start of the first open one.

        A tuple of that window isn't late, and so may be as old as that.
        """
        if self.window_ms is None:
            return Now(batch.batch_ms, batch.watermark_ms)
        slide = self.slide_ms or self.window_ms
        return Now(batch.batch_ms, batch.watermark_ms // slide * slide + slide - self.window_ms)


def require_state_partitions(checkpoint: Where | None, partitions: int | None) -> None:
    """Check that the calling task's query keeps its states where they are expected.

    Parameters
    ----------
    checkpoint : str or Location, optional
        The query's checkpoint location.
    partitions : int, optional
        The number of the state's partitions for which the workers' tokens were chosen.

    Raises
    ------
    UsageError
        The task doesn't see the checkpoint, or the state has another number of partitions.

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
    """The window or the TTL of an operator's states, both in ms. ``name`` is the user's name of the window.

    If there is a TTL, the window is ignored. A TTL must be at least the operator's own.

    Raises
    ------
    UsageError
        The TTL is shorter than the operator needs, or there is neither.

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

    Raises
    ------
    UsageError
        There is a slide, and states live for a TTL, or the slide doesn't divide the window.

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
    """Whether the grouping splits keys whose states must be merged. ``valid`` are the groupings that split none.

    Raises
    ------
    UsageError
        The grouping splits keys, and the operator has no merge.

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
    """How often the fragments of split keys are merged. None: when their window closes, or no key is split.

    By event time, fragments without a window are merged in every batch by default. So what is published of a key
    depends on all its tuples until then, and on no clock.

    Raises
    ------
    UsageError
        ``merge_every`` isn't a period, or the grouping splits no keys.

    """
    if not split:
        if merge_every is not None:
            raise UsageError(f"merge_every is {merge_every!r}, but {grouping} splits no keys: leave it out")
        return None
    if merge_every is None and window_ms is None:
        merge_every = MERGE_EVERY_BY_EVENT if event else MERGE_EVERY
    return None if merge_every is None else MergePeriod.of(merge_every)


#: The fields of a checkpoint's record with the schema of its states, and with the schemas that they had before.
_STATE, _BEFORE = "state", "statesBefore"


def find_changed_fields(work: KeyedOperator, record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a checkpoint's record that change when an operator takes over states of another schema, if any.

    The first batch upgrades the states. Until it has been committed, an older version of the operator can still go on
    with the checkpoint. So this function doesn't refuse a schema that the states had before; the table of states does.
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
    """A schema as a checkpoint records it."""
    return {field.name: str(field.type) for field in schema}
