"""Staying in the foreground with a server until the user has had enough."""

import signal
import time
from collections.abc import Callable


class Foreground:
    """From now on Ctrl-C, SIGTERM and SIGHUP (a closing terminal) are a wish to stop in good order."""

    def __init__(self) -> None:
        self._wished = False
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, self._wish)

    def stay(self, alive: Callable[[], bool]) -> bool:
        """Wait until the user wishes to stop (then the answer is True), or the server has ended by itself."""
        while alive() and not self._wished:
            time.sleep(0.1)
        return self._wished

    def _wish(self, *_: object) -> None:
        self._wished = True
