"""Supervises a run's clocks: this machine's, the brokers', and those of the messages' times.

Batch time follows this machine's clock, which may be wrong, or be set while a query runs. If another clock shows that,
batch time gets a lead over this one (``BatchClock``), which may be negative, until this clock is right again.
"""

import logging
import time

from unskew.apps.checkpoint.checkpoint import Batch
from unskew.apps.checkpoint.lease import Lease
from unskew.apps.checkpoint.versions import BatchClock
from unskew.apps.settings import Settings
from unskew.apps.splitter.kafka_source import find_newest_ms, is_contradicted
from unskew.kafka.clock import broker_time

log = logging.getLogger(__name__)

_ASK_EVERY = 60.0  # s
_SET_BACK = 1.0  # s; a clock that goes back by less is slewed, and the query waits for it


class ClockSupervisor:
    """Decides before each batch which lead batch time has over the clock, and when a query must restart for it.

    Call ``begin_query`` first. The thread that runs the batches calls ``change_lead``, and the one that waits for the
    query ``is_set_back``. The query must restart (``restarts``) when the lead has changed or the clock was set back.
    """

    def __init__(self, settings: Settings, lease: Lease) -> None:
        self.restarts = False
        self._settings = settings
        self._lease = lease
        self._agreed = False  # whether the topic's messages or the brokers agree with the clock
        self._ask_again = 0.0  # the earliest monotonic time of the next request to the brokers
        self._before_ms: int | None = None  # the time of the query's previous batch

    def begin_query(self, clock: BatchClock, unplanned: int) -> None:
        """Start with a query: the checkpoint's clock, and the number of the first batch that the query plans itself."""
        self.restarts = self._agreed = False
        self._before_ms = None
        self._clock, self._unplanned = clock, unplanned
        self._set_at = _get_offset()

    def is_set_back(self) -> bool:
        """Whether this machine's clock was set back since the last call. If it was set forward, other clocks are
        checked anew.

        Spark waits until the clock shows the planned time of its next trigger. So the query must restart.
        """
        set_now = _get_offset()
        if set_now < self._set_at - _SET_BACK:
            self.restarts = True
            return True
        if set_now > self._set_at + _SET_BACK:
            self._agreed = False
        self._set_at = max(self._set_at, set_now)  # a clock set forward may be corrected later
        return False

    def change_lead(self, batch: Batch) -> bool:
        """Whether batch time's lead over the clock changes before a batch, which then restarts with it.

        Raises ``LeaseLost`` if another driver has taken over the checkpoint; ``EnvironmentFault`` if the topic or the
        checkpoint can't be read, or the lead can't be written.
        """
        lead_ms = self._clock.ahead_ms
        if self._settings.time == "batch":
            ahead_ms, of = self._find_lead_of_batches(batch), "that of the batch before"
        else:
            ahead_ms, of = self._find_lead_of_brokers(batch), "the brokers' clock"
        if ahead_ms is None or ahead_ms == lead_ms:
            self._before_ms = batch.time_ms
            return False
        self.restarts = True
        if ahead_ms > max(0, lead_ms):
            log.warning("the clock is %.1f s behind %s: batch time goes on from there", ahead_ms / 1000, of)
        elif ahead_ms < 0:
            log.warning("the clock is %.1f s ahead of the brokers' clock: batch time goes by theirs", -ahead_ms / 1000)
        elif lead_ms < 0:
            log.warning("batch time is no longer %.1f s behind the clock", -lead_ms / 1000)
        else:
            log.warning("batch time is no longer %.1f s ahead of the clock", (lead_ms - ahead_ms) / 1000)
        self._lease.require()  # the brokers' answer may have taken long
        self._clock.set_ahead(batch.number, ahead_ms)
        return True

    def _find_lead_of_batches(self, batch: Batch) -> int | None:
        """The least lead (ms) of a right batch time that continues the previous batch's. None: it stays.

        A lead ends at once, when the clock has reached batch time, not gradually. A batch planned by an earlier query
        may have had effects with its time, so it keeps its lead if it can.
        """
        ahead_ms = self._clock.ahead_ms
        planned_ms = batch.time_ms - ahead_ms
        right = self._find_lead_over_wrong_clock(batch, planned_ms)
        least = max(right, batch.watermark_ms - planned_ms)
        if least > ahead_ms:
            return least
        answered = right != min(0, ahead_ms)
        return least if batch.number >= self._unplanned and (least == right or answered) else None

    def _find_lead_over_wrong_clock(self, batch: Batch, planned_ms: int) -> int:
        """The lead (ms) that batch time should have: 0, or negative if this clock is ahead of the brokers'.

        Windows in the future couldn't be undone, because the watermark doesn't go back. So before a query's first new
        batch the brokers are asked, once and again after the clock was set, unless the previous batch or a message is
        nearly as new as the clock.
        """
        before = min(0, self._clock.ahead_ms)
        if self._agreed or batch.number < self._unplanned:
            return before
        self._agreed = True
        doubted_ms = planned_ms - 1000 * self._settings.max_ahead
        if batch.watermark_ms >= doubted_ms or find_newest_ms(self._settings) >= doubted_ms:
            return 0
        there = broker_time(self._settings.connection, self._topic)
        if there is None:
            log.info("the brokers' clock can't be asked for (topic %s)", self._topic)
            return before
        lead = min(0, there - round(1000 * time.time()))
        return lead if abs(lead - before) > 1000 * _SET_BACK else before

    def _find_lead_of_brokers(self, batch: Batch) -> int | None:
        """How far (ms) the brokers' clock is ahead of this one, at least 0. None: batch time's lead stays.

        The brokers are asked if a message is from the future, or if batch time has a lead. The message alone decides
        nothing, because a producer may give it any time. After an answer, or if messages agree with the clock, they
        aren't asked until the clock is set; without an answer, again a minute later.

        A batch planned by an earlier query may have rejected messages already, so its time stays.
        """
        lead_ms = self._clock.ahead_ms
        if self._before_ms is not None and batch.time_ms < self._before_ms - 1000 * _SET_BACK:
            self._agreed = False
        looks = not self._agreed and time.monotonic() >= self._ask_again
        if not looks or batch.number < self._unplanned or batch.start == batch.end:
            return None
        doubted = is_contradicted(self._settings, batch.time_ms)
        self._agreed = doubted is not None
        if not doubted and not lead_ms:
            return None
        there = broker_time(self._settings.connection, self._topic)
        if there is None:
            self._agreed = False
            if not self._ask_again:
                log.warning(
                    "the brokers' clock can't be asked for (topic %s): whether this machine's is right is not known",
                    self._topic,
                )
            self._ask_again = time.monotonic() + _ASK_EVERY
            return None
        ahead_ms = max(0, there - round(1000 * time.time()))
        return ahead_ms if abs(ahead_ms - lead_ms) > 1000 * _SET_BACK else None

    @property
    def _topic(self) -> str:
        """The topic of the messages with which brokers are asked for their time."""
        return f"{self._settings.topic}-unskew-clock"


def _get_offset() -> float:
    """The clock minus the monotonic time (s), which changes when the clock is set."""
    return time.time() - time.monotonic()
