"""Chooses the time between batches: no pause during a backlog, and few batches while no messages come.

A batch writes ten small files. An idle stream gets only the batches that its windows and states need.
"""

import threading
import time
from collections.abc import Mapping
from typing import Self

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.driver.batch_committer import BatchReport
from unskew.apps.driver.dataflow import Dataflow
from unskew.apps.settings import Settings
from unskew.kafka.reader import EndOffsets

_MOST = 60.0  # s; so that an idle run doesn't seem to hang
_LOOK_EVERY = 0.5  # s


def choose_trigger(settings: Settings) -> str:
    """Spark's trigger for a run.

    If it is 0, ``IdleWait`` waits instead, before Spark commits the batch, so Spark's progress includes the wait in the
    batch's time.
    """
    return f"{settings.spark_trigger_ms} milliseconds"


class IdleWait:
    """A context manager that waits at the end of a batch until the next one is needed, or the event ``halt`` is set.

    The heartbeat causes a batch at every trigger. One is needed when messages have come, or an open window has ended,
    and from time to time for states, which expire and merge in batches. While ``draining`` is set, batches without
    messages are needed, too: the run ends when the last windows are published.
    """

    def __init__(self, dataflow: Dataflow, halt: threading.Event, draining: threading.Event) -> None:
        self._settings = dataflow.settings
        self._halt, self._draining = halt, draining
        self._patience = min([_MOST, *(ms / 1000 for ms in dataflow.stage.waits)])

    def __enter__(self) -> Self:
        """Connect to Kafka."""
        self._ends = EndOffsets(self._settings.connection, self._settings.topic)
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        del self._ends

    def __call__(self, report: BatchReport, ahead_ms: int) -> None:
        """Wait for the trigger after a batch that wasn't full, and after one without messages until another is needed.

        ``ahead_ms``: how far batch time is ahead of the clock.
        """
        batch, totals = report.batch, report.totals
        if not self._settings.spark_trigger_ms and not self._full(batch):
            since = time.time() - (batch.time_ms - ahead_ms) / 1000
            self._halt.wait(min(self._settings.trigger, max(0.0, self._settings.trigger - since)))
        if batch.start != batch.end or report.windows or self._draining.is_set():
            return
        until = time.monotonic() + _MOST
        if self._settings.time == "batch" and batch.watermark_ms < totals.last_window_end_ms:
            # The first batch after the window's end moves the watermark, and the next one publishes the window. If
            # heartbeats are ahead, a batch before its end does.
            slide_ms = self._settings.slide_ms
            next_end_ms = min(totals.last_window_end_ms, (batch.watermark_ms // slide_ms + 1) * slide_ms)
            moves_ms = next_end_ms - self._settings.heartbeat_lead_ms
            left = (moves_ms - ahead_ms) / 1000 - time.time()
            until = min(until, time.monotonic() + left)
        if report.states is not None and report.states.states.any():
            until = min(until, time.monotonic() + self._patience)
        while time.monotonic() < until and not self._has_arrivals(batch.end[self._settings.topic]):
            if self._draining.is_set() or self._halt.wait(min(_LOOK_EVERY, max(0.0, until - time.monotonic()))):
                return

    def _full(self, batch: Batch) -> bool:
        """Whether the batch reached its limit of messages; Spark rounds each partition's share down."""
        name = self._settings.topic
        before, after = batch.start.get(name, {}), batch.end.get(name, {})
        return sum(after.values()) - sum(before.values()) >= self._settings.batch_limit - len(after)

    def _has_arrivals(self, taken: Mapping[str, int]) -> bool:
        # Spark doesn't read open transactions: their messages haven't arrived.
        committed = self._settings.connection.reads_committed

        def is_stopped() -> bool:
            return self._halt.is_set() or self._draining.is_set()

        ends = self._ends.ask(map(int, taken), committed=committed, stopped=is_stopped)
        return any(end > taken[str(partition)] for partition, end in ends.items())  # no broker, no messages
