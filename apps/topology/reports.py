"""What the tasks of a batch tell the driver, beside their rows."""

from typing import Any

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

Entry = tuple[int, str, int]


class _Merge(AccumulatorParam[dict[Entry, Any]]):
    """Later entries replace earlier ones of the same task: a retried task counts once."""

    def zero(self, value: dict[Entry, Any]) -> dict[Entry, Any]:
        return {}

    def addInPlace(self, value1: dict[Entry, Any], value2: dict[Entry, Any]) -> dict[Entry, Any]:  # noqa: N802
        value1.update(value2)
        return value1


class Reports:
    """A mailbox from tasks to the driver: one entry a (batch, stage, partition).

    Made on the driver, sent to the tasks inside their functions. Spark delivers an entry when its task has succeeded.
    """

    def __init__(self, context: SparkContext) -> None:
        self._entries: Accumulator[dict[Entry, Any]] = context.accumulator({}, _Merge())

    def send(self, batch: int, stage: str, partition: int, report: dict[str, Any]) -> None:
        """Called in a task: tell the driver (a later call of the same task replaces an earlier one)."""
        self._entries.add({(batch, stage, partition): report})

    def take(self, batch: int) -> dict[str, dict[int, dict[str, Any]]]:
        """Called on the driver once the batch's tasks are done: stage → partition → report. Older ones are dropped."""
        entries = self._entries.value
        taken: dict[str, dict[int, dict[str, Any]]] = {}
        for entry in [e for e in entries if e[0] <= batch]:
            report = entries.pop(entry)
            if entry[0] == batch:
                taken.setdefault(entry[1], {})[entry[2]] = report
        return taken
