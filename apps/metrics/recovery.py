"""How long a run takes to recover: from its start until no more messages wait than before it was stopped.

The lag before the stop is kept in the checkpoint, because a process that was killed leaves nothing else.
"""

import time
from collections.abc import Callable

import orjson

from unskew.apps.checkpoint.location import Location, Where

_LAG = "lag.json"


class LastLag:
    """A checkpoint's last known lag: the messages of all partitions that waited after a batch.

    Its file is written as a whole, and only if the lag has changed. No count depends on it. If no run has written one
    that can be read, ``messages`` is None.

    Raises ``EnvironmentFault`` if the checkpoint can't be read.
    """

    def __init__(self, checkpoint: Where) -> None:
        self._folder = Location.of(checkpoint).folder("unskew")
        self.messages = self._read()

    def set(self, messages: int) -> None:
        """Write the lag. Raises as the class does."""
        if messages != self.messages:
            self._folder.write(_LAG, orjson.dumps({"messages": messages}))
            self.messages = messages

    def _read(self) -> int | None:
        try:
            return int(orjson.loads(self._folder.read(_LAG))["messages"])
        except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None


class Recovery:
    """Measures a run's recovery, batch by batch, if the lag before its stop is known. The run starts with this call.

    A run that is stopped before it has recovered isn't measured. The next run then recovers to the lag at that stop.
    """

    def __init__(self, before: int | None, now: Callable[[], float] = time.monotonic) -> None:
        self._before = before
        self._now = now
        self._start = now()

    def after(self, lag: int) -> float | None:
        """How long the recovery took (s), once: after the first batch that leaves no more than ``before`` messages."""
        if self._before is None or lag > self._before:
            return None
        self._before = None
        return self._now() - self._start
