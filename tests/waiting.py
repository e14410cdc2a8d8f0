"""Waiting for what another process does in its own time; a limit that only a broken one reaches."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

_PATIENCE = 60  # s

T = TypeVar("T")


def awaited(ask: Callable[[], T], what: object = "") -> T:
    """The first answer that is true."""
    deadline = time.monotonic() + _PATIENCE
    while not (found := ask()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def gone(pid: int) -> bool:
    """Whether the process has ended, after a while."""

    def ended() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    return awaited(ended, f"the end of process {pid}")
