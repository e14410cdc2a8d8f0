"""A stage and its tasks, as an event log or the REST API tells of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: What a task has to do, in the order in which a finding prefers to speak of it → the unit in a sentence.
LOADS = {"rows_read": "rows", "bytes_read": "bytes", "rows_written": "rows written", "bytes_written": "bytes written"}


class Task(NamedTuple):
    """The attempt of a task that succeeded. Times are in ms, those of day since 1970.

    Attributes
    ----------
    partition : int
        Its number in the stage: the partition of a shuffle, or of a state store.
    attempt : int
        0, unless earlier attempts have failed.
    executor, host, locality : str
        Where it ran, and how near that is to its data, in Spark's words.
    launch, finish : int
        When it was launched, and when the driver knew that it had finished.
    run : int
        The time in which it worked: without its start, its waiting for the scheduler, and the way of its result.
    cpu : int
        The time in which its thread computed. What it waits for Python or for another machine isn't in it.
    rows_read, bytes_read : int
        Of shuffles and of files.
    rows_shuffled : int
        Those of shuffles.
    rows_written, bytes_written : int
        To a shuffle and to files.
    gc, wait : int
        The JVM's garbage collection while it ran, and the waiting for other executors' shuffle blocks.
    spilled : int
        Bytes on disk, for want of memory.
    state_rows : int
        The rows of its state stores. -1: it has none.

    """

    partition: int
    attempt: int
    executor: str
    host: str
    locality: str
    launch: int
    finish: int
    run: int
    cpu: int
    rows_read: int
    bytes_read: int
    rows_shuffled: int
    rows_written: int
    bytes_written: int
    gc: int
    wait: int
    spilled: int
    state_rows: int = -1


@dataclass(slots=True)
class StageTasks:
    """A stage, what it belongs to, and its tasks.

    Attributes
    ----------
    stage, attempt : int
        Spark's numbers.
    name : str
        What Spark calls it: the call and its line, such as ``save at Job.scala:12``.
    query : str
        The SQL text or the description of the job that it belongs to. Empty: there is none.
    stream : str
        The id of the streaming query. Empty: it belongs to none.
    batch : int
        The stream's batch. -1: it belongs to none.
    nodes : list of str
        The operators of Spark SQL that ran in it, the last one first.
    keys : list of str
        The columns by whose hash the rows came to the tasks. Empty: they came otherwise.
    slots : int
        The tasks that could run at once. 0: unknown.
    failed : int
        The attempts of tasks that failed.
    tasks : list of Task
        Those that succeeded.

    """

    stage: int
    attempt: int = 0
    name: str = ""
    query: str = ""
    stream: str = ""
    batch: int = -1
    nodes: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    slots: int = 0
    failed: int = 0
    tasks: list[Task] = field(default_factory=list)

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
        """From the first launch of a task to the last end of one (s)."""
        return (max(task.finish for task in self.tasks) - min(task.launch for task in self.tasks)) / 1000

    @property
    def concurrency(self) -> int:
        """The tasks that can run at once: the slots, or at least one for each executor."""
        return self.slots or len({task.executor for task in self.tasks})


def compare_to_median(numbers: Sequence[float] | NDArray[np.float64]) -> float:
    """The greatest number over the median; over the mean, if the median is 0. 1.0: all are 0.

    >>> compare_to_median([1, 1, 5]), compare_to_median([0, 0, 6]), compare_to_median([0, 0])
    (5.0, 3.0, 1.0)
    """
    greatest = float(np.max(numbers))
    return greatest / float(np.median(numbers) or np.mean(numbers)) if greatest else 1.0
