"""Queries that are a user's own, which nothing starts again when Spark's Python for planning comes too late (10 s)."""

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import StreamingQueryException

from unskew.apps.driver.termination import LatePython, translate_failure

_ATTEMPTS = 5
_T = TypeVar("_T")


def in_time(attempt: Callable[[int], _T]) -> _T:
    """What an attempt gives; they are numbered, and another follows only where a busy machine's Python was late."""
    for number in range(_ATTEMPTS - 1):
        try:
            return attempt(number)
        except StreamingQueryException as error:
            if not isinstance(translate_failure(error), LatePython):
                raise
    return attempt(_ATTEMPTS - 1)
