"""Workers and mergers as operators of Spark's ``transformWithState``, which keeps their state.

To plan a batch, Spark starts a Python process that only reads the schema of an operator's state, and should import
little. So an operator imports ``tasks`` and unpickles its config only when the first row comes.
"""

from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

if TYPE_CHECKING:
    from unskew.apps.worker.stateful.config import DataflowConfig

#: The names of the map states with the blobs. (Checkpoints call a merger a home.)
AT_WORKERS, AT_MERGERS = "workers", "homes"

_ADDRESS = StructType(
    [StructField("table", IntegerType()), StructField("window", LongType()), StructField("bucket", IntegerType())]
)
_BLOB = StructType([StructField("blob", BinaryType())])

#: Rows for workers: a packet, or none in a heartbeat. Source and number order the packets.
PACKETS = StructType(
    [
        StructField("token", IntegerType()),
        StructField("worker", IntegerType()),
        StructField("source", IntegerType()),
        StructField("number", LongType()),
        StructField("packet", BinaryType()),
        StructField("batch_ms", LongType()),
    ]
)
#: Rows from workers and mergers; ``merger`` is the receiver.
PARCELS = StructType(
    [
        StructField("token", IntegerType()),
        StructField("kind", IntegerType()),
        StructField("sender", IntegerType()),
        StructField("number", LongType()),
        StructField("merger", IntegerType()),
        StructField("blob", BinaryType()),
        StructField("batch_ms", LongType()),
        StructField("watermark_ms", LongType()),
    ]
)


class _PickledOperator:
    """The class and attributes of Spark's operator, which unpickle to the operator."""

    def __init__(self, operator: StatefulProcessor) -> None:
        self._given = type(operator), vars(operator)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_operator, self._given


def _restore_operator(kind: type[StatefulProcessor], fields: dict[str, Any]) -> StatefulProcessor:
    operator = kind.__new__(kind)
    vars(operator).update(fields)
    return operator


def _reduce_operator(operator: StatefulProcessor) -> tuple[Any, ...]:
    """What ``__reduce__`` returns. Spark's driver unpickles operators, too, to plan a batch.

    It doesn't have the files sent to executors.
    """
    from unskew.spark.compat import reduce_with_remedy  # not needed by the Python that plans a batch

    remedy = "the Python of Spark's driver lacks the package unskew, by which keyed_map is planned: install it there"
    return reduce_with_remedy(_PickledOperator(operator), remedy)


class _Operator(StatefulProcessor):
    """The base of workers and mergers."""

    state: str

    def __init__(self, config: "DataflowConfig", tokens: list[int]) -> None:
        self._packed = cloudpickle.dumps(config)
        self._tokens = tokens

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduce_operator(self)

    @cached_property
    def _config(self) -> "DataflowConfig":
        config: DataflowConfig = cloudpickle.loads(self._packed)
        config.require_state_partitions()
        return config

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state = handle.getMapState(self.state, _ADDRESS, _BLOB)

    def close(self) -> None:
        """Do nothing."""


class WorkerOperator(_Operator):
    """A worker: packets in, parcels out.

    In event time, it sets a timer for the watermark's next move. Spark then runs a batch without rows, in which windows
    close.
    """

    state = AT_WORKERS

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        super().init(handle)
        self._handle = handle
        self._done: set[int] = set()
        self._timers: Any = None  # of all timers: Spark takes their rows at once

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Run a batch."""
        arrived = sorted(rows, key=lambda row: (row["source"], row["number"]))
        worker, batch_ms = arrived[0]["worker"], arrived[0]["batch_ms"]
        packets = self._list_packets(arrived)
        yield from self._work(worker, packets, batch_ms, timerValues, self._overflow(), empty=False)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Run a batch without rows, unless the worker had some. If any worker has rows, all have."""
        worker = self._tokens.index(key[0])
        if worker not in self._done:
            self._timers = self._timers or self._overflow()
            batch_ms = timerValues.getCurrentProcessingTimeInMs()
            yield from self._work(worker, [], batch_ms, timerValues, self._timers, empty=True)

    def _list_packets(self, arrived: list[Any]) -> list[Any]:
        """The packets of a batch's rows, as the worker's input."""
        return [bytes(row["packet"]) for row in arrived if row["packet"] is not None]

    def _overflow(self) -> Any:
        return _import_tasks().Overflow(self._config.checkpoint, self._config.most)

    def _work(
        self, worker: int, packets: list[Any], batch_ms: int, timers: Any, overflow: Any, *, empty: bool
    ) -> Iterator[Row]:
        self._done.add(worker)
        event = self._config.event
        watermark_ms = timers.getCurrentWatermarkInMs() if event else batch_ms
        yield from self._run(worker, packets, batch_ms, watermark_ms, overflow, empty=empty)
        if event:
            self._handle.registerTimer(watermark_ms + 1)

    def _run(self, *given: Any, empty: bool) -> Iterator[Row]:
        """Run the worker's batch: the arguments of ``tasks.run_worker`` from ``worker`` on."""
        rows: Iterator[Row] = _import_tasks().run_worker(self._config, self._tokens, self._state, *given, empty=empty)
        return rows


class MergerOperator(_Operator):
    """A merger: parcels in, parcels out."""

    state = AT_MERGERS

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Run a batch."""
        arrived = sorted(rows, key=lambda row: (row["sender"], row["number"]))
        yield from _import_tasks().run_merger(self._config, self._tokens, self._state, arrived)


class PandasOperator(StatefulProcessor):
    """An operator for ``transformWithStateInPandas``, with rows as pandas frames."""

    def __init__(self, operator: _Operator) -> None:
        self._operator = operator

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduce_operator(self)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._operator.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Run a batch."""
        arrived = (row for frame in rows for row in frame.to_dict("records"))
        yield from _make_frames(self._operator.handleInputRows(key, arrived, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Run a batch without rows."""
        yield from _make_frames(self._operator.handleExpiredTimer(key, timerValues, expiredTimerInfo))

    def close(self) -> None:
        """Close the operator."""
        self._operator.close()


def _make_frames(rows: Iterator[Any]) -> Iterator[Any]:
    import pandas as pd  # Spark needs it for this operator

    found = [row.asDict() for row in rows]
    if found:
        yield pd.DataFrame(found)[PARCELS.names]


def _import_tasks() -> ModuleType:
    from unskew.apps.worker.stateful import tasks

    return tasks
