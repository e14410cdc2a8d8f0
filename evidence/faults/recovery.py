"""How long a run is behind after a fault: its lag over time, and when that is what it was before the fault.

A run's *lag* is the number of messages that its topic has for readers and that no committed batch has taken. Where
messages come at a steady rate, a lag that doesn't grow means that batches take them at this rate.
"""

import contextlib
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]  it is public

from unskew.kafka.connection import Connection

_EVERY = 1.0  # s
_FRESH = 2.5  # s after which a number of messages says nothing of now
_TIMEOUT = 2.0  # s
_BEFORE = 10.0  # s before a fault


class Lag(NamedTuple):
    """A run's lag at a time (s, by the monotonic clock)."""

    at: float
    messages: int


def lag_before(lags: Iterable[Lag], began: float) -> int | None:
    """A run's lag before a fault that was inflicted at a time; None: it isn't known.

    A lag goes up and down with the batches. So the largest of the ten seconds before the fault counts.
    """
    return max((lag.messages for lag in lags if began - _BEFORE <= lag.at <= began), default=None)


def caught_up(lags: Iterable[Lag], before: int, since: float) -> float | None:
    """The time at which a run's lag is what it was before a fault; None: it isn't so far.

    ``lags``: In the order of time. ``before``: The lag before the fault. ``since``: What was before this time doesn't
    count: the next batch wasn't committed, or the fault's messages still came.
    """
    return next((lag.at for lag in lags if lag.at >= since and lag.messages <= before), None)


class Lags:
    """The lags of a run so far, since they were last forgotten."""

    def __init__(self) -> None:
        self.seen: list[Lag] = []

    def note(self, produced: Lag | None, taken: int, now: float) -> None:
        """Note the lag, if it is known how many messages the topic has now, and this wasn't noted yet."""
        if produced is None or now - produced.at > _FRESH or (self.seen and self.seen[-1].at >= produced.at):
            return
        self.seen.append(Lag(produced.at, max(0, produced.messages - taken)))

    def forget(self, before: float) -> None:
        """Forget what was before a time, so that the lag after one fault isn't taken for that before the next."""
        self.seen = [lag for lag in self.seen if lag.at >= before]


class Produced(threading.Thread):
    """A thread that looks every second how many messages a topic has for readers, until it is stopped.

    A broker that doesn't answer delays nobody but this thread.

    ``newest``: All messages so far, as if none had been taken.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(name="produced", daemon=True)
        self._connection, self._topic = connection, topic
        self._over = threading.Event()
        self.newest: Lag | None = None

    def run(self) -> None:
        """Look every second."""
        admin = self._connection.admin(**{"reconnect.backoff.max.ms": 200})
        while not self._over.wait(_EVERY):
            with contextlib.suppress(KafkaException, KeyError):  # no broker now, or no topic
                partitions = admin.list_topics(self._topic, timeout=_TIMEOUT).topics[self._topic].partitions
                wanted = {TopicPartition(self._topic, number): OffsetSpec.latest() for number in partitions}
                if wanted:
                    level = IsolationLevel.READ_COMMITTED
                    ends = admin.list_offsets(wanted, isolation_level=level, request_timeout=_TIMEOUT)
                    self.newest = Lag(time.monotonic(), sum(end.result().offset for end in ends.values()))

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self.join(3 * _TIMEOUT)
