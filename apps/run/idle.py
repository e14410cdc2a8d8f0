"""Between batches: no pause while a backlog is left; and an idle stream has no more batches than its windows need.

Each batch is ten small files.
"""

import threading
import time
from collections.abc import Mapping
from typing import Self

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.topology.settings import Settings
from unskew.apps.topology.sink import BatchReport

_MOST = 60.0  # s; whoever watches a run must be able to tell an idle one from one that hangs
_LOOK_EVERY = 0.5  # s
_FULL = 1.0  # s that a batch takes at least which is as large as our own limits let it be
_SETTINGS = {"group.id": "unskew", "enable.auto.commit": False, "log_level": 0}  # without a broker: no word a retry


def trigger(settings: Settings) -> str:
    """Spark's trigger.

    Spark waits for its next trigger though the batch was full and more messages wait. Where full batches may be short,
    its trigger is none, and ``Idle`` waits in its place; it does so before the batch is committed, which is told as a
    part of the batch's time.
    """
    return "0 seconds" if _paced(settings) else f"{settings.trigger} seconds"


def _paced(settings: Settings) -> bool:
    return settings.max_tuples is not None or settings.trigger > _FULL


class Idle:
    """Waits, at the end of a batch, until there is something to do; a context manager.

    The heartbeat calls for a batch at every trigger. What one is needed for: messages have come, or a window is open
    and its time is over.

    Parameters
    ----------
    settings : Settings
        The run's.
    halt : threading.Event
        Ends every wait.

    """

    def __init__(self, settings: Settings, halt: threading.Event) -> None:
        self._settings = settings
        self._halt = halt
        # States that expire, or meet, do so in batches.
        states = settings.states
        ttl_ms = states.ttl_ms if states else None
        period = states.merge_period if states else None
        self._patience = min([_MOST, *(ms / 1000 for ms in (ttl_ms, period.ms if period else None) if ms)])

    def __enter__(self) -> Self:
        """Begin."""
        from confluent_kafka import Consumer

        connection = self._settings.connection
        # A consumer asks for the end of a partition on a connection that it keeps; it belongs to no group.
        self._consumer = Consumer(connection.client(**_SETTINGS))
        return self

    def __exit__(self, *_: object) -> None:
        """Let the client go."""
        self._consumer.close()

    def __call__(self, report: BatchReport, ahead_ms: int) -> None:
        """Wait if the batch was idle and the next would be; ``ahead_ms``: of batch time before the clock."""
        batch, totals = report.batch, report.totals
        if _paced(self._settings) and not self._full(batch):
            since = time.time() - (batch.time_ms - ahead_ms) / 1000
            self._halt.wait(min(self._settings.trigger, max(0.0, self._settings.trigger - since)))
        if batch.start != batch.end or report.windows or self._settings.until_drained:
            return
        until = time.monotonic() + _MOST
        if self._settings.time == "batch" and batch.watermark_ms < totals.last_window_end_ms:
            # The first batch after the window's end moves the watermark, the next one gives it out.
            left = (totals.last_window_end_ms - ahead_ms) / 1000 - time.time()
            until = min(until, time.monotonic() + left)
        if report.held is not None and report.held.states.any():
            until = min(until, time.monotonic() + self._patience)
        while time.monotonic() < until and not self._arrived(batch.end[self._settings.source_name]):
            if self._halt.wait(min(_LOOK_EVERY, max(0.0, until - time.monotonic()))):
                return

    def _full(self, batch: Batch) -> bool:
        """Whether the batch took as many messages as it may; Spark rounds each partition's share down."""
        name = self._settings.source_name
        before, after = batch.start.get(name, {}), batch.end.get(name, {})
        return sum(after.values()) - sum(before.values()) >= self._settings.batch_limit - len(after)

    def _arrived(self, taken: Mapping[str, int]) -> bool:
        from confluent_kafka import KafkaException, TopicPartition

        topic = self._settings.source_name
        try:
            return any(
                self._consumer.get_watermark_offsets(TopicPartition(topic, int(partition)), timeout=5.0)[1] > offset
                for partition, offset in taken.items()
            )
        except KafkaException:
            return False  # no broker, no messages
