"""The stage of the workers: what they do with the tuples, and how their rows become the results of closed windows.

There are two: ``counting`` counts tuples by key, after a function of the user's if there is one. ``keyed`` runs a keyed
work, which has a state per key, and counts too.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pyspark.sql import DataFrame

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.metrics.task_reports import Reports, StateSummary, TaskReports
from unskew.apps.router.planner_protocol import PlannerAddress
from unskew.apps.router.router import Routing
from unskew.apps.settings import Settings
from unskew.apps.splitter.splitter import Splitter


@dataclass(frozen=True)
class QueryContext:
    """What one query of a run is told, besides the run's settings."""

    reports: Reports | None = None  #: Where tasks report to the driver. None: they don't.
    #: By event time only: the watermark advances to this moment. Windows before it close even if no tuple is later.
    flush_at: datetime | None = None
    ahead_ms: int = 0  #: How much batch time is ahead of Spark's (``unskew.apps.checkpoint.versions.BatchClock``).
    #: Whether to limit the bytes that Python gets at a time (``unskew.apps.splitter.kafka_source.open_topic``).
    count_bytes: bool = False
    planner: PlannerAddress | None = None  #: The planner of the query, if its grouping plans batches.
    #: What the tasks do with the counts that have changed (``unskew.apps.aggregator.changes.ChangePublisher``), in a
    #: run that publishes changes.
    publish_changes: Callable[[DataFrame], DataFrame] | None = None


@dataclass(frozen=True)
class WorkerStage(ABC):
    """The stage of one run. Its settings are checked when it is made."""

    settings: Settings

    keyed: ClassVar[bool] = False  #: Whether the workers have states.

    @property
    def conf(self) -> dict[str, str]:
        """Spark's settings for such a run."""
        return {}

    @property
    def topics(self) -> dict[str, str]:
        """Role → topic of results, besides the topics that each run has."""
        return {}

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that a checkpoint records of such a run, besides the settings' own."""
        return {}

    def changed_fields(self, claimed: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a checkpoint's record that change when this run resumes from it."""
        return {}

    @property
    def by_worker(self) -> bool:
        """Whether workers wait side by side only if each has a partition of the state."""
        return False

    @property
    def whole(self) -> bool:
        """Whether a key has one state, at one worker, so that it moves with the key."""
        return False

    @property
    def waits(self) -> tuple[int, ...]:
        """Times (ms) after which states need a batch, even if no messages come."""
        return ()

    @property
    def tail_ms(self) -> int:
        """By event time, how long after the last tuple states may publish results, apart from a window's end (ms)."""
        return 0

    def is_merged(self, states: StateSummary | None, end_ms: int) -> bool:
        """Whether all fragments of states have been merged since that time."""
        return True

    @abstractmethod
    def rows(self, messages: DataFrame, splitter: Splitter, routing: Routing, query: QueryContext) -> DataFrame:
        """The rows of closed windows, as ``unskew.apps.driver.dataflow.Dataflow.rows`` has them.

        The messages are a stream, as ``unskew.apps.splitter.kafka_source.select_messages`` gives it.
        """

    @abstractmethod
    def execute_batch(
        self,
        rows: DataFrame,
        batch: Batch,
        record: Mapping[str, Any],
        publish: Callable[[DataFrame, str], None],
        *,
        may_close: bool,
    ) -> AbstractContextManager[DataFrame | None]:
        """Execute a batch, given its rows, and the checkpoint's record of its run (``Checkpoint.read_record``).

        ``publish`` writes records (columns ``key`` and ``value``) to the topic of a role. The context manager gives the
        counts of the windows that the batch closes, if it may close one. The batch's execution may still be pending in
        them. None: there are none, and the batch is executed.
        """

    def summary(self, reports: TaskReports) -> StateSummary | None:
        """The states after a batch. None: the workers have none."""
        return None

    def forget(self, reports: TaskReports, record: Mapping[str, Any]) -> None:  # noqa: B027  without states: nothing
        """Remove the states that had moved, and that their new workers have taken in by the batch."""
