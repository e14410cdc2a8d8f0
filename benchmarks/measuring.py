"""What several benchmarks measure alike."""

import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from benchmarks.processes import spent
from unskew.apps.run.ending import Halted, stop_between_batches


def on_slots(tasks: Iterable[int], slots: int) -> list[int]:
    """The load of each slot, where slots take tasks as they become free, in their order."""
    loads = [0] * slots
    for load in tasks:
        heapq.heapreplace(loads, loads[0] + load)
    return loads


@dataclass
class Batches:
    """A stream's batches: what each gave, and when it was over (wall and CPU, in s)."""

    given: list[object] = field(default_factory=list)
    over: list[tuple[float, float]] = field(default_factory=list)

    def seconds(self, warm: int) -> tuple[float, float]:
        """Wall and CPU seconds of the batches after the first ``warm`` ≥ 1."""
        (wall, spent), (first, before) = self.over[-1], self.over[warm - 1]
        return wall - first, spent - before


def batches(df: DataFrame, checkpoint: str, count: int, sink: Callable[[DataFrame], object]) -> Batches:
    """Run a stream for so many batches, as fast as it can, each given to ``sink``; its source must be capped."""
    found = Batches()

    def batch(rows: DataFrame, _: int) -> None:
        if len(found.over) == count:
            raise Halted
        found.given.append(sink(rows))
        found.over.append((time.monotonic(), spent()))

    query = df.writeStream.option("checkpointLocation", checkpoint).foreachBatch(batch).start()
    while len(found.over) < count:
        if query.awaitTermination(0.05):
            raise RuntimeError("the stream ended by itself")
    stop_between_batches(query)
    return found
