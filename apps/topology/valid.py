"""Checks of settings: each raises ``UsageError``, naming the bad value and the valid ones."""

import re
from collections.abc import Iterable
from typing import Any

from annotated_types import Ge, Gt

from unskew.errors import UsageError


def one_of(name: str, value: str, valid: tuple[str, ...]) -> None:
    """Refuse a value that isn't one of these."""
    if value not in valid:
        raise UsageError(f"unknown {name} {value!r}; valid: {', '.join(valid)}")


def in_bounds(name: str, value: Any, metadata: Iterable[object]) -> None:
    """Refuse a number outside of its annotated bounds; None is no number."""
    if value is None:
        return
    for bound in metadata:
        if isinstance(bound, Gt) and not value > bound.gt:
            raise UsageError(f"{name} is {value}; valid: a number above {bound.gt}")
        if isinstance(bound, Ge) and not value >= bound.ge:
            raise UsageError(f"{name} is {value}; valid: a number of at least {bound.ge}")


def topic_name(name: str) -> None:
    """Refuse what Kafka wouldn't take for a topic."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", name):
        raise UsageError(f"sourceName {name!r} can't be a Kafka topic; valid: letters, digits, '.', '_', '-'")
