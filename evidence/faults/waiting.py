"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def await_condition(
    probe: Callable[[], T], patience: float, wait: Callable[[float], None] = time.sleep, every: float = 0.2
) -> T:
    """Call ``probe`` until what it returns is true, or for so many seconds; what it has returned last.

    ``wait``: Lets the time ``every`` (s) pass between two calls.
    """
    until = time.monotonic() + patience
    while not (found := probe()) and time.monotonic() < until:
        wait(every)
    return found
