"""Checks of settings: each raises ``UsageError``, naming the bad value and the valid ones.

For the command and what it runs alone: `balance` and `keyed_map` are had without what this imports.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from annotated_types import Ge, Gt

from unskew.errors import UsageError

if TYPE_CHECKING:
    from unskew.apps.topology.cost import Cost
    from unskew.apps.topology.settings import Settings


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


def numbers(option: str, text: str, *, least: float = 0.0, whole: bool = False) -> list[float]:
    """``1,2.5`` or ``1..64`` as numbers.

    Raises
    ------
    UsageError
        It isn't that, or a number is below ``least`` or not whole where it must be.

    """
    try:
        if ".." in text:
            first, last = (int(end) for end in text.split(".."))
            values = [float(value) for value in range(first, last + 1)]
        else:
            values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(least <= value < float("inf") and (not whole or value == int(value)) for value in values):
        kind = "whole numbers" if whole else "numbers"
        raise UsageError(f"{option} is {text!r}; valid: {kind} of at least {least:g}, separated by commas, or A..B")
    return values


def cost_of(settings: "Settings") -> "Cost":
    """The cost that settings ask for: so many tuples per process duration, and the classes' factors.

    Raises
    ------
    UsageError
        The speed isn't xN, or the factors aren't numbers.

    """
    from unskew.apps.topology.cost import Cost

    found = re.fullmatch(r"[xX](\d+)", settings.speed)
    if not found:
        raise UsageError(f"speed is {settings.speed!r}; valid: x0 (tuples cost nothing), x1, x2, …")
    seconds = settings.process_ms / 1000 / int(found[1]) if int(found[1]) else 0.0
    factors = numbers("--key-costs", settings.key_costs) if settings.key_costs else ()
    return Cost(seconds, tuple(factors), settings.seed)


def grouping(settings: "Settings") -> None:
    """Refuse a grouping that there isn't, or one without what it needs."""
    from unskew.grouping import create

    try:
        router = create(settings.grouping, settings.workers, seed=settings.seed, **settings.options)
    except ValueError as error:
        raise UsageError(str(error)) from None
    cost = settings.cost
    if cost.factors and not cost.mean:
        raise UsageError(f"key_costs is {settings.key_costs!r}, but tuples cost nothing; valid: with a speed of x1, …")
    if router.uses_cost and not cost.factors:
        raise UsageError(
            f"{router.name} needs each tuple's cost before it is executed; valid: with costs that go by key, such as "
            "--key-costs 1..64"
        )
