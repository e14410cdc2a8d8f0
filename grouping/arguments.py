"""Checking a scheme's parameters: what was given, and what is valid."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: What a load may be: see ``balance`` of the schemes that have that parameter.
BALANCES = ("tuples", "cost")
#: The most that a tuple may cost. The sum of as many such costs as a stream can have is finite.
MOST_COST = 1e100


def integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """``value`` as an int if it is one in [least, most].

    Raises
    ------
    ValueError
        The value isn't valid. The message names the parameter, the value and the valid values.

    """
    fits = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):
        raise ValueError(
            f"{name} is {value!r}; valid: an integer of at least {least}" + (f", at most {most}" if most else "")
        )
    return int(value)


def number(name: str, value: Any, least: float, most: float = math.inf, *, above: bool = False) -> float:
    """``value`` as a float if it is finite and in [least, most], or (least, most] if ``above``.

    Raises
    ------
    ValueError
        The value isn't valid. The message names the parameter, the value and the valid values.

    """
    fits = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or not least <= value <= most or (above and value == least):
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        raise ValueError(
            f"{name} is {value!r}; valid: a number {bound}" + (f", at most {most:g}" if most < math.inf else "")
        )
    return float(value)


def one_of(name: str, value: Any, valid: Sequence[str]) -> str:
    """``value`` if it is one of the valid ones.

    Raises
    ------
    ValueError
        The value isn't valid. The message names the parameter, the value and the valid values.

    """
    if value not in valid:
        raise ValueError(f"{name} is {value!r}; valid: {', '.join(valid)}")
    return str(value)


def check_costs(costs: NDArray[np.float64]) -> None:
    """Raise ValueError, which names the first bad cost, if not all are in [0, ``MOST_COST``]."""
    if costs.size and not (costs.min() >= 0 and costs.max() <= MOST_COST):
        bad = costs[~((costs >= 0) & (costs <= MOST_COST))].flat[0]
        raise ValueError(f"costs has {bad}; valid: numbers from 0 to {MOST_COST:g}")


def fair_shares(weights: Sequence[float] | None, workers: int) -> NDArray[np.float64]:
    """Each worker's share of the load: float64[W], their sum is 1.

    A share is proportional to the worker's weight. Without weights all shares are equal.

    Raises
    ------
    ValueError
        ``weights`` isn't a number above 0 for each worker.

    """
    speeds = np.ones(workers) if weights is None else np.array(weights, np.float64)
    if len(speeds) != workers or not (speeds > 0).all() or not np.isfinite(speeds.sum()):
        raise ValueError(f"weights is {weights}; valid: a number above 0 for each of {workers} workers")
    return speeds / speeds.sum()
