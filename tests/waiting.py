"""Waiting for what another process does in its own time, with a limit that only a broken one reaches."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

#: Seconds that a test waits at most; the busiest machine needs less.
PATIENCE = 600

T = TypeVar("T")


def awaited(probe: Callable[[], T], what: object = "", every: float = 0.1) -> T:
    """Wait for `what`: call `probe` until its result is true, `every` so many seconds; that result."""
    deadline = time.monotonic() + PATIENCE
    while not (found := probe()):
        assert time.monotonic() < deadline, what
        time.sleep(every)
    return found


def gone(pid: int) -> bool:
    """Wait until the process has ended; true then."""

    def ended() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    return awaited(ended, f"the end of process {pid}")
