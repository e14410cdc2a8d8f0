"""Ctrl-C as a wish: the load ends where it can, and says how far it came."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """While in the context, the first SIGINT or SIGTERM only makes the yielded function true; a second one kills."""
    received: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        received.append(number)
        for each in before:
            signal.signal(each, signal.SIG_DFL)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
