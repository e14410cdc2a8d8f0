"""Runs a topology in a background thread with a Spark session."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from unskew.apps.aggregator.publisher import list_result_topics
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.job_summary import JobSummary, JobTally
from unskew.apps.driver.listeners import Follower
from unskew.apps.driver.session import borrow_session, claim_session, open_session, release_session
from unskew.apps.driver.streaming_job import JobOutcome, StreamingJob
from unskew.apps.settings import Settings
from unskew.durations import Duration, parse_seconds


class TopologyHandle:
    """A running topology, and a context manager that stops it.

    ``Topology.start`` returns it.

    Parameters
    ----------
    settings : Settings
        The run's.
    listeners, followers : sequences of callables
        As for ``unskew.apps.driver.streaming_job.StreamingJob``.
    spark : SparkSession, optional
        The user's session, which stays as it is. Default: a session that ends with the run.

    Raises
    ------
    UsageError, EnvironmentFault
        As for ``StreamingJob``.

    """

    def __init__(
        self,
        settings: Settings,
        listeners: Sequence[Callable[[BatchReport], None]] = (),
        followers: Sequence[Follower] = (),
        spark: SparkSession | None = None,
    ) -> None:
        self._settings = settings
        self._tally = JobTally(settings.grouping)
        self._run = StreamingJob(settings, [self._tally, *listeners], followers)
        self._owns = spark is None
        if self._owns:
            claim_session()
        self._session = lambda: open_session(settings) if spark is None else borrow_session(spark, settings)
        self._outcome: JobOutcome | None = None
        self._error: BaseException | None = None
        self._begun = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._work, name=f"unskew {settings.name}", daemon=True).start()

    def _work(self) -> None:
        try:
            if self._run.await_turn():
                self._begun.set()
                made: AbstractContextManager[SparkSession] = self._session()
                with made as spark:
                    self._outcome = self._run.run(spark)
        except BaseException as error:  # noqa: BLE001  `wait` raises it, in the thread of who waits
            self._error = error
        finally:
            if self._owns:
                release_session()
            self._ended.set()

    def __enter__(self) -> Self:
        """The handle itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the run after the current batch, and wait for its end. Raise as ``wait``, unless the block raised."""
        self.stop()
        if error is None:
            self.wait()
        else:
            with suppress(Exception):
                self.wait()

    @property
    def topics(self) -> dict[str, str]:
        """Result topics by role: aggregator, distribution, rejected, and results (of a keyed operator)."""
        return list_result_topics(self._settings)

    @property
    def end_offset_sum(self) -> int:
        """How many messages the topic had ever had when the run began or was last told to drain."""
        return self._run.end_offset_sum

    @property
    def has_begun(self) -> bool:
        """Whether the run has begun to start Spark. Before that, it may wait for another driver to end."""
        return self._begun.is_set()

    @property
    def outcome(self) -> JobOutcome | None:
        """How the run ended; None if it hasn't, or was stopped before it began."""
        return self._outcome

    def stop(self) -> None:
        """End the run after the current batch, without waiting for it."""
        self._run.stop()

    def wait(self, timeout: Duration | None = None, *, drained: bool = False) -> bool:
        """Wait for the run's end.

        Parameters
        ----------
        timeout : timedelta, number (s) or str, optional
            How long to wait. Default: no limit.
        drained : bool
            Whether the run ends when all present messages of the topic are counted, and their windows published.

        Returns
        -------
        bool
            Whether the run has ended; with ``drained``, whether all these messages are counted and published.

        Raises
        ------
        UsageError, EnvironmentFault
            The run failed. Restarted, it resumes from its checkpoint.

        """
        limit = None if timeout is None else parse_seconds("timeout", timeout)
        if drained:
            self._run.drain()
        ended = self._ended.wait(limit)
        if self._error is not None:
            raise self._error
        if not drained or self._outcome is None:
            return ended and not drained
        return self._outcome.drained and self._run.counted == self._run.end_offset_sum

    def balance(self) -> JobSummary:
        """The balance so far, which prints as one line.

        Returns
        -------
        JobSummary
            ``std_dev`` (STD_DEV), ``dist_cost`` (DIST_COST), ``straggling`` (the slowest worker's time divided by the
            mean), ``tuples_per_second``, ``loads`` ([W] tuples), and others.

        """
        return self._tally.summary()
