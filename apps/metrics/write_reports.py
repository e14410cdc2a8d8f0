"""What ``balanced_write`` has done for the batches of streams, as this process keeps it for ``watch``."""

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class WriteReport:
    """What ``balanced_write`` has planned. Rows of divided partitions draw their writers, so it holds up to chance.

    Attributes
    ----------
    files : int
        The files. There are fewer if a writer draws no row of a partition.
    partitions : int
        The partitions that have rows.
    divided : int
        The partitions of several writers.
    writers : int
        The writers, at most ``workers``.
    fullest : float
        The cost of the fullest writer, over the mean.
    rows : int
        The rows.
    cost : float
        The cost of all rows: by default their bytes, before any encoding and compression.

    """

    files: int
    partitions: int
    divided: int
    writers: int
    fullest: float
    rows: int
    cost: float

    def __repr__(self) -> str:
        return (
            f"WriteReport(files={self.files}, partitions={self.partitions}, divided={self.divided}, "
            f"writers={self.writers}, fullest={self.fullest:.3f}, rows={self.rows}, cost={self.cost:.0f})"
        )


@dataclass(frozen=True)
class BatchWrite:
    """A write of a stream's batch."""

    batch: int  #: The batch's number.
    time: datetime  #: When it was written (UTC).
    seconds: float  #: How long ``balanced_write`` took.
    workers: int  #: W, as it was given.
    report: WriteReport  #: What it returned.


#: (A query's id, a write), of all queries of this process.
_WRITES: deque[tuple[str, BatchWrite]] = deque(maxlen=1_000)


def record_write(query_id: str, batch: int, seconds: float, workers: int, report: WriteReport) -> None:
    """Keep the report of a write that is done. Of all queries, the last 1,000 writes are kept."""
    _WRITES.append((query_id, BatchWrite(batch, datetime.now(UTC), seconds, workers, report)))


def read_writes(query_id: str) -> list[BatchWrite]:
    """The last writes of a query's batches, oldest first."""
    return [write for owner, write in [*_WRITES] if owner == query_id]
