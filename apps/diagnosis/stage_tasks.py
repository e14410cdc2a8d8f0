"""A stage and its tasks, as in an event log or the REST API."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: A task's loads, in the order in which a finding prefers them → the unit in a sentence.
LOADS = {"rows_read": "rows", "bytes_read": "bytes", "rows_written": "rows written", "bytes_written": "bytes written"}


class Task(NamedTuple):
    """The successful attempt of a task. Durations are in ms, times in ms since the epoch."""

    partition: int  #: Its number in the stage: the partition of a shuffle, or of a state store.
    attempt: int  #: 0, unless earlier attempts failed.
    executor: str  #: Where it ran, and Spark's locality level.
    host: str
    locality: str
    launch: int  #: When it was launched, and when the driver learned that it had finished.
    finish: int
    run: int  #: Its run time: without start, scheduler delay and the return of its result.
    cpu: int  #: Its thread's CPU time, without waiting for Python or other machines.
    rows_read: int  #: From shuffles and files.
    bytes_read: int
    rows_shuffled: int  #: From shuffles.
    rows_written: int  #: To shuffles and files.
    bytes_written: int
    gc: int  #: The JVM's garbage collection while it ran, and its wait for other executors' shuffle blocks.
    wait: int
    spilled: int  #: Bytes spilled to disk.
    state_rows: int = -1  #: The rows of its state stores; -1 if it has none.


@dataclass(slots=True)
class StageTasks:
    """A stage, what it belongs to, and its tasks."""

    stage: int  #: Spark's numbers.
    attempt: int = 0
    name: str = ""  #: Spark's name: the call and its line, such as ``save at Job.scala:12``.
    query: str = ""  #: The SQL text or the description of its job; empty if there is none.
    stream: str = ""  #: The id of its streaming query; empty if it has none.
    batch: int = -1  #: The stream's batch; -1 if it has none.
    nodes: list[str] = field(default_factory=list)  #: Its Spark SQL operators, last first.
    keys: list[str] = field(default_factory=list)  #: The columns by whose hash rows were distributed, if so.
    slots: int = 0  #: The number of tasks that could run at once; 0 if unknown.
    failed: int = 0  #: The number of failed attempts.
    tasks: list[Task] = field(default_factory=list)  #: The successful ones.

    def get_numbers(self, name: str) -> NDArray[np.float64]:
        """One field of all tasks, as numbers."""
        return np.array([getattr(task, name) for task in self.tasks], float)

    @property
    def is_shuffled(self) -> bool:
        """Whether it reads a shuffle."""
        return any(task.rows_shuffled for task in self.tasks)

    @property
    def durations(self) -> NDArray[np.float64]:
        """How long each task took (s), from its launch on."""
        return (self.get_numbers("finish") - self.get_numbers("launch")) / 1000

    @property
    def seconds(self) -> float:
        """The time from the first task's launch to the last one's end (s)."""
        return (max(task.finish for task in self.tasks) - min(task.launch for task in self.tasks)) / 1000

    @property
    def concurrency(self) -> int:
        """The number of tasks that can run at once: the slots, or at least one per executor."""
        return self.slots or len({task.executor for task in self.tasks})


def compare_to_median(numbers: Sequence[float] | NDArray[np.float64]) -> float:
    """The maximum over the median, or over the mean if the median is 0; 1.0 if all are 0.

    >>> compare_to_median([1, 1, 5]), compare_to_median([0, 0, 6]), compare_to_median([0, 0])
    (5.0, 3.0, 1.0)
    """
    greatest = float(np.max(numbers))
    return greatest / float(np.median(numbers) or np.mean(numbers)) if greatest else 1.0
