"""Checks schemes' parameters.

A value of a wrong type or out of range is a ``UsageError``, which names the parameter, the value and the valid values.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unskew.errors import UsageError

#: What a load may be: see schemes' parameter ``balance``.
BALANCES = ("tuples", "cost")
#: The most that a tuple may cost, so that sums over any stream are finite.
MOST_COST = 1e100


def check_integer(
    name: str, value: Any, least: int | None = None, most: int | None = None, *, held: int | None = 2**63 - 1
) -> int:
    """``value`` as an int if it is one in [least, most].

    ``held`` is the largest int of an array. The message names it only if the value is larger.
    """
    fits = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if most is None and fits and held is not None and value > held:
        most = held
    if not fits or (least is not None and value < least) or (most is not None and value > most):
        bound = "" if least is None else f" of at least {least}"
        raise UsageError(
            f"{name} is {value!r}; valid: an integer{bound}" + ("" if most is None else f", at most {most}")
        )
    return int(value)


def check_number(
    name: str, value: Any, least: float, most: float = math.inf, *, above: bool = False, below: bool = False
) -> float:
    """``value`` as a float if it is finite and in [least, most]. ``above`` excludes least, ``below`` most."""
    found = _to_real(value)
    if not least <= found <= most or (above and found == least) or (below and found == most):
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        upper = f", {'below' if below else 'at most'} {most:g}" if most < math.inf else ""
        raise UsageError(f"{name} is {value!r}; valid: a number {bound}{upper}")
    return found


def _to_real(value: Any) -> float:
    """``value`` as a float if it is a finite number, else nan, which is in no range."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return math.nan
    try:
        found = float(value)
    except OverflowError:
        return math.nan
    return found if math.isfinite(found) else math.nan


def _is_sequence(values: Any) -> bool:
    """Whether these are ordered values, not a set, and not bytes."""
    return isinstance(values, Collection) and not isinstance(values, (str, bytes, bytearray, Mapping, AbstractSet))


def check_fractions(name: str, values: Any) -> tuple[float, ...]:
    """``values`` as floats if they are a non-empty sequence of numbers in [0, 1]."""
    if not _is_sequence(values) or not len(values):
        raise UsageError(f"{name} is {values!r}; valid: a sequence of numbers of at least 0, at most 1")
    return tuple(check_number(name, each, 0.0, 1.0) for each in values)


def check_bool(name: str, value: Any) -> bool:
    """``value`` as a bool if it is one."""
    if not isinstance(value, (bool, np.bool_)):
        raise UsageError(f"{name} is {value!r}; valid: True, False")
    return bool(value)


def check_choice(name: str, value: Any, valid: Sequence[str]) -> str:
    """``value`` if it is one of the valid ones."""
    if not isinstance(value, str) or value not in valid:
        raise UsageError(f"{name} is {value!r}; valid: {', '.join(valid)}")
    return value


def check_weights(weights: Any, workers: int | None = None) -> list[float]:
    """The workers' weights as floats, if they are numbers above 0, and as many as ``workers`` if given."""
    several = _is_sequence(weights)
    found = [_to_real(weight) for weight in weights] if several else []
    fits = several and all(weight > 0 for weight in found) and math.isfinite(sum(found))
    if not fits or (workers is not None and len(found) != workers):
        each = "each worker" if workers is None else f"each of {workers} workers"
        raise UsageError(f"weights is {weights!r}; valid: a number above 0 for {each}")
    return found


def check_costs(costs: NDArray[np.float64]) -> None:
    """Raise ValueError with the first cost outside [0, ``MOST_COST``], if any."""
    if costs.size and not (costs.min() >= 0 and costs.max() <= MOST_COST):
        bad = costs[~((costs >= 0) & (costs <= MOST_COST))].flat[0]
        raise ValueError(f"costs has {bad}; valid: numbers from 0 to {MOST_COST:g}")


def fair_shares(weights: Sequence[float] | None, workers: int) -> NDArray[np.float64]:
    """Each worker's share of the load: float64[W], with sum 1.

    A share is proportional to the worker's weight (``check_weights``). Without weights all shares are equal.
    """
    of_each = np.ones(workers) if weights is None else np.array(weights, np.float64)
    return of_each / of_each.sum()
