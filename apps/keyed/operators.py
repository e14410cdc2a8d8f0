"""The groups of Spark's ``transformWithState`` that workers and homes are: rows in, rows out, the state is Spark's.

To plan each batch Spark starts a Python process that asks an operator for its state, and for nothing else. It should
have little to import: so what operators do is imported, and what they carry is unpickled, when the first row comes.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

if TYPE_CHECKING:
    from unskew.apps.keyed.parcels import Parcel
    from unskew.apps.keyed.program import Beat, Program

#: Names of the map states that have the blobs.
AT_WORKERS, AT_HOMES = "workers", "homes"

_PLACE = StructType(
    [StructField("table", IntegerType()), StructField("window", LongType()), StructField("bucket", IntegerType())]
)
_BLOB = StructType([StructField("blob", BinaryType())])

#: What goes to workers: a packet (or none: then it is a beat), and what puts packets in order.
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
#: What comes from them.
PARCELS = StructType(
    [
        StructField("token", IntegerType()),
        StructField("kind", IntegerType()),
        StructField("sender", IntegerType()),
        StructField("number", LongType()),
        StructField("home", IntegerType()),
        StructField("blob", BinaryType()),
        StructField("batch_ms", LongType()),
        StructField("watermark_ms", LongType()),
    ]
)


class _Operator(StatefulProcessor):
    """What workers and homes have in common."""

    state: str

    def __init__(self, program: "Program", tokens: list[int]) -> None:
        self._packed = cloudpickle.dumps(program)
        self._tokens = tokens

    @cached_property
    def _program(self) -> "Program":
        return cloudpickle.loads(self._packed)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._state = handle.getMapState(self.state, _PLACE, _BLOB)

    def close(self) -> None:
        """Nothing to close."""

    def _rows(self, parcels: "Iterable[Parcel]", sender: int, beat: "Beat") -> Iterator[Row]:
        for number, parcel in enumerate(parcels):
            yield Row(
                token=self._tokens[parcel.home], kind=parcel.kind, sender=sender, number=number, home=parcel.home,
                blob=parcel.blob, batch_ms=beat.batch_ms, watermark_ms=beat.watermark_ms,
            )  # fmt: skip


class WorkerOperator(_Operator):
    """A worker: packets in, parcels out.

    By event time it sets a timer for the moment when the watermark moves on: Spark then runs a batch without any rows,
    for windows that close by it.
    """

    state = AT_WORKERS

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        super().init(handle)
        self._handle = handle
        self._done: set[int] = set()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Do a batch."""
        arrived = sorted(rows, key=lambda row: (row["source"], row["number"]))
        packets = [bytes(row["packet"]) for row in arrived if row["packet"] is not None]
        yield from self._work(arrived[0]["worker"], packets, arrived[0]["batch_ms"], timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Do a batch without rows, unless there were some."""
        worker = self._tokens.index(key[0])
        if worker not in self._done:
            yield from self._work(worker, [], timerValues.getCurrentProcessingTimeInMs(), timerValues)

    def _work(self, worker: int, packets: list[bytes], batch_ms: int, timers: Any) -> Iterator[Row]:
        from unskew.apps.keyed.program import Beat
        from unskew.apps.keyed.store import SparkStore
        from unskew.apps.keyed.worker import work
        from unskew.apps.topology.router import batch_number

        self._done.add(worker)
        event = self._program.event
        beat = Beat(batch_number() or 0, batch_ms, timers.getCurrentWatermarkInMs() if event else batch_ms)
        yield from self._rows(work(self._program, SparkStore(self._state), worker, packets, beat), worker, beat)
        if event:
            self._handle.registerTimer(beat.watermark_ms + 1)


class HomeOperator(_Operator):
    """A home: parcels in, parcels out."""

    state = AT_HOMES

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Do a batch."""
        from unskew.apps.keyed.home import meet
        from unskew.apps.keyed.parcels import OUT, Parcel
        from unskew.apps.keyed.program import Beat
        from unskew.apps.keyed.store import SparkStore
        from unskew.apps.topology.router import batch_number

        arrived = sorted(rows, key=lambda row: (row["sender"], row["number"]))
        yield from (row for row in arrived if row["kind"] in OUT)
        first = arrived[0]
        beat = Beat(batch_number() or 0, first["batch_ms"], first["watermark_ms"])
        parcels = [Parcel(row["kind"], row["home"], bytes(row["blob"])) for row in arrived]
        own = meet(self._program, SparkStore(self._state), first["home"], parcels, beat)
        yield from self._rows(own, first["home"], beat)


def forgetful(program: "Program") -> Any:
    """A home that keeps nothing, as a function for ``DataFrame.mapInArrow``: all that it gets leaves at once."""
    from unskew.apps.keyed.home import meet
    from unskew.apps.keyed.parcels import OUT, Parcel
    from unskew.apps.keyed.program import Beat
    from unskew.apps.keyed.store import MemoryStore
    from unskew.apps.topology.router import batch_number

    def home(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        schema = None
        for batch in batches:
            schema = batch.schema
            out = pa.array([kind in OUT for kind in batch.column("kind").to_pylist()])
            yield batch.filter(out)
            rows += batch.filter(pa.array([not each.as_py() for each in out])).to_pylist()
        if rows:
            rows.sort(key=lambda row: (row["sender"], row["number"]))
            first = rows[0]
            beat = Beat(batch_number() or 0, first["batch_ms"], first["watermark_ms"])
            parcels = [Parcel(row["kind"], row["home"], row["blob"]) for row in rows]
            told = [
                first | {"kind": parcel.kind, "sender": first["home"], "number": number, "blob": parcel.blob}
                for number, parcel in enumerate(meet(program, MemoryStore(), first["home"], parcels, beat))
            ]
            yield pa.RecordBatch.from_pylist(told, schema=schema)

    return home
