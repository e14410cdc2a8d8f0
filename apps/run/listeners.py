"""Those who are told of a run: what fails them (a closed terminal, a full disk) never fails the run."""

import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

Told = TypeVar("Told")


class Listeners(Generic[Told]):
    """Tell each of them the same; one that fails is mentioned in the log the first time, and told again the next.

    Parameters
    ----------
    what : str
        What they are told of, in words.
    listeners : sequence of callables
        Called in this order.

    Attributes
    ----------
    failures : int
        Calls that have failed so far.

    """

    def __init__(self, what: str, listeners: Sequence[Callable[[Told], None]]) -> None:
        self.failures = 0
        self._what = what
        self._listeners = listeners
        self._mentioned: set[int] = set()

    def __call__(self, told: Told) -> None:
        """Tell them."""
        for number, listener in enumerate(self._listeners):
            try:
                listener(told)
            except Exception:
                self.failures += 1
                if number not in self._mentioned:
                    self._mentioned.add(number)
                    log.exception("a listener to the run's %s failed; it isn't mentioned again", self._what)
