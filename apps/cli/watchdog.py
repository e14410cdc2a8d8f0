"""Ends a run that hangs, so that a service manager can restart it."""

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Self

from unskew.log_format import report_failure
from unskew.spark.compat import kill_jvm

#: The exit code of a run that the watchdog has ended.
HUNG = 4
_FIRST = 600.0  # s; Spark starts, and the groupings' compiler
_LOOK_EVERY = 1.0  # s


class Watchdog:
    """Ends the process if the run has committed no batch for some time. It is a context manager, and follows progress.

    A run that hangs can't end in order, because it waits for its batch. So the process ends at once, with its JVM, as
    if it had been killed: the checkpoint has what a killed run leaves, and the next run goes on from there. A run that
    waits for another driver isn't watched.

    The watchdog counts the seconds that it has waited itself. So a machine that was suspended doesn't count.

    Parameters
    ----------
    limit : float or None
        After how many seconds without a batch the process ends. The first batch has ten minutes at least. None: never.
    begun : callable
        Whether the run is no longer waiting for another driver.
    end : callable
        What ends the process. It gets the seconds without a batch.

    """

    def __init__(
        self, limit: float | None, begun: Callable[[], bool], end: Callable[[float], None] | None = None
    ) -> None:
        self._limit = limit
        self._begun = begun
        self._end = end or _end_process
        self._allowed = max(limit or 0.0, _FIRST)
        self._waited = 0.0
        self._over = threading.Event()

    def __enter__(self) -> Self:
        """Watch from a separate thread."""
        if self._limit is not None:
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def progress(self, _: Mapping[str, Any]) -> None:
        """Record that a batch is committed."""
        self._waited = 0.0
        self._allowed = self._limit or 0.0

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            if self.look(_LOOK_EVERY):
                return

    def look(self, seconds: float) -> bool:
        """Whether the run hangs, so many seconds after the last look. If it does, the process is ended."""
        if not self._begun():
            return False
        self._waited += seconds
        if self._waited <= self._allowed:
            return False
        self._end(self._waited)
        return True


def _end_process(seconds: float) -> NoReturn:
    report_failure(
        f"no batch has ended for {seconds:.0f} s, so this run ends (--batch-timeout); start it again, and it goes on "
        "from its checkpoint",
        HUNG,
    )
    kill_jvm()
    os._exit(HUNG)
